"""Data for tests of stores: session records, numbered events, and one event of every type."""

from collections.abc import Sequence

from deputy_agents.domain import event as ev
from deputy_agents.domain import preview
from deputy_agents.domain.access import Access
from deputy_agents.domain.message import Image, Message, Text, Thinking, ToolResult, ToolUse, Usage
from deputy_agents.domain.model_card import Effort, ThinkingMode
from deputy_agents.domain.outcome import AgentStatus, FailureReason
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.review import ChangesReviewed, CheckpointCreated, SessionRewound
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.domain.user_input import FieldOption, FieldType, InputAction, InputField, InputForm
from deputy_agents.ports.store import HistoryRecord, SessionRecord

PRIMARY = ev.AgentInfo("p", "primary", "primary", "m", Access.DEFAULT, 0, cwd="/folder")
CHILD = ev.AgentInfo("c", "look here", "general", "m", Access.READ_ONLY, 1, "p", "t1", "/folder")


def record(session_id: str = "s", **fields: object) -> SessionRecord:
    values: dict[str, object] = {
        "title": "a title",
        "cwd": "/folder",
        "created_at": 1.5,
        "updated_at": 2.5,
        "model": "m",
        "effort": Effort.XHIGH,
        "thinking": ThinkingMode.OFF,
    }
    return SessionRecord(session_id, "p", **(values | fields))  # pyright: ignore[reportArgumentType]


def numbered(*bodies: ev.Body, session_id: str = "s", agent_id: str = "p", after: int = 0) -> list[ev.Event]:
    return [
        ev.Event(session_id, 100.0 + seq, body, agent_id, 1, seq, seq) for seq, body in enumerate(bodies, after + 1)
    ]


def started(info: ev.AgentInfo, seq: int, session_id: str = "s") -> ev.Event:
    return ev.Event(session_id, 100.0 + seq, ev.AgentStarted(info, AgentStatus.RUNNING), info.agent_id, 1, seq, 1)


PERMISSION_REQUEST = ev.PermissionRequest(
    "q1",
    ev.AgentRef("c", "look here", "general", "m", 1, (("p", "primary"),)),
    ev.Batch("b", 0, 2),
    "t2",
    "[look here] edit_file(a.py)",
    "edit_file",
    ev.ToolKind.EDIT,
    {"path": "a.py", "count": 3, "deep": {"list": [1, None, True, "x"]}},
    (ev.Location("/folder/a.py", 1, 2),),
    (ev.Option("allow_once", "Allow", ev.OptionKind.ALLOW_ONCE),),
    preview.DiffPreview("/folder/a.py", None, "new ✓\n"),
    "why",
)

INPUT_REQUEST = ev.InputRequest(
    "i1",
    PERMISSION_REQUEST.agent,
    "[look here] ask_user(which?)",
    InputForm(
        "which?",
        (
            InputField("some", FieldType.CHOICES, options=(FieldOption("a", "A ✓"),), default=("a",)),
            InputField("count", FieldType.NUMBER, integer=True, default=3, minimum=1.5),
            InputField("sure", FieldType.BOOLEAN, default=True),
            InputField("text", FieldType.STRING, default="2.5"),
        ),
    ),
    "t2",
)

BODIES: Sequence[ev.Durable] = (
    ev.AgentStarted(PRIMARY, AgentStatus.IDLE),
    ev.TurnStarted("turn", "user"),
    ev.ThoughtAdded("m", "Hm."),
    ev.MessageAdded("m1", "user", "do it", (ev.Location("/folder/a.py"),)),
    ev.ToolCallStarted(
        "t1", "grep", "grep(x)", ev.ToolKind.SEARCH, ev.CallStatus.PENDING, {"pattern": "x"}, (ev.Location("/folder"),)
    ),
    ev.ToolCallUpdated("t1", ev.CallStatus.COMPLETED, "found", (ev.Location("/folder/a.py", 3),)),
    ev.PermissionRequested(PERMISSION_REQUEST),
    ev.PermissionResolved("q1", ev.ResolvedBy.USER, "allow_once"),
    ev.InputRequested(INPUT_REQUEST),
    ev.InputResolved("i1", InputAction.DECLINED, ev.ResolvedBy.USER),
    ev.StatusChanged(AgentStatus.RUNNING, 2, "waiting"),
    ev.PlanChanged((ev.PlanEntry("first", "in_progress", "high"),)),
    ev.UsageChanged(Usage(1, 2, 3, 4, 0.5)),
    ev.AgentFinished(
        AgentStatus.FAILED, "partial", Usage(1), 2, 3, FailureReason.MODEL_ERROR, "why", (ev.Location("/a", 1),), True
    ),
    ev.TurnFinished("turn", "error", ev.TurnError("server", "no", True, "wait")),
    CheckpointCreated("k1", "turn"),
    SessionRewound("k1", "turn", files=True, conversation=False),
    ChangesReviewed("/folder/a.py", ("h1", "h2"), "kept"),
)

MESSAGES: Sequence[Message] = (
    Message("user", (Text("look"), Image("image/png", "aGk=")), "m1"),
    Message("assistant", (Thinking("hm", "sig"), Thinking("", None, "opaque"), ToolUse("t", "grep", {"a": [1]}))),
    Message("user", (ToolResult("t", "out", True, (Image("image/png", "aGk="),)),), "m3"),
)

RULES = (Rule("r1", "edit_file", DecisionKind.ALLOW, "src/**", "answer"),)
MODE = PermissionMode.ACCEPT_EDITS


def lines(agent_id: str = "p") -> list[HistoryRecord]:
    return [HistoryRecord(agent_id, message) for message in MESSAGES]
