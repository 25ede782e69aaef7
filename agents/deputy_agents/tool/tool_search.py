"""Search for tools of MCP servers. If there are many, requests have only those that an agent has found, because each
tool costs a part of every request."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from deputy_agents.domain.event import ToolKind
from deputy_agents.domain.message import Message, ToolResult, ToolUse
from deputy_agents.domain.rule import AccessRequest, Action
from deputy_agents.ports.model import ToolSpec
from deputy_agents.text import cut, visible
from deputy_agents.tool.args import Args, ArgsTool
from deputy_agents.tool.base import Prepared, ToolContext, ToolOutput

NAME = "tool_search"
MAX_TOOLS = 30
"""Tools of MCP servers that are part of every request."""
MAX_BYTES = 24 * 1024
"""The same, in bytes of JSON."""
MAX_FOUND = 10
_DESCRIPTION = 160
_MAX_SERVERS = 20
_WORD = re.compile(r"[a-z0-9]+")
_LISTED = re.compile(r"^- `(mcp__[\w-]+)`", re.MULTILINE)


def are_many(specs: Iterable[ToolSpec]) -> bool:
    """Whether these tools of MCP servers are too many to be part of every request."""
    size = 0
    for count, spec in enumerate(specs, 1):
        size += len(spec.name) + len(spec.description) + len(json.dumps(spec.input_schema, default=str))
        if count > MAX_TOOLS or size > MAX_BYTES:
            return True
    return False


class ToolSearchArgs(Args):
    query: Annotated[str, Field(min_length=1, max_length=300, description="Words of what the tool should do.")]
    limit: Annotated[int, Field(ge=1, le=MAX_FOUND, description="Maximum number of tools.")] = 5


class ToolSearch(ArgsTool[ToolSearchArgs]):
    """Finds tools among ``specs``."""

    def __init__(self, specs: Sequence[ToolSpec]) -> None:
        servers = Counter(spec.name.split("__")[1] for spec in specs)
        listed = ", ".join(f"{visible(name)} ({count})" for name, count in servers.most_common(_MAX_SERVERS))
        description = (
            "Find tools of MCP servers by words of their name and description. You can call the tools that it finds "
            f"from then on. Search before you conclude that a tool is missing. Servers and their tools: {listed}."
        )
        super().__init__(NAME, ToolKind.SEARCH, ToolSearchArgs, description)
        self._specs = tuple(specs)

    async def prepare(self, args: ToolSearchArgs, context: ToolContext) -> Prepared:
        del context
        target = cut(visible(args.query), 80)
        return Prepared(target, (AccessRequest(self.name, Action.SESSION, target),))

    async def run(self, args: ToolSearchArgs, context: ToolContext) -> ToolOutput:
        del context
        found = ranked(args.query, self._specs)[: args.limit]
        if not found:
            servers = sorted({spec.name.split("__")[1] for spec in self._specs})
            return ToolOutput(f"No tool matches. Use other words, or the name of a server: {', '.join(servers)}.")
        lines = [f"- `{spec.name}`: {cut(' '.join(spec.description.split()), _DESCRIPTION)}" for spec in found]
        return ToolOutput("\n".join(["You can call these tools now:", *lines]))


def ranked(query: str, specs: Iterable[ToolSpec]) -> list[ToolSpec]:
    """The tools that match words of ``query``, the best first."""
    wanted = set(_WORD.findall(query.lower()))
    scored = [(_score(wanted, spec), spec) for spec in specs]
    return [spec for score, spec in sorted(scored, key=lambda one: (-one[0], one[1].name)) if score]


def _score(wanted: set[str], spec: ToolSpec) -> int:
    """Words of the name count most, parts of a word least."""
    name, text = spec.name.lower(), spec.description.lower()
    in_name, in_text = set(_WORD.findall(name.replace("_", " "))), set(_WORD.findall(text))
    score = 0
    for word in wanted:
        if word in in_name:
            score += 5
        elif word in in_text:
            score += 2
        elif len(word) > 2 and (word in name or word in text):
            score += 1
    return score


class FoundTools:
    """The tools that an agent has found, from its history alone: a restart and a rewind change nothing about it."""

    def __init__(self) -> None:
        self._seen = 0
        self._searches: set[str] = set()
        self._names: dict[str, None] = {}

    def names(self, history: Sequence[Message], offered: Mapping[str, object]) -> Iterator[str]:
        """Those of ``offered``, in the order in which they were found."""
        if len(history) < self._seen:  # it was gone back over
            self._seen, self._searches, self._names = 0, set(), {}
        for message in history[self._seen :]:
            self._read(message)
        self._seen = len(history)
        return (name for name in self._names if name in offered)

    def _read(self, message: Message) -> None:
        for block in message.content:
            match block:
                case ToolUse(id=call_id, name=name) if name == NAME:
                    self._searches.add(call_id)
                case ToolResult(call_id, content) if call_id in self._searches:
                    self._names |= dict.fromkeys(_LISTED.findall(content))
                case _:
                    pass
