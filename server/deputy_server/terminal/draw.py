"""Draws views and permission requests as ``rich`` renderables and as plain lines. No state, no I/O.

Invisible characters in text from agents, models and files are escaped, so that users see exactly what they approve.
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

from deputy_agents.text import cut, visible
from deputy_protocol.agent import AgentStatus
from deputy_protocol.permission import (
    CommandPreview,
    DiffPreview,
    OptionKind,
    PermissionOption,
    PermissionRequest,
    RuleScope,
    TextPreview,
)
from deputy_protocol.tool import ToolStatus
from deputy_server.edit_diff import diff_lines
from deputy_server.icons import ASKING, CANCELLED, DONE, FAILED, QUEUED, RUNNING
from deputy_server.preview import hunk_lines
from deputy_server.terminal.view import (
    AgentBlock,
    Item,
    MessageItem,
    ThoughtItem,
    ToolCallItem,
    View,
    context_gauge,
    status_line,
)

_MAX_THOUGHT = 100
"""Characters shown of what a model thought."""
_SHORT_NAMES = {
    OptionKind.ALLOW_ONCE: "Approve",
    OptionKind.REJECT_ONCE: "Deny",
    OptionKind.REJECT_ALWAYS: "Never",
}
_SCOPES = {RuleScope.PROJECT: "Project", RuleScope.USER: "Always"}
_MAX_RULE_IN_NAME = 60
"""Number of characters of a rule that is shown in the name of its option; a longer one has its own line."""
_EDGES = 6
"""Columns that a frame takes in the line of its title."""
MAX_CALLS = 3
"""Number of tool calls that a block shows."""
MAX_DIFF_LINES = 12
"""Number of lines of an edit's diff that is shown below the edit."""
MAX_TITLE_LINES = 3
"""Number of lines of a request's title in a small window."""
MAX_TEXT_LINES = 8
"""Number of lines that an incomplete message shows."""

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
    """The lines of ``text``, with invisible characters escaped. Only a line feed ends a line."""
    return [visible(line.expandtabs(4)) for line in text.split("\n")]


def one_line(text: str) -> str:
    """``text`` in one line, with invisible characters escaped."""
    return visible(" ".join(text.split()))


# -- blocks ------------------------------------------------------------------------------------------------------


def state_of(block: AgentBlock) -> tuple[str, str, str]:
    """Icon, text and style of a block's state."""
    if block.permission_requests:
        return ASKING, "waiting for you", "bold yellow"
    icon, word, style = _BLOCK_STATES[block.status]
    match block:
        case AgentBlock(status=AgentStatus.RUNNING, waiting_for=waiting_for) if waiting_for:
            return icon, one_line(waiting_for), "yellow"
        case AgentBlock(status=AgentStatus.PENDING, queue_position=int(position)):
            return icon, f"queued, place {position}", style
        case AgentBlock(status=AgentStatus.FAILED, reason=reason) if reason is not None:
            return icon, f"failed: {str(reason).replace('_', ' ')}", style
        case AgentBlock(status=AgentStatus.COMPLETED, edits_not_made=int(count)) if count:
            return CANCELLED, f"completed, {_plural(count, 'edit')} not made", "yellow"
        case _:
            return icon, word, style


def figures(block: AgentBlock, now: float) -> str:
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


def _block(block: AgentBlock, now: float, stop_key: str, max_calls: int, diffs: bool) -> RenderableType:
    icon, word, style = state_of(block)
    head = Table.grid(padding=(0, 1), expand=True)
    head.add_column(no_wrap=True)
    head.add_column(no_wrap=True, ratio=1, overflow="ellipsis")
    head.add_column(no_wrap=True, justify="right")
    name = Text.assemble((one_line(block.label), "bold"), (f"  {kind(block)}", "dim"), (f"  {word}", style))
    right = Text(figures(block, now), style="dim")
    if stop_key:
        right.append(f"  [{stop_key}: stop]", style="bold")
    head.add_row(Text(icon, style=style), name, right)
    last = block.calls[-max_calls:] if max_calls else ()
    shown = [call for call in block.calls if call in last or (diffs and call.diff)]
    lines = [Padding(_call(call, diffs), (0, 0, 0, 4)) for call in shown]
    hidden = len(block.calls) - len(shown)
    if hidden and max_calls:
        lines.insert(0, Padding(Text(f"+ {_plural(hidden, 'earlier call')}", style="dim"), (0, 0, 0, 4)))
    if block.status is AgentStatus.FAILED and block.error:
        lines.append(Padding(Text(one_line(block.error), style="red"), (0, 0, 0, 4)))
    return Padding(Group(head, *lines), (0, 0, 0, 2 * max(0, block.depth - 1)))


def kind(block: AgentBlock) -> str:
    """Its definition, and its model and effort if they are not those of the primary agent."""
    return block.definition + (f"  {one_line(block.model)}" if block.model else "")


def thought_line(text: str) -> str:
    """What the primary agent thought, on one line."""
    return f"  thinking: {cut(one_line(text), _MAX_THOUGHT)}"


def _call(call: ToolCallItem, diffs: bool) -> RenderableType:
    icon, style = _CALL_STATES[call.status]
    text = Text.assemble((f"{icon} ", style), one_line(call.title))
    text.no_wrap, text.overflow = True, "ellipsis"
    lines = edit_lines(call) if diffs else []
    return Group(text, *(Padding(Text(line, style=_style_of(line)), (0, 0, 0, 4)) for line in lines))


def edit_lines(call: ToolCallItem) -> list[str]:
    """The beginning of what an edit has changed."""
    return diff_lines(call.diff, MAX_DIFF_LINES) if call.diff else []


def _style_of(line: str) -> str:
    """The style of a line of a diff."""
    return {"+": "green", "-": "red", "@": "cyan", "\\": "dim"}.get(line[:1], "")


def item(
    item: Item,
    now: float,
    stop_key: str = "",
    max_calls: int = MAX_CALLS,
    max_lines: int = MAX_TEXT_LINES,
    *,
    diffs: bool = False,
) -> RenderableType:
    """One item. ``stop_key`` is the key that stops its agent. A block shows its last ``max_calls`` tool calls, an
    incomplete message its last ``max_lines`` lines. With ``diffs``, edits show what they have changed."""
    match item:
        case AgentBlock():
            return _block(item, now, stop_key, max_calls, diffs)
        case ToolCallItem():
            return _call(item, diffs)
        case ThoughtItem():
            return Text(thought_line(item.text), style="dim italic", no_wrap=True, overflow="ellipsis")
        case MessageItem(complete=True):
            return Padding(Markdown("\n".join(lines_of(item.text))), (1, 0))
        case MessageItem():
            return Text("\n".join(lines_of(item.text)[-max_lines:]), no_wrap=True, overflow="ellipsis")


def live(
    view: View, skip: int, now: float, stop_keys: Mapping[str, str], below: RenderableType | None, room: int
) -> RenderableType:
    """The running part of a session: all items after the first ``skip``, what is ``below`` them, the status line.

    ``stop_keys`` maps agent ids to the keys that stop them. The items have ``room`` lines. If these are too few, blocks
    hide their tool calls, and the oldest items are left out.
    """
    shown = list(view.items.values())[skip:][-room:] if room > 0 else []
    # A block has a title, and a line with the number of hidden tool calls.
    max_calls = max(0, min(MAX_CALLS, room // max(1, len(shown)) - 2))
    max_lines = max(1, min(MAX_TEXT_LINES, room - len(shown) + 1))
    parts = [
        item(it, now, stop_keys.get(it.agent_id, "") if isinstance(it, AgentBlock) else "", max_calls, max_lines)
        for it in shown
    ]
    if below is not None:
        parts.append(below)
    facts = (status_line(view), context_gauge(view), one_line(view.waiting_for))
    return Group(*parts, Text(" · ".join(filter(None, facts)), style="reverse", no_wrap=True, overflow="ellipsis"))


# -- permission requests -----------------------------------------------------------------------------------------


def proposal_lines(preview: DiffPreview) -> list[str]:
    """A unified diff without its two header lines, with invisible characters escaped."""
    if preview.new_text is None:
        return list(hunk_lines(preview.hunks or (), truncated=bool(preview.truncated)))
    old, new = preview.old_text or "", preview.new_text
    if all(text.count("\n") == text.count("\r\n") for text in (old, new)):
        old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if new.endswith("\n") and (not old or old.endswith("\n")):
        old, new = old.removesuffix("\n"), new.removesuffix("\n")
    before, after = lines_of(old) if old else [], lines_of(new)
    return list(unified_diff(before, after, lineterm="", n=2))[2:]


def preview_lines(request: PermissionRequest) -> Iterator[tuple[str, str]]:
    """The lines of the preview, each with its style."""
    match request.preview:
        case DiffPreview() as preview:
            if preview.old_text is None and not preview.hunks:
                yield "new file", "bold"
            for line in proposal_lines(preview):
                yield line, _style_of(line)
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
    """The path of a ``file:`` URI for display."""
    parts = urlsplit(uri)
    return visible(unquote(parts.path) if parts.scheme == "file" else uri)


def _preview(request: PermissionRequest, max_lines: int | None) -> Iterator[Text]:
    lines = list(preview_lines(request))
    yield from (Text(line, style=style) for line, style in lines[:max_lines])
    if max_lines is not None and len(lines) > max_lines:
        yield Text(f"… press ? for {_plural(len(lines) - max_lines, 'more line')}", style="bold dim")


@dataclass(frozen=True, slots=True)
class _RequestPanel:
    """A frame around a permission request. Its title is in the upper edge, or inside if the edge is too short."""

    request: PermissionRequest
    position: str
    body: Sequence[RenderableType]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        title = _request_title(self.request)
        fits = title.cell_len <= options.max_width - _EDGES
        yield Panel(
            Group(*self.body) if fits else Group(title, *self.body),
            title=title if fits else None,
            title_align="left",
            subtitle=Text(self.position) if self.position else None,
            subtitle_align="right",
            border_style="yellow",
        )


def _request_title(request: PermissionRequest) -> Text:
    return Text(one_line(request.title), style="bold yellow")


def permission_request(
    request: PermissionRequest, keys: Mapping[str, PermissionOption], behind: int, room: int
) -> RenderableType:
    """An open permission request. ``keys`` maps each key to the option that it chooses. ``behind`` is the number of
    requests that follow. ``room`` is the number of preview lines to show."""
    choices = (
        f"{key} {_verb(option)} {_plural(len(rules), 'rule')}…"
        if (rules := listed_rules(option))
        else f"{key} {visible(option.name)}"
        for key, option in keys.items()
    )
    return _panel(request, [*_preview(request, room)], [_choices(choices, 3)], _position(request, behind))


def whole_permission_request(request: PermissionRequest, keys: Mapping[str, PermissionOption]) -> RenderableType:
    """A permission request with all of its preview, and with all rules of the options in ``keys``, one per line."""
    short = (f"{key} {visible(option.name)}" for key, option in keys.items() if not listed_rules(option))
    return _panel(request, [*_preview(request, None)], [_choices(short, 3), *_rule_lists(keys)], _position(request, 0))


def _panel(
    request: PermissionRequest, body: Sequence[RenderableType], choices: Sequence[RenderableType], position: str
) -> RenderableType:
    reason = [Text(one_line(request.reason), style="dim")] if request.reason else []
    return _RequestPanel(request, position, [*body, *reason, Text(""), *choices])


def _position(request: PermissionRequest, behind: int) -> str:
    """``2 of 3`` within the requests of one reply; and how many more wait, if these are others."""
    index, size = request.batch.index + 1, request.batch.size
    others = behind > size - index
    return " · ".join([*([f"{index} of {size}"] if size > 1 else []), *([f"{behind} more waiting"] if others else [])])


def listed_rules(option: PermissionOption) -> Sequence[str]:
    """The rules that the name of ``option`` does not contain: several, or a long one."""
    rules = [visible(rule) for rule in option.rules or ()]
    return rules if len(rules) > 1 or any(len(rule) > _MAX_RULE_IN_NAME for rule in rules) else ()


def _rule_lists(keys: Mapping[str, PermissionOption]) -> Iterator[RenderableType]:
    for key, option in keys.items():
        if rules := listed_rules(option):
            yield Text(f"{key} {_verb(option)} {_plural(len(rules), 'rule')}:", style="bold")
            yield from (Padding(Text(rule), (0, 0, 0, 2)) for rule in rules)


def _verb(option: PermissionOption) -> str:
    """What the option does, without its rules."""
    return visible(option.name.partition(":")[0])


def _short_name(option: PermissionOption) -> str:
    if option.kind is OptionKind.ALLOW_ALWAYS:
        return _SCOPES.get(option.scope or RuleScope.SESSION, "Session")
    return _SHORT_NAMES[option.kind]


def is_cut(request: PermissionRequest, room: int) -> bool:
    """Whether ``room`` lines are too few for what must be seen before it is approved: a command or a text. The first
    lines of a change are enough to know what it is, and the rest is one key away."""
    return not isinstance(request.preview, DiffPreview) and len(list(preview_lines(request))) > room


def compact_permission_request(
    request: PermissionRequest, keys: Mapping[str, PermissionOption], room: int
) -> RenderableType:
    """An open permission request for a small window: its title, ``room`` lines of the preview, and the keys."""
    choices = _choices([*(f"{key} {_short_name(option)}" for key, option in keys.items()), "? all"], 2)
    return Group(_Clipped(_request_title(request)), *_preview(request, room), choices)


@dataclass(frozen=True, slots=True)
class _Clipped:
    """A text of at most :data:`MAX_TITLE_LINES` lines."""

    text: Text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = self.text.wrap(console, options.max_width)
        if len(lines) > MAX_TITLE_LINES:
            last = lines[MAX_TITLE_LINES - 1]
            last.append(" …")
            last.truncate(options.max_width, overflow="ellipsis")
        yield from lines[:MAX_TITLE_LINES]


def _choices(texts: Iterable[str], gap: int) -> RenderableType:
    """The choices in as few lines as possible. A choice that fits into one line is not wrapped."""
    return Columns([Text(text, style="bold") for text in texts], padding=(0, gap))


def heading(text: str) -> RenderableType:
    return Group("", Rule(Text(text, style="bold"), align="left", style="dim"))
