"""Questions and keys on the live screen, and the lines of the plain one."""

from functools import reduce
from io import StringIO

import anyio
import pytest
from rich.console import Console

from deputy_protocol.event import Event, EventParams
from deputy_protocol.permission import PermissionOption, PermissionRequest
from deputy_server.demo.screen import LiveScreen, PlainScreen
from deputy_server.demo.view import View, fold
from tests.server.demo import events as make


def console() -> tuple[Console, StringIO]:
    out = StringIO()
    return Console(file=out, width=100, color_system=None, force_terminal=False), out


def question(request: str, **fields: str) -> PermissionRequest:
    return PermissionRequest.model_validate(make.question("c", request, **fields))


def event(raw: dict[str, object]) -> Event:
    return EventParams.model_validate(raw).root


@pytest.mark.asyncio
async def test_keys_answer_open_questions_in_the_order_in_which_they_were_asked() -> None:
    screen = LiveScreen(console()[0], lambda agent: None, None)
    answers: dict[str, PermissionOption | None] = {}

    async def ask(request: str) -> None:
        answers[request] = await screen.ask(question(request))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for request in ("first", "second"):
                tasks.start_soon(ask, request)
                await anyio.wait_all_tasks_blocked()
            screen.picture()
            for key in "\rxyn":  # y settles the first question; n came before the second was seen
                screen.press(key)
            await anyio.wait_all_tasks_blocked()
            screen.press("n")
            await anyio.wait_all_tasks_blocked()
            assert list(answers) == ["first"]
            screen.picture()
            screen.press("n")
    assert {request: option and option.option_id for request, option in answers.items()} == {
        "first": "yes",
        "second": "no",
    }


@pytest.mark.asyncio
async def test_a_question_that_is_withdrawn_makes_room_for_the_next() -> None:
    screen = LiveScreen(console()[0], lambda agent: None, None)
    answer: list[PermissionOption | None] = []

    async def ask_second() -> None:
        answer.append(await screen.ask(question("second")))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as withdrawn:
                async with anyio.create_task_group() as first:
                    first.start_soon(screen.ask, question("first"))
                    await anyio.wait_all_tasks_blocked()
                    withdrawn.cancel()
            tasks.start_soon(ask_second)
            await anyio.wait_all_tasks_blocked()
            screen.picture()
            screen.press("a")
    assert [option and option.option_id for option in answer] == ["always"]


def test_a_digit_stops_the_child_at_that_place_while_it_runs() -> None:
    stopped: list[str] = []
    screen = LiveScreen(console()[0], stopped.append, None)
    raw = [make.primary(), make.started("c1", "one"), make.started("c2", "two"), make.finished("c1", "completed")]
    screen.update(reduce(fold, map(event, raw), View()), None)
    for key in ("1", "2", "3"):
        screen.press(key)
    assert stopped == ["c2"]


def test_what_has_ended_stays_in_the_order_in_which_it_began() -> None:
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


def test_plain_lines_say_who_does_what() -> None:
    terminal, out = console()
    screen = PlainScreen(terminal, lambda question: True)
    view = View()
    for raw in (
        make.primary(),
        make.started("c", "find callers"),
        make.call("c", "1", "[find callers] grep(x)"),
        make.finished("c", "failed", reason="tool_error", error="no such\x1b[2J file"),
        make.message("p", "m", "Done."),
    ):
        view = fold(view, event(raw))
        screen.update(view, event(raw))
    assert [line.rstrip() for line in out.getvalue().splitlines()] == [
        "⟳ [find callers] general running",
        "  [find callers] grep(x)",
        "✗ [find callers] failed: tool error · 0.0 s · 0 calls: no such\\u{1b}[2J file",
        "Agents: 1 primary, 0 running, 1 finished",
        "Done.",
    ]


@pytest.mark.asyncio
@pytest.mark.parametrize(("approve", "option", "word"), [(True, "yes", "approved"), (False, "no", "denied")])
async def test_where_nobody_is_asked_the_answer_and_what_it_is_about_are_shown(
    approve: bool, option: str, word: str
) -> None:
    terminal, out = console()
    choice = await PlainScreen(terminal, lambda question: approve).ask(question("q"))
    assert choice is not None
    assert choice.option_id == option
    for part in ("[x] edit_file(a.py)", "-a", "+b", f"nobody is asked here: {word}"):
        assert part in out.getvalue()
