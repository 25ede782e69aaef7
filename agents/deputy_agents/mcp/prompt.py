"""Prompts of MCP servers as slash commands: ``/mcp__server__prompt arguments``."""

from collections.abc import Mapping
from dataclasses import dataclass

from deputy_agents.domain.errors import InvalidRequest, ToolError
from deputy_agents.mcp.catalog import PromptInfo
from deputy_agents.mcp.connection import McpConnection
from deputy_agents.mcp.tool import content_text
from deputy_agents.text import clean, cut, split_words, visible

MAX_PROMPT = 64 * 1024
"""Maximum characters of a filled prompt."""


@dataclass(frozen=True, slots=True)
class McpPrompt:
    """A prompt of the MCP server behind ``connection``."""

    connection: McpConnection
    info: PromptInfo

    @property
    def name(self) -> str:
        return f"mcp__{self.connection.entry.name}__{self.info.name}"

    @property
    def description(self) -> str:
        return self.info.description or f"A prompt of the MCP server {self.connection.entry.name}."

    @property
    def argument_hint(self) -> str | None:
        """Required and optional arguments, such as ``<topic> [depth]``."""
        names = self.info.arguments.items()
        return " ".join(f"<{name}>" if required else f"[{name}]" for name, required in names) or None

    async def filled(self, arguments: str) -> str:
        """The prompt with ``arguments``, as one text. Quoted words are one argument; the last argument gets the rest.

        Raises:
            InvalidRequest: an argument is missing, or the MCP server returns no text.
        """
        values = self._parse(arguments)
        try:
            result = await self.connection.get_prompt(self.info.name, values)
        except ToolError as error:
            raise InvalidRequest(f"/{self.name}: {error}", "prompt") from None
        texts = [await content_text(message.content, []) for message in result.messages]
        text = "\n\n".join(filter(None, texts))
        if not text.strip():
            raise InvalidRequest(f"/{self.name}: the MCP server returned no text.", "prompt")
        return cut(clean(self.connection.redacted(text)), MAX_PROMPT)

    def _parse(self, arguments: str) -> Mapping[str, str]:
        names = tuple(self.info.arguments)
        words = _words(arguments, len(names))
        missing = [name for name in names[len(words) :] if self.info.arguments[name]]
        if missing:
            raise InvalidRequest(
                f"/{self.name} needs {self.argument_hint}: {visible(missing[0])} is missing.", "prompt"
            )
        return dict(zip(names, words, strict=False))


def _words(arguments: str, most: int) -> list[str]:
    if most <= 1:
        return [arguments][: most if arguments else 0]
    words = split_words(arguments)
    return [*words[: most - 1], " ".join(words[most - 1 :])] if len(words) > most else words
