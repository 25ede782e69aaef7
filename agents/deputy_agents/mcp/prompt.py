"""Prompts of MCP servers, which people call as ``/mcp__server__prompt arguments``."""

from collections.abc import Mapping
from dataclasses import dataclass

from deputy_agents.domain.errors import InvalidRequest, ToolError
from deputy_agents.mcp.catalog import PromptInfo
from deputy_agents.mcp.connection import McpConnection
from deputy_agents.mcp.tool import told
from deputy_agents.text import clean, cut, split_words, visible

MAX_PROMPT = 64 * 1024
"""Characters of a prompt that a server has written."""


@dataclass(frozen=True, slots=True)
class McpPrompt:
    """A prompt that the server behind ``connection`` offers."""

    connection: McpConnection
    offered: PromptInfo

    @property
    def name(self) -> str:
        return f"mcp__{self.connection.entry.name}__{self.offered.name}"

    @property
    def description(self) -> str:
        return self.offered.description or f"A prompt of the MCP server {self.connection.entry.name}."

    @property
    def argument_hint(self) -> str | None:
        """``<topic> [depth]``: what has to be given, and what may be."""
        names = self.offered.arguments.items()
        return " ".join(f"<{name}>" if needed else f"[{name}]" for name, needed in names) or None

    async def filled(self, arguments: str) -> str:
        """What the server makes of it, as one prompt. Words in quotation marks are one argument, and what is left over
        belongs to the last.

        Raises:
            InvalidRequest: an argument is missing, or the server gives no prompt.
        """
        given = self._given(arguments)
        try:
            result = await self.connection.fill(self.offered.name, given)
        except ToolError as error:
            raise InvalidRequest(f"/{self.name}: {error}", "prompt") from None
        said = "\n\n".join(filter(None, (told(message.content, []) for message in result.messages)))
        if not said.strip():
            raise InvalidRequest(f"/{self.name}: the server gives no text for it.", "prompt")
        return cut(clean(self.connection.told(said)), MAX_PROMPT)

    def _given(self, arguments: str) -> Mapping[str, str]:
        names = tuple(self.offered.arguments)
        words = _words(arguments, len(names))
        missing = [name for name in names[len(words) :] if self.offered.arguments[name]]
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
