"""The exit code of ``deputy run``, computed from events."""

from io import BytesIO

import pytest

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.event import (
    Body,
    CallStatus,
    Event,
    Location,
    ToolCallStarted,
    ToolCallUpdated,
    ToolKind,
    TurnFinished,
)
from deputy_server.headless.options import Exit, prompt_of
from deputy_server.headless.run_outcome import RunOutcome

RUNNING, DONE, FAILED = CallStatus.IN_PROGRESS, CallStatus.COMPLETED, CallStatus.FAILED
PLACE = (Location("/p/src/a.py"),)


def outcome(*bodies: Body) -> RunOutcome:
    found = RunOutcome("p")
    for body in (*bodies, TurnFinished("t", "end_turn")):
        found.take(Event("s", 0, body, "p"))
    return found


def edit(id: str, *locations: Location, path: str = "src/a.py") -> ToolCallStarted:
    return ToolCallStarted(
        id, "edit_file", f"edit_file({path})", ToolKind.EDIT, CallStatus.PENDING, {"path": path}, locations
    )


def steps(id: str, *states: CallStatus) -> list[ToolCallUpdated]:
    return [ToolCallUpdated(id, state) for state in states]


@pytest.mark.requirement("X17")
@pytest.mark.parametrize(
    ("bodies", "code"),
    [
        ([edit("1", *PLACE), *steps("1", RUNNING, DONE)], Exit.DONE),
        ([edit("1", *PLACE), *steps("1", RUNNING, FAILED)], Exit.EDIT_FAILED),
        ([edit("1"), *steps("1", FAILED)], Exit.EDIT_FAILED),
        ([edit("1", *PLACE), *steps("1", FAILED)], Exit.DONE),
        ([edit("1"), *steps("1", FAILED), edit("2", *PLACE), *steps("2", RUNNING, DONE)], Exit.DONE),
        (
            [edit("1", path="b.py"), *steps("1", FAILED), edit("2", *PLACE), *steps("2", RUNNING, DONE)],
            Exit.EDIT_FAILED,
        ),
    ],
)
def test_an_edit_that_failed_last_sets_the_exit_code(bodies: list[Body], code: Exit) -> None:
    assert outcome(*bodies).code is code


@pytest.mark.requirement("M7")
def test_what_a_pipe_brings_is_no_command_of_deputy() -> None:
    for text in (b"/mode bypass", b"\n /clear\n"):
        with pytest.raises(InvalidRequest, match="Pass it as an argument"):
            prompt_of("-", BytesIO(text))
    assert prompt_of("/mode plan", BytesIO()) == "/mode plan"
    assert prompt_of("-", BytesIO(b"/review a.py")) == "/review a.py"
