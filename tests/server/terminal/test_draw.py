"""Drawn items and permission requests, as text."""

from functools import reduce
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from deputy_protocol.event import EventParams
from deputy_protocol.permission import PermissionRequest
from deputy_server.terminal import draw
from deputy_server.terminal.screen import decide, in_folder, keys_for
from deputy_server.terminal.view import View, fold
from tests.server.terminal import events as make


def drawn(what: RenderableType, width: int = 80) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, color_system=None).print(what)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def session_view(*raw: dict[str, object]) -> View:
    return reduce(fold, (EventParams.model_validate(event).root for event in raw), View())


def sample_request(**fields: object) -> PermissionRequest:
    return PermissionRequest.model_validate({**make.permission_request("c", "q"), **fields})


def edits(*states: str) -> list[dict[str, object]]:
    calls = [make.call("c", f"{n}", "edit_file(a.py)", kind="edit") for n in range(len(states))]
    return [make.started("c", "x"), *calls, *(make.update("c", f"{n}", state) for n, state in enumerate(states))]


def test_block_shows_agent_state_tool_calls_and_stop_key() -> None:
    view = session_view(
        make.primary(),
        make.started("c", "find callers"),
        make.call("c", "1", "[find callers] grep(retry)"),
        make.update("c", "1", "completed"),
        make.call("c", "2", "[find callers] read_file(a.py)"),
    )
    assert drawn(draw.live(view, 0, make.at(12), {"c": "1"}, None, 40)) == [
        "⟳ find callers  general  running                       12 s · 2 calls  [1: stop]",
        "    ✓ grep(retry)",
        "    ⟳ read_file(a.py)",
        "Agents: 1 primary, 1 running, 0 finished",
    ]


@pytest.mark.parametrize(
    ("events", "icon", "word"),
    [
        ([make.started("c", "x", status="pending", queue=2)], "…", "queued, place 2"),
        ([make.started("c", "x"), make.permission_requested("c", "q")], "?", "waiting for you"),
        ([make.started("c", "x"), make.finished("c", "completed")], "✓", "completed"),
        ([*edits("failed", "failed"), make.finished("c", "completed")], "⊘", "completed, 2 edits not made"),
        ([*edits("failed", "completed"), make.finished("c", "completed")], "✓", "completed"),
        ([make.started("c", "x"), make.finished("c", "failed", reason="timed_out")], "✗", "failed: timed out"),
        ([make.started("c", "x"), make.finished("c", "cancelled")], "⊘", "cancelled"),
    ],
)
def test_every_state_has_an_icon_and_a_text(events: list[dict[str, object]], icon: str, word: str) -> None:
    (block,) = session_view(make.primary(), *events).blocks
    assert draw.state_of(block)[:2] == (icon, word)


def test_reason_why_an_agent_waits_is_shown() -> None:
    why = "rate limited, retrying in 4 s (2/8)"
    waiting = session_view(
        make.primary(),
        make.started("c", "x"),
        make.status("c", "running", detail=why),
        make.status("p", "running", detail=why),
    )
    block, line = drawn(draw.live(waiting, 0, make.at(0), {}, None, 40), 120)
    assert why in block
    assert line == f"Agents: 1 primary, 1 running, 0 finished · {why}"


@pytest.mark.parametrize("room", [1, 4, 6, 12, 23])
def test_blocks_hide_tool_calls_when_the_screen_is_too_small(room: int) -> None:
    starts = [make.started(f"c{n}", f"task {n}") for n in range(6)]
    calls = [make.call(f"c{n}", f"{n}-{i}", "grep(x)") for n in range(6) for i in range(4)]
    output = drawn(draw.live(session_view(make.primary(), *starts, *calls), 0, make.at(1), {}, None, room))
    assert len(output) <= room + 1


def test_permission_request_shows_agent_diff_and_keys() -> None:
    request = sample_request()
    output = "\n".join(drawn(draw.permission_request(request, keys_for(request), 1, 20)))
    for part in (
        "[x] edit_file(a.py)",
        "-a",
        "+b",
        "y Approve",
        "n Deny",
        "1 more waiting",
    ):
        assert part in output


@pytest.mark.parametrize(
    ("index", "size", "behind", "position"),
    [(0, 1, 0, ""), (0, 2, 1, "1 of 2"), (1, 2, 1, "2 of 2 · 1 more waiting"), (0, 2, 3, "1 of 2 · 3 more waiting")],
)
def test_position_of_a_request_is_stated_once(index: int, size: int, behind: int, position: str) -> None:
    request = sample_request(batch={"id": "b", "index": index, "size": size})
    edge = drawn(draw.permission_request(request, {}, behind, 20))[-1]
    assert edge.strip("╰─╯ ") == position


def test_long_diff_is_cut_with_the_number_of_hidden_lines() -> None:
    new = "".join(f"line {n}\n" for n in range(50))
    preview = {"type": "diff", "uri": "file:///p/a", "oldText": None, "newText": new}
    output = "\n".join(drawn(draw.permission_request(sample_request(preview=preview), {}, 0, 10)))
    assert "line 40" not in output
    assert "press ? for 42 more lines" in output


def test_characters_that_hide_or_move_text_are_escaped() -> None:
    preview = {"type": "command", "command": "rm \u202ex\x1b[2K # ok\r#", "cwd": "file:///p"}
    shown = "\n".join(line for line, _ in draw.preview_lines(sample_request(preview=preview)))
    assert "\u202e" not in shown
    assert "\x1b" not in shown
    assert "\r" not in shown
    assert "202e" in shown


def test_escape_sequences_in_a_title_are_escaped() -> None:
    output = "\n".join(drawn(draw.permission_request(sample_request(title="[x] edit_file(\x1b[8mevil)"), {}, 0, 10)))
    assert "\x1b" not in output
    assert "evil" in output


def test_consistent_crlf_line_endings_do_not_appear_in_a_diff() -> None:
    preview = {"type": "diff", "uri": "file:///p/a", "oldText": "a\r\nb\r\n", "newText": "a\r\nc\r\n"}
    lines = [line for line, _ in draw.preview_lines(sample_request(preview=preview))]
    assert lines[-2:] == ["-b", "+c"]


def test_removed_final_newline_appears_in_a_diff() -> None:
    preview = {"type": "diff", "uri": "file:///p/a", "oldText": "a\n", "newText": "a"}
    assert [line for line, _ in draw.preview_lines(sample_request(preview=preview))][-1] == "-"


def test_changed_line_ending_appears_in_a_diff() -> None:
    preview = {"type": "diff", "uri": "file:///p/a", "oldText": "a\nb\n", "newText": "a\r\nb\n"}
    assert "+a\\r" in [line for line, _ in draw.preview_lines(sample_request(preview=preview))]


def test_enter_and_space_choose_no_option() -> None:
    assert {"\r", "\n", " "} & keys_for(sample_request()).keys() == set()


def test_auto_approval_approves_one_call_and_never_denies() -> None:
    option, result = decide(sample_request(), lambda _: "by --yes")
    assert option is not None
    assert (option.option_id, result) == ("yes", "approved by --yes")
    assert decide(sample_request(), lambda _: None) == (None, "not approved: no user to ask")


def test_only_files_in_the_folder_are_approved_automatically(workspace: Path) -> None:
    auto_approval = in_folder(workspace)
    (workspace / "link").symlink_to("/etc")
    inside = sample_request(locations=[{"uri": (workspace / "a.py").as_uri()}])
    outside = sample_request(locations=[{"uri": (workspace.parent / "b.py").as_uri()}])
    through_link = sample_request(locations=[{"uri": (workspace / "link" / "passwd").as_uri()}])
    climbing = sample_request(locations=[{"uri": f"{workspace.as_uri()}/../b.py"}])
    assert auto_approval(inside) is not None
    assert [auto_approval(request) for request in (outside, through_link, climbing, sample_request(locations=[]))] == [
        None
    ] * 4
