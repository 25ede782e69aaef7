"""Mentions in a prompt (``@src/a.py``, ``@src/a.py#L3-L9``, ``@src/``, ``@Name``, ``@diagnostics``) and what each
attaches.

A mention is read with the same tools and under the same gate as if the agent read it: unsaved text takes precedence,
an attached file counts as read, and a file that needs approval is not attached. An ``@`` that names nothing is plain
text.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.message import Block, Text
from deputy_agents.domain.rule import AccessRequest
from deputy_agents.files.place import PathKind
from deputy_agents.tool.base import Tool, ToolContext
from deputy_agents.tool.code import Diagnostics
from deputy_agents.tool.read import ListDir, ReadFile
from deputy_agents.tool.search import Grep

MAX_MENTIONS = 20
MAX_CHARS = 120_000
"""Limit of all attachments of one prompt; the agent can read the rest itself."""

DIAGNOSTICS = "diagnostics"
"""``@diagnostics`` attaches all problems that the editor shows, ``@diagnostics:src`` only those below ``src``."""

_MENTION = re.compile(r'(?<![\w@./-])@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>[^\s@"\'`<>()\[\]{},;]+))')
_LINES = re.compile(r"(?:#L?|:)(?P<first>\d+)(?:-L?(?P<last>\d+))?$")
_SYMBOL = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_DEFINES = (
    r"^\s*(?:[\w@]+\s+)*?(?:class|def|func|function|fn|struct|enum|interface|trait|impl|type|module|namespace|const|let"
    r"|var|val|static)\b[^=\n]*\b{name}\b|^{name}\s*[:=]"
)


@dataclass(frozen=True, slots=True)
class Mention:
    """``name`` as written, without the lines; ``first`` and ``last`` count from 1."""

    name: str
    first: int | None = None
    last: int | None = None


def mentions(text: str) -> Iterator[Mention]:
    """The mentions in ``text``, without duplicates."""
    seen: set[Mention] = set()
    for found in _MENTION.finditer(text):
        name = found["quoted"] or found["plain"].rstrip(".:!?")
        lines = _LINES.search(name)
        if lines is None:
            mention = Mention(name)
        else:
            first = int(lines["first"])
            mention = Mention(name[: lines.start()], first, max(first, int(lines["last"] or first)))
        if mention.name and mention not in seen:
            seen.add(mention)
            yield mention


async def attachments(text: str, context: ToolContext, allowed: Callable[[AccessRequest], bool]) -> tuple[Block, ...]:
    """The content of the mentions in ``text``, in order. ``allowed`` is the decision of the gate."""
    blocks: list[Block] = []
    room = MAX_CHARS
    for index, mention in enumerate(mentions(text)):
        if index >= MAX_MENTIONS or room <= 0:
            break
        for block in await _attachment(mention, context, allowed):
            room -= len(block.text) if isinstance(block, Text) else 0
            if room > 0:
                blocks.append(block)
    return tuple(blocks)


async def _attachment(
    mention: Mention, context: ToolContext, allowed: Callable[[AccessRequest], bool]
) -> tuple[Block, ...]:
    why = ""
    for tool, input in _candidates(mention):
        try:
            args = tool.parse(input)
            prepared = await tool.prepare(args, context)
            if not all(map(allowed, prepared.access)):
                return _not_attached(mention, "reading it needs approval")
            output = await tool.run(args, context)
        except ToolError as error:
            if isinstance(tool, ReadFile) and await _is_file(mention, context):
                return _not_attached(mention, error)
            why = str(error) if isinstance(tool, Diagnostics) else why
            continue
        if isinstance(tool, Grep) and not output.locations:
            continue
        heading = f"[@{mention.name}] {tool.spec.name}({prepared.target})"
        return (Text(f"{heading}\n{output.content}"), *output.images)
    return _not_attached(mention, why) if why else ()


def _not_attached(mention: Mention, why: object) -> tuple[Block, ...]:
    return (Text(f"[@{mention.name} is not attached: {why}]"),)


async def _is_file(mention: Mention, context: ToolContext) -> bool:
    """Whether a file with that name exists, so that the mention cannot mean anything else."""
    with suppress(ToolError):
        return (await context.workspace.locate(mention.name, context.cwd)).kind is PathKind.FILE
    return False


def _candidates(mention: Mention) -> Iterator[tuple[Tool, dict[str, object]]]:
    """The possible meanings of a mention as tool calls, the most likely first."""
    what, _, path = mention.name.partition(":")
    if what == DIAGNOSTICS:
        yield Diagnostics(), {"path": path or "."}
    lines: dict[str, object] = {}
    if mention.first is not None and mention.last is not None:
        lines = {"offset": max(1, mention.first), "limit": min(2000, mention.last - mention.first + 1)}
    yield ReadFile(), {"path": mention.name, **lines}
    yield ListDir(), {"path": mention.name}
    if _SYMBOL.fullmatch(mention.name):
        yield Grep(), {"pattern": _DEFINES.replace("{name}", mention.name.rpartition(".")[2])}
