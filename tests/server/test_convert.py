"""Core to wire: every event and resource matches the contract, and nothing is lost."""

import dataclasses
from base64 import b64encode
from pathlib import Path
from typing import get_args

import pytest

from deputy_agents.domain import event as ev
from deputy_agents.domain import preview
from deputy_agents.domain.access import Access
from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.message import Image, Text, Usage
from deputy_agents.domain.outcome import AgentStatus, FailureReason
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.review import ChangesReviewed, ReviewStatus
from deputy_agents.domain.rule import DecisionKind
from deputy_agents.domain.user_input import FieldOption, FieldType, InputAction, InputField, InputForm
from deputy_agents.events import view
from deputy_protocol import message, place, settings
from deputy_protocol.base import to_wire
from deputy_protocol.event import EventParams
from deputy_server.convert.event import event_to_wire
from deputy_server.convert.place import location_to_wire
from deputy_server.convert.prompt import prompt_from_wire
from deputy_server.convert.settings import settings_from_wire
from deputy_server.convert.transcript import entry_to_wire
from deputy_server.convert.uris import path_of
from tests.support.images import png

PNG = b64encode(png()).decode()
PLACE = ev.Location("/w/a b.py", 3, 5)
INFO = ev.AgentInfo("a1", "label", "general", "m", Access.READ_ONLY, 1, "a0", "t1")
QUESTION = ev.PermissionRequest(
    "q1",
    ev.AgentRef("a1", "label", "general", "m", 1, (("a0", "primary"),)),
    ev.Batch("b1", 0, 2),
    "t2",
    "[label] write_file(x)",
    "write_file",
    ev.ToolKind.EDIT,
    {"path": "x"},
    (PLACE,),
    (ev.Option("o1", "Allow", ev.OptionKind.ALLOW_ONCE), ev.Option("o2", "Deny", ev.OptionKind.REJECT_ONCE)),
    preview.DiffPreview("/w/x", None, "new"),
    "because",
)
OPTIONS = (FieldOption("a", "First"), FieldOption("b", "Second"))
INPUT = ev.InputRequest(
    "i1",
    QUESTION.agent,
    "[label] ask_user(which?)",
    InputForm(
        "which?",
        (
            InputField("text", FieldType.STRING, "Text", "About", default="x", shortest=1, longest=9, format="email"),
            InputField("count", FieldType.NUMBER, required=False, default=2.5, minimum=1, maximum=3),
            InputField("whole", FieldType.NUMBER, integer=True),
            InputField("sure", FieldType.BOOLEAN, default=False),
            InputField("one", FieldType.CHOICE, options=OPTIONS, default="b"),
            InputField("some", FieldType.CHOICES, options=OPTIONS, default=("a", "b")),
        ),
    ),
    "t2",
)
PAGE = InputForm("Log in there.", url="https://example.com/login", server="tracker")
BODIES: tuple[ev.Body, ...] = (
    ChangesReviewed("/folder/a.py", ("h1", "h2"), "undone"),
    ReviewStatus(2, 3, 10, 4),
    ev.TurnStarted("u1", "task_end"),
    ev.TurnFinished("u1", "error", ev.TurnError("rate_limited", "slow down", True, "wait")),
    ev.TurnFinished("u1", "end_turn"),
    ev.TurnFinished("u1", "cancelled", interrupted=True),
    ev.TurnFinished(
        "u1", "max_turn_requests", detail="the budget is used up (budgets.tree.tokens)", setting="budgets.tree.tokens"
    ),
    ev.AgentStarted(INFO, AgentStatus.PENDING, 2),
    ev.StatusChanged(AgentStatus.RUNNING, None, "rate limited, retrying in 4 s (2/8)"),
    ev.ThoughtAdded("m1", "Hm."),
    ev.MessageAdded("m1", "assistant", "see `a b.py`", (PLACE, ev.Location("/w/b.py"))),
    ev.ToolCallStarted(
        "t2", "read_file", "read_file(x)", ev.ToolKind.READ, ev.CallStatus.PENDING, {"a": [1]}, (PLACE,)
    ),
    ev.ToolCallUpdated("t2", ev.CallStatus.COMPLETED, "text", ()),
    ev.ToolCallUpdated("t2", ev.CallStatus.FAILED),
    ev.PermissionRequested(QUESTION),
    ev.PermissionRequested(dataclasses.replace(QUESTION, preview=preview.CommandPreview("ls", "/w"), reason=None)),
    ev.PermissionRequested(dataclasses.replace(QUESTION, preview=preview.TextPreview("words"))),
    ev.PermissionResolved("q1", ev.ResolvedBy.USER, "o1"),
    ev.PermissionResolved("q1", ev.ResolvedBy.UNREACHABLE),
    ev.InputRequested(INPUT),
    ev.InputRequested(dataclasses.replace(INPUT, tool_call_id=None, form=PAGE)),
    ev.InputResolved("i1", InputAction.ACCEPTED, ev.ResolvedBy.USER),
    ev.PlanChanged((ev.PlanEntry("do", "in_progress", "high"), ev.PlanEntry("rest"))),
    ev.UsageChanged(Usage(1, 2, 3, 4, 0.5)),
    ev.AgentFinished(AgentStatus.FAILED, "partial", Usage(), 3, 4, FailureReason.TIMED_OUT, "too slow", (PLACE,), True),
    ev.CheckpointCreated("k1", "t1"),
    ev.SessionRewound("k1", "t1", files=True, conversation=False),
    ev.MessageDelta("m1", "a"),
    ev.ThoughtDelta("m1", "b"),
    ev.ToolOutputDelta("t1", "line"),
    ev.Activity("reading", 2),
    ev.SessionStatus(1, 2, 3, 1, 4),
    ev.PromptQueue((ev.QueuedPrompt("p1", "next"), ev.QueuedPrompt("p2", "", pictures=2))),
    ev.SessionChanged(),
    ev.DefinitionsChanged(),
)


def event_of(body: ev.Body) -> ev.Event:
    if isinstance(body, get_args(ev.Durable)):
        return ev.Event("s1", 1_800_000_000.5, body, "a1", 2, 7, 3)
    if isinstance(body, get_args(ev.Lossy)):
        return ev.Event("s1", 1_800_000_000.5, body, "a1", 2, after_seq=7)
    return ev.Event("s1", 1_800_000_000.5, body, after_seq=7)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_every_event_matches_the_contract_exactly(body: ev.Body) -> None:
    wire = event_to_wire(event_of(body))
    assert to_wire(EventParams.model_validate(wire)) == wire


def test_every_event_type_is_converted() -> None:
    assert {type(body) for body in BODIES} == set(get_args(ev.Durable) + get_args(ev.Lossy) + get_args(ev.Derived))


def test_times_are_rfc_3339_in_utc_and_lines_become_ranges_of_whole_lines() -> None:
    assert event_to_wire(event_of(BODIES[0]))["time"] == "2027-01-15T08:00:00.500Z"
    wire = to_wire(location_to_wire(PLACE))
    assert wire == {
        "uri": "file:///w/a%20b.py",
        "range": {"start": {"line": 2, "character": 0}, "end": {"line": 5, "character": 0}},
    }


@pytest.mark.parametrize(
    "body",
    [
        ev.MessageAdded("m", "user", "x"),
        ev.ThoughtAdded("m", "Hm."),
        view.ChildBlock(view.AgentNode(INFO, 1, AgentStatus.RUNNING, 1.0, 2.0)),
    ],
)
def test_transcript_entries_contain_their_envelope(body: view.EntryBody) -> None:
    wire = to_wire(entry_to_wire(view.Entry(4, "a1", 2, 1.0, body)))
    assert {"seq": 4, "agentId": "a1", "run": 2, "time": "1970-01-01T00:00:01.000Z"}.items() <= wire.items()


def test_a_tool_call_in_a_transcript_has_its_latest_state() -> None:
    started = ev.ToolCallStarted("t", "grep", "grep(x)", ev.ToolKind.SEARCH, ev.CallStatus.PENDING, {}, (PLACE,))
    update = ev.ToolCallUpdated("t", ev.CallStatus.COMPLETED, "found", ())
    wire = to_wire(entry_to_wire(view.Entry(4, "a1", 1, 1.0, view.ToolCall(started, update))))
    assert (wire["status"], wire["content"], wire["locations"]) == ("completed", "found", [])


def test_a_prompt_names_files_relative_to_the_folder_in_order(tmp_path: Path) -> None:
    spot = place.Range(start=place.Position(line=4, character=2), end=place.Position(line=6, character=0))
    prompt = (
        message.ResourceLink(uri=(tmp_path / "src" / "a.py").as_uri(), range=spot),
        message.TextBlock(text="in words"),
        message.ImageBlock(mime_type="image/png", data=PNG),
        message.ResourceLink(uri="untitled:Untitled-1"),
    )
    assert prompt_from_wire(prompt, tmp_path) == (
        Text("(about src/a.py:5-6)"),
        Text("in words"),
        Image("image/png", PNG),
        Text("(about untitled:Untitled-1)"),
    )


@pytest.mark.parametrize(
    "uri", ["", "relative", "http://example.org/x", "file:relative", "file:///a%00b", "untitled:x"]
)
def test_an_invalid_file_uri_is_rejected_with_the_field(uri: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        path_of(uri, "cwd")
    assert refusal.value.field == "cwd"


def test_settings_reach_the_core_unchanged() -> None:
    raw = {
        "smallModel": "s",
        "permissionMode": "plan",
        "trusted": False,
        "agents": {"maxParallel": 3, "maxParallelPerParent": 2, "queue": 0, "timeout": 1.5, "enabled": False},
        "permissions": {"rules": [{"tool": "edit_file", "pattern": "src/**", "action": "deny"}], "reconnectGrace": 1},
    }
    core = settings_from_wire(settings.Settings.model_validate(raw), "m")
    assert (core.model, core.small_model, core.permission_mode, core.trusted) == ("m", "s", PermissionMode.PLAN, False)
    assert dataclasses.asdict(core.agents).items() >= {"max_parallel": 3, "queue": 0, "timeout": 1.5}.items()
    (rule,) = core.permissions.rules
    assert (rule.tool, rule.pattern, rule.decision, rule.source) == (
        "edit_file",
        "src/**",
        DecisionKind.DENY,
        "settings",
    )


def test_absent_settings_have_the_defaults_of_the_core() -> None:
    from deputy_agents.domain.settings import Settings

    assert settings_from_wire(settings.Settings(), "offline") == Settings()


def test_a_redacted_path_is_converted_without_an_error() -> None:
    assert location_to_wire(ev.Location("[removed]/a.py", 3, 5)).uri == "file:///%5Bremoved%5D/a.py"
