"""Permission requests and keys on the live screen, and the lines of the plain screen."""

from contextlib import nullcontext
from functools import reduce
from io import StringIO

import anyio
import pytest
from rich.console import Console

from deputy_protocol.event import Event, EventParams
from deputy_protocol.permission import PermissionOption, PermissionRequest
from deputy_server.terminal.screen import LiveScreen, PlainScreen
from deputy_server.terminal.view import View, fold
from tests.server.terminal import events as make


def console(width: int = 100, height: int = 25) -> tuple[Console, StringIO]:
    out = StringIO()
    return Console(file=out, width=width, height=height, color_system=None, force_terminal=False), out


def permission_request(request: str, **fields: str) -> PermissionRequest:
    return PermissionRequest.model_validate(make.permission_request("c", request, **fields))


def event(raw: dict[str, object]) -> Event:
    return EventParams.model_validate(raw).root


@pytest.mark.asyncio
async def test_keys_answer_permission_requests_in_order() -> None:
    screen = LiveScreen(console()[0], lambda agent: None, None)
    answers: dict[str, PermissionOption | None] = {}

    async def ask(request: str) -> None:
        answers[request] = await screen.ask(permission_request(request))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for request in ("first", "second"):
                tasks.start_soon(ask, request)
                await anyio.wait_all_tasks_blocked()
            screen.render()
            for key in "\rxyn":  # y answers the first request; n came before the second was drawn
                screen.press(key)
            await anyio.wait_all_tasks_blocked()
            screen.press("n")
            await anyio.wait_all_tasks_blocked()
            assert list(answers) == ["first"]
            screen.render()
            screen.press("n")
    assert {request: option and option.option_id for request, option in answers.items()} == {
        "first": "yes",
        "second": "no",
    }


@pytest.mark.asyncio
async def test_withdrawn_permission_request_is_replaced_by_the_next() -> None:
    screen = LiveScreen(console()[0], lambda agent: None, None)
    answer: list[PermissionOption | None] = []

    async def ask_second() -> None:
        answer.append(await screen.ask(permission_request("second")))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as withdrawn:
                async with anyio.create_task_group() as first:
                    first.start_soon(screen.ask, permission_request("first"))
                    await anyio.wait_all_tasks_blocked()
                    withdrawn.cancel()
            tasks.start_soon(ask_second)
            await anyio.wait_all_tasks_blocked()
            screen.render()
            screen.press("a")
    assert [option and option.option_id for option in answer] == ["always"]


@pytest.mark.asyncio
@pytest.mark.parametrize(("width", "height"), [(30, 10), (24, 8), (40, 12), (60, 16), (100, 25)])
@pytest.mark.parametrize("lines", [1, 100])
async def test_permission_request_shows_its_title_and_all_keys_in_the_smallest_window(
    width: int, height: int, lines: int
) -> None:
    terminal, out = console(width, height)
    screen = LiveScreen(terminal, lambda agent: None, None)
    screen.update(
        reduce(fold, map(event, [make.primary(), *(make.started(f"c{n}", "a") for n in range(9))]), View()), None
    )
    old = "".join(f"{n}: a line that is longer than the window is wide\n" for n in range(lines))
    request = permission_request("q", label='Replace "Hello" with "Good mo…', path="hello.py", old=old, new=old.upper())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(screen.ask, request)
        await anyio.wait_all_tasks_blocked()
        terminal.print(screen.render())
        tasks.cancel_scope.cancel()
    lines_shown = out.getvalue().splitlines()
    assert len(lines_shown) <= height
    shown = " ".join(" ".join(lines_shown).replace("│", " ").split())
    for part in (
        '[Replace "Hello" with "Good mo…] edit_file(hello.py)',
        "y Approve",
        "n Deny",
        "Agents: 1",
    ):
        assert part in shown
    assert "a Session" in shown or "a Always allow" in shown


RULES = [*(f"shell(echo {'word ' * 8}{n})" for n in range(20)), f"shell(curl {'x' * 300} -o ~/.bashrc)"]


def shell_request(command: str, rules: list[str]) -> PermissionRequest:
    """A request for a command whose lasting answers add ``rules``."""
    name = ", ".join(rules)
    options = [
        {"optionId": "yes", "name": "Approve", "kind": "allow_once"},
        {"optionId": "always", "name": f"Always allow: {name}", "kind": "allow_always", "rules": rules},
        {"optionId": "no", "name": "Deny", "kind": "reject_once"},
        {"optionId": "never", "name": f"Always deny: {name}", "kind": "reject_always", "rules": rules},
    ]
    preview = {"type": "command", "command": command, "cwd": "file:///project"}
    raw = make.permission_request("c", "q")
    return PermissionRequest.model_validate({**raw, "tool": "shell", "preview": preview, "options": options})


def shown_on(out: StringIO) -> str:
    """What was printed, without frames and line breaks of the layout."""
    return "".join("".join(line.strip("│ ") for line in out.getvalue().splitlines()).split())


@pytest.mark.asyncio
@pytest.mark.parametrize(("width", "height"), [(30, 10), (60, 16), (100, 25), (100, 80)])
@pytest.mark.parametrize(("key", "option"), [("a", "always"), ("v", "never")])
async def test_lasting_answer_shows_all_of_its_rules_before_its_key_works(
    width: int, height: int, key: str, option: str
) -> None:
    terminal, out = console(width, height)
    screen = LiveScreen(terminal, lambda agent: None, None)
    answer: list[PermissionOption | None] = []
    seen = False

    async def ask() -> None:
        answer.append(await screen.ask(shell_request("; ".join(rule[6:-1] for rule in RULES), RULES)))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            for _ in range(3):
                terminal.print(screen.render())
                seen = all("".join(rule.split()) in shown_on(out) for rule in RULES)
                screen.press(key)
                screen.press(key)  # before it is drawn again, a key answers nothing that was not shown
                await anyio.wait_all_tasks_blocked()
                if answer:
                    break
                assert not seen
    assert seen
    assert [choice and choice.option_id for choice in answer] == [option]


@pytest.mark.asyncio
@pytest.mark.parametrize(("command", "presses"), [("make test", 1), ("\n".join(["make test"] * 100 + ["rm x"]), 2)])
async def test_command_is_approved_only_after_all_of_it_was_shown(command: str, presses: int) -> None:
    terminal, out = console(40, 12)
    screen = LiveScreen(terminal, lambda agent: None, None)
    answer: list[PermissionOption | None] = []

    async def ask() -> None:
        answer.append(await screen.ask(shell_request(command, ["shell(make test)"])))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            for press in range(presses):
                await anyio.wait_all_tasks_blocked()
                terminal.print(screen.render())
                assert ("rm x" in out.getvalue()) == (press == 1)
                screen.press("y")
    assert [choice and choice.option_id for choice in answer] == ["yes"]


@pytest.mark.asyncio
async def test_denial_needs_no_second_key() -> None:
    screen = LiveScreen(console(30, 10)[0], lambda agent: None, None)
    answer: list[PermissionOption | None] = []

    async def ask() -> None:
        answer.append(await screen.ask(shell_request("\n".join(["make test"] * 100), RULES)))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            screen.render()
            screen.press("n")
    assert [choice and choice.option_id for choice in answer] == ["no"]


def test_digit_stops_the_running_sub_agent_at_that_position() -> None:
    stopped: list[str] = []
    screen = LiveScreen(console()[0], stopped.append, None)
    raw = [make.primary(), make.started("c1", "one"), make.started("c2", "two"), make.finished("c1", "completed")]
    screen.update(reduce(fold, map(event, raw), View()), None)
    for key in ("1", "2", "3"):
        screen.press(key)
    assert stopped == ["c2"]


def test_finished_items_are_printed_once_in_the_order_in_which_they_started() -> None:
    terminal, out = console()
    screen = LiveScreen(terminal, lambda agent: None, None)
    view = View()
    for raw in (
        make.primary(),
        make.message("p", "m", "I shall look."),
        make.started("c1", "one"),
        make.started("c2", "two"),
        make.finished("c2", "completed"),
        make.finished("c1", "cancelled"),
        make.message("p", "n", "Done."),
    ):
        view = fold(view, event(raw))
        screen.update(view, None)
    text = out.getvalue()
    places = [text.index(part) for part in ("I shall look.", "⊘ one", "✓ two", "Done.")]
    assert places == sorted(places)
    assert text.count("⊘ one") == 1


def test_plain_screen_prints_a_line_for_each_event() -> None:
    terminal, out = console()
    screen = PlainScreen(terminal, lambda permission_request: None)
    view = View()
    for raw in (
        make.primary(),
        make.status("p", "running", detail="rate limited, retrying in 4 s (2/8)"),
        make.status("p", "running"),
        make.started("c", "find callers"),
        make.status("c", "running", detail="overloaded, retrying in 9 s (3/8)"),
        make.call("c", "1", "[find callers] grep(x)"),
        make.finished("c", "failed", reason="tool_error", error="no such\x1b[2J file"),
        make.message("p", "m", "Done."),
    ):
        view = fold(view, event(raw))
        screen.update(view, event(raw))
    assert [line.rstrip() for line in out.getvalue().splitlines()] == [
        "  rate limited, retrying in 4 s (2/8)",
        "⟳ [find callers] general running",
        "  [find callers] overloaded, retrying in 9 s (3/8)",
        "  [find callers] grep(x)",
        "✗ [find callers] failed: tool error · 0.0 s · 0 calls: no such\\u{1b}[2J file",
        "Agents: 1 primary, 0 running, 1 finished",
        "Done.",
    ]


def edited(screen: LiveScreen | PlainScreen) -> None:
    """The primary agent and a sub-agent have each made an edit, and the sub-agent has ended."""
    view = View()
    long = make.edit("-old", *(f"+new {number}" for number in range(30)))
    for raw in (
        make.primary(),
        make.call("p", "1", "edit_file(a.py)", kind="edit"),
        make.update("p", "1", "completed", make.edit("-a\x1b[2J", "+b")),
        make.started("c", "fix it"),
        make.call("c", "2", "[fix it] edit_file(b.py)", kind="edit"),
        make.update("c", "2", "completed", long),
        *(raw for number in range(5) for raw in [make.call("c", f"r{number}", "[fix it] read_file(b.py)")]),
        make.finished("c", "completed", calls=6),
    ):
        view = fold(view, event(raw))
        screen.update(view, event(raw))


@pytest.mark.requirement("R9")
def test_an_edit_is_printed_with_the_beginning_of_its_diff() -> None:
    terminal, out = console()
    edited(PlainScreen(terminal, lambda permission_request: None))
    shown = [line.rstrip() for line in out.getvalue().splitlines()]
    assert shown[:4] == ["  ✓ edit_file(a.py)", "    @@ -1,1 +1,1 @@", "    -a\\u{1b}[2J", "    +b"]
    at = shown.index("  [fix it] ✓ edit_file(b.py)")
    assert shown[at + 1 : at + 3] == ["    @@ -1,1 +1,30 @@", "    -old"]
    assert shown[at + 13] == "    \\ 20 more lines"


@pytest.mark.requirement("R9")
def test_edits_are_printed_with_their_diffs_when_their_agent_has_ended() -> None:
    terminal, out = console()
    edited(LiveScreen(terminal, lambda agent: None, None))
    shown = [line.strip() for line in out.getvalue().splitlines()]
    assert shown[:4] == ["✓ edit_file(a.py)", "@@ -1,1 +1,1 @@", "-a\\u{1b}[2J", "+b"]
    assert shown[shown.index("✓ edit_file(b.py)") :][:3] == ["✓ edit_file(b.py)", "@@ -1,1 +1,30 @@", "-old"]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("approval", "option", "result"),
    [("by --yes", "yes", "approved by --yes"), (None, None, "not approved: no user to ask")],
)
async def test_plain_screen_prints_the_request_and_the_decision(
    approval: str | None, option: str | None, result: str
) -> None:
    terminal, out = console()
    choice = await PlainScreen(terminal, lambda permission_request: approval).ask(permission_request("q"))
    assert (choice and choice.option_id) == option
    for part in ("[x] edit_file(a.py)", "-a", "+b", result):
        assert part in out.getvalue()


def test_unfinished_items_are_printed_when_the_screen_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deputy_server.terminal.screen.keys.single_keys", nullcontext)
    device, out = console()
    screen = LiveScreen(device, lambda agent: None, None)
    raw = [make.primary(), make.call("p", "call", "mcp(time)"), make.message("p", "m", "The answer.")]
    with screen.running():
        screen.update(reduce(fold, map(event, raw), View()), None)
        assert "The answer." not in out.getvalue()
    assert out.getvalue().index("mcp(time)") < out.getvalue().index("The answer.")


@pytest.mark.requirement("Q8")
@pytest.mark.asyncio
async def test_text_typed_before_a_request_appeared_does_not_answer_it() -> None:
    terminal, _ = console(100, 40)
    typed = list("yes, please: always")
    live = LiveScreen(terminal, lambda agent: None, None, discard_typed=typed.clear)
    answers: list[PermissionOption | None] = []

    async def ask() -> None:
        answers.append(await live.ask(shell_request("make", ["shell(make)"])))

    async with anyio.create_task_group() as tasks:
        live.press("y")
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        live.press("y")  # it was read before the request was drawn
        live.render()
        for key in typed:  # it was not
            live.press(key)
        await anyio.wait_all_tasks_blocked()
        assert answers == []
        typed.append("y")
        live.render()
        assert typed == ["y"]
        live.press("y")
    assert [answer and answer.option_id for answer in answers] == ["yes"]


@pytest.mark.requirement("Q4")
@pytest.mark.requirement("Q8")
@pytest.mark.asyncio
async def test_key_approves_all_edits_after_it_has_shown_them_and_another_one_changes_the_mode() -> None:
    terminal, out = console(100, 40)
    approved: list[str] = []
    live = LiveScreen(terminal, lambda agent: None, None, approved.append, lambda: "accept_edits")
    requests = [permission_request(name, path=f"{name}.py", old="a\n", new=f"{name}\n") for name in ("one", "two")]
    async with anyio.create_task_group() as tasks:
        for request in requests:
            tasks.start_soon(live.ask, request)
        await anyio.wait_all_tasks_blocked()
        live.render()
        live.press("t")
        assert approved == []
        assert "+one" in out.getvalue()
        assert "+two" in out.getvalue()
        live.render()
        live.press("t")
        assert approved == [requests[0].request_id]
        live.press("m")
        assert "Permission mode: accept_edits" in out.getvalue()
        tasks.cancel_scope.cancel()
