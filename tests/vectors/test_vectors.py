"""The fold of the core reaches the states that the vectors expect, and every front end's fold is held against them."""

import json
from itertools import chain
from pathlib import Path

import pytest

from deputy_protocol.agent import AgentNode
from deputy_protocol.event import EventParams
from deputy_protocol.permission import PermissionRequest
from tests.support.model_replies import Json
from tests.support.wire_fold import WireFold, folded

VECTORS = sorted(Path(__file__).parent.glob("*.json"))

each = pytest.mark.parametrize("vector", VECTORS, ids=lambda path: path.stem)


def steps(vector: Path) -> list[Json]:
    return json.loads(vector.read_text("utf-8"))["steps"]


def events(vector: Path) -> list[Json]:
    return list(chain.from_iterable(step["events"] for step in steps(vector)))


def test_there_are_vectors_for_what_a_front_end_shows() -> None:
    assert [vector.stem for vector in VECTORS] == ["background", "permission_requests", "plan_and_queue", "three_children"]
    types = {event["type"] for vector in VECTORS for event in events(vector)}
    assert {"plan", "prompt_queue", "agent_activity", "message_delta", "permission_resolved", "usage"} <= types
    expected = [step["expected"] for vector in VECTORS for step in steps(vector)]
    for part in ("permissions", "plans", "promptQueue", "streaming", "activities"):
        assert any(state[part] for state in expected), part
    ends = {node["status"] for state in expected for node in state["agents"]}
    assert {"completed", "failed", "cancelled"} <= ends


@each
def test_every_event_and_state_has_the_form_of_the_wire(vector: Path) -> None:
    for event in events(vector):
        EventParams.model_validate(event)
    for step in steps(vector):
        for node in step["expected"]["agents"]:
            AgentNode.model_validate(node)
        for request in step["expected"]["permissions"]:
            PermissionRequest.model_validate(request)


@each
def test_after_every_step_the_fold_holds_what_is_expected(vector: Path) -> None:
    fold = WireFold()
    for step in steps(vector):
        for event in step["events"]:
            fold.apply(event)
        assert fold.state() == step["expected"]


@each
def test_events_that_come_twice_and_events_of_unknown_types_change_nothing(vector: Path) -> None:
    noisy: list[Json] = []
    for event in events(vector):
        foreign = {key: event[key] for key in event.keys() - {"seq", "agentSeq"}} | {"type": "of_another_version"}
        noisy += [event, foreign, event] if "seq" in event else [event, foreign]
    assert folded(noisy) == steps(vector)[-1]["expected"]


@each
def test_the_counts_are_those_that_the_server_tells(vector: Path) -> None:
    counts = {"primary": 1, "pending": 0, "running": 0, "awaitingPermission": 0, "finished": 0}
    for event in events(vector):
        counts = {name: event[name] for name in counts} if event["type"] == "session_status" else counts
    assert counts == steps(vector)[-1]["expected"]["counts"]
