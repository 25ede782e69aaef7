"""Drawing: views and questions as ``rich`` renderables, and as plain lines. No state, no I/O.

All text that an agent, a model or a file had a part in is made visible first: what is approved is what is seen.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from urllib.parse import unquote, urlsplit

from rich.columns import Columns
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markdown import Markdown
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from deputy_agents.text import visible
from deputy_protocol.agent import AgentStatus
from deputy_protocol.permission import (
    CommandPreview,
    DiffPreview,
    OptionKind,
    PermissionOption,
    PermissionRequest,
    TextPreview,
)
from deputy_protocol.tool import ToolStatus
from deputy_server.icons import ASKING, CANCELLED, DONE, FAILED, QUEUED, RUNNING
from deputy_server.terminal.view import Block, Call, Item, Said, View, status_line

_SHORT = {
    OptionKind.ALLOW_ONCE: "Approve",
    OptionKind.ALLOW_ALWAYS: "Always",
    OptionKind.REJECT_ONCE: "Deny",
    OptionKind.REJECT_ALWAYS: "Never",
}
_EDGES = 6
"""Columns that a frame takes of the line in which its title stands."""
CALLS_SHOWN = 3
TAIL = 8

_CALL_STATES = {
    ToolStatus.PENDING: (QUEUED, "dim"),
    ToolStatus.IN_PROGRESS: (RUNNING, "cyan"),
    ToolStatus.COMPLETED: (DONE, "green"),
    ToolStatus.FAILED: (FAILED, "red"),
    ToolStatus.CANCELLED: (CANCELLED, "yellow"),
}
_BLOCK_STATES = {
    AgentStatus.IDLE: (QUEUED, "idle", "dim"),
    AgentStatus.PENDING: (QUEUED, "queued", "dim"),
    AgentStatus.RUNNING: (RUNNING, "running", "cyan"),
    AgentStatus.COMPLETED: (DONE, "completed", "green"),
    AgentStatus.FAILED: (FAILED, "failed", "red"),
    AgentStatus.CANCELLED: (CANCELLED, "cancelled", "yellow"),
}


def lines_of(text: str) -> list[str]:
    """The lines of ``text``, with all that would not be seen escaped; only a line feed ends a line."""
    return [visible(line.expandtabs(4)) for line in text.split("\n")]


def one_line(text: str) -> str:
    """The text in one line."""
    return visible(" ".join(text.split()))


# -- blocks ------------------------------------------------------------------------------------------------------


def state_of(block: Block) -> tuple[str, str, str]:
    """Icon, word and style of a block's state."""
    if block.asking:
        return ASKING, "waiting for you", "bold yellow"
    icon, word, style = _BLOCK_STATES[block.status]
    match block:
        case Block(status=AgentStatus.RUNNING, wait=wait) if wait:
            return icon, one_line(wait), "yellow"
        case Block(status=AgentStatus.PENDING, queue_position=int(position)):
            return icon, f"queued, place {position}", style
        case Block(status=AgentStatus.FAILED, reason=reason) if reason is not None:
            return icon, f"failed: {str(reason).replace('_', ' ')}", style
        case _:
            return icon, word, style


def figures(block: Block, now: float) -> str:
    """``12 s · 5 calls · 3.1k tok``."""
    seconds = max(0.0, (block.ended or now) - block.started)
    parts = [f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s", _plural(block.call_count, "call")]
    if block.tokens:
        parts.append(f"{tokens(block.tokens)} tok")
    return " · ".join(parts)


def tokens(count: int) -> str:
    """``980``, ``3.1k``."""
    return str(count) if count < 1000 else f"{count / 1000:.1f}k"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _block(block: Block, now: float, key: str, most_calls: int) -> RenderableType:
    icon, word, style = state_of(block)
    head = Table.grid(padding=(0, 1), expand=True)
    head.add_column(no_wrap=True)
    head.add_column(no_wrap=True, ratio=1, overflow="ellipsis")
    head.add_column(no_wrap=True, justify="right")
    name = Text.assemble((one_line(block.label), "bold"), (f"  {block.definition}", "dim"), (f"  {word}", style))
    right = Text(figures(block, now), style="dim")
    if key:
        right.append(f"  [{key}: stop]", style="bold")
    head.add_row(Text(icon, style=style), name, right)
    shown = block.calls[-most_calls:] if most_calls else ()
    lines = [Padding(_call(call), (0, 0, 0, 4)) for call in shown]
    hidden = len(block.calls) - len(shown)
    if hidden and most_calls:
        lines.insert(0, Padding(Text(f"+ {_plural(hidden, 'earlier call')}", style="dim"), (0, 0, 0, 4)))
    if block.status is AgentStatus.FAILED and block.error:
        lines.append(Padding(Text(one_line(block.error), style="red"), (0, 0, 0, 4)))
    return Padding(Group(head, *lines), (0, 0, 0, 2 * max(0, block.depth - 1)))


def _call(call: Call) -> Text:
    icon, style = _CALL_STATES[call.status]
    text = Text.assemble((f"{icon} ", style), one_line(call.title))
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def item(item: Item, now: float, key: str = "", most_calls: int = CALLS_SHOWN, tail: int = TAIL) -> RenderableType:
    """One item. ``key`` is the key that stops it; a block shows its last ``most_calls`` calls, and text that is still
    growing its last ``tail`` lines."""
    match item:
        case Block():
            return _block(item, now, key, most_calls)
        case Call():
            return _call(item)
        case Said(whole=True):
            return Padding(Markdown("\n".join(lines_of(item.text))), (1, 0))
        case Said():
            return Text("\n".join(lines_of(item.text)[-tail:]), no_wrap=True, overflow="ellipsis")


def live(
    view: View, skip: int, now: float, keys: Mapping[str, str], below: RenderableType | None, room: int
) -> RenderableType:
    """The part of the screen that moves: all items after the first ``skip``, an open question, the status line.

    ``keys`` maps agent ids to the keys that stop them. Items have ``room`` lines: blocks fold, and the oldest items
    leave, when that is too little.
    """
    moving = list(view.items.values())[skip:][-room:] if room > 0 else []
    # A block has a head, and a line that counts the calls that are not shown.
    calls = max(0, min(CALLS_SHOWN, room // max(1, len(moving)) - 2))
    tail = max(1, min(TAIL, room - len(moving) + 1))
    parts = [item(it, now, keys.get(it.agent_id, "") if isinstance(it, Block) else "", calls, tail) for it in moving]
    if below is not None:
        parts.append(below)
    waits = f" · {one_line(view.wait)}" if view.wait else ""
    return Group(*parts, Text(status_line(view) + waits, style="reverse", no_wrap=True, overflow="ellipsis"))


# -- questions ---------------------------------------------------------------------------------------------------


def diff_lines(preview: DiffPreview) -> list[str]:
    """A unified diff of a preview, without its two header lines; invisible characters escaped."""
    old, new = preview.old_text or "", preview.new_text
    if all(text.count("\n") == text.count("\r\n") for text in (old, new)):
        old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if new.endswith("\n") and (not old or old.endswith("\n")):
        old, new = old.removesuffix("\n"), new.removesuffix("\n")
    before, after = lines_of(old) if old else [], lines_of(new)
    return list(unified_diff(before, after, lineterm="", n=2))[2:]


def preview_lines(request: PermissionRequest) -> Iterator[tuple[str, str]]:
    """What is to be done, as pairs of line and style."""
    match request.preview:
        case DiffPreview() as preview:
            if preview.old_text is None:
                yield "new file", "bold"
            for line in diff_lines(preview):
                yield line, {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        case CommandPreview() as preview:
            yield f"in {path_of(preview.cwd)}", "dim"
            for line in lines_of(preview.command):
                yield line, "bold"
        case TextPreview() as preview:
            for line in lines_of(preview.text):
                yield line, ""
        case None:
            return


def path_of(uri: str) -> str:
    """The path of a ``file:`` URI for people."""
    parts = urlsplit(uri)
    return visible(unquote(parts.path) if parts.scheme == "file" else uri)


def _preview(asked: PermissionRequest, most: int | None) -> Iterator[Text]:
    lines = list(preview_lines(asked))
    yield from (Text(line, style=style) for line, style in lines[:most])
    if most is not None and len(lines) > most:
        yield Text(f"… ? shows {_plural(len(lines) - most, 'more line')}", style="bold dim")


@dataclass(frozen=True, slots=True)
class _Box:
    """A frame that says who asks: in its upper edge, or inside where that is too short for the whole title."""

    asked: PermissionRequest
    place: str
    body: Sequence[RenderableType]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        title = _asker(self.asked)
        fits = title.cell_len <= options.max_width - _EDGES
        yield Panel(
            Group(*self.body) if fits else Group(title, *self.body),
            title=title if fits else None,
            title_align="left",
            subtitle=Text(self.place),
            subtitle_align="right",
            border_style="yellow",
        )


def _asker(asked: PermissionRequest) -> Text:
    return Text(one_line(asked.title), style="bold yellow")


def permission_request(
    asked: PermissionRequest, keys: Mapping[str, PermissionOption], waiting: int, room: int | None
) -> RenderableType:
    """An open question. ``keys`` maps a key to the option that it chooses; ``waiting`` counts the questions behind
    this one; ``room`` is how many lines of the preview are shown, ``None`` for all of it."""
    body = [*_preview(asked, room)]
    if asked.reason:
        body.append(Text(one_line(asked.reason), style="dim"))
    choices = _choices((f"{key} {one_line(option.name)}" for key, option in keys.items()), 3)
    place = f"{asked.batch.index + 1} of {asked.batch.size}"
    behind = f" · {waiting} more behind it" if waiting else ""
    return _Box(asked, place + behind, [*body, Text(""), choices])


def small_permission_request(asked: PermissionRequest, keys: Mapping[str, PermissionOption], room: int) -> RenderableType:
    """An open question for a small window: who asks for what, ``room`` lines of the preview, and the keys."""
    choices = _choices([*(f"{key} {_SHORT[option.kind]}" for key, option in keys.items()), "? all"], 2)
    return Group(_asker(asked), *_preview(asked, room), choices)


def _choices(told: Iterable[str], gap: int) -> RenderableType:
    """In as few lines as they need; none is broken that fits into one."""
    return Columns([Text(choice, style="bold") for choice in told], padding=(0, gap))


def heading(text: str) -> RenderableType:
    """Between the parts of a story."""
    return Group("", Rule(Text(text, style="bold"), align="left", style="dim"))
