"""The core's fold reaches the expected states of the vectors, which also test the fold of every front end."""

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


def test_vectors_cover_what_a_front_end_shows() -> None:
    assert [vector.stem for vector in VECTORS] == [
        "background",
        "permission_requests",
        "plan_and_queue",
        "three_children",
    ]
    types = {event["type"] for vector in VECTORS for event in events(vector)}
    assert {"plan", "prompt_queue", "agent_activity", "message_delta", "permission_resolved", "usage"} <= types
    expected = [step["expected"] for vector in VECTORS for step in steps(vector)]
    for part in ("permissions", "plans", "promptQueue", "streaming", "activities"):
        assert any(state[part] for state in expected), part
    ends = {node["status"] for state in expected for node in state["agents"]}
    assert {"completed", "failed", "cancelled"} <= ends


@each
def test_every_event_and_state_validates_against_the_wire_types(vector: Path) -> None:
    for event in events(vector):
        EventParams.model_validate(event)
    for step in steps(vector):
        for node in step["expected"]["agents"]:
            AgentNode.model_validate(node)
        for request in step["expected"]["permissions"]:
            PermissionRequest.model_validate(request)


@each
def test_fold_matches_expected_state_after_every_step(vector: Path) -> None:
    fold = WireFold()
    for step in steps(vector):
        for event in step["events"]:
            fold.apply(event)
        assert fold.state() == step["expected"]


@each
def test_repeated_and_unknown_events_change_nothing(vector: Path) -> None:
    noisy: list[Json] = []
    for event in events(vector):
        foreign = {key: event[key] for key in event.keys() - {"seq", "agentSeq"}} | {"type": "of_another_version"}
        noisy += [event, foreign, event] if "seq" in event else [event, foreign]
    assert folded(noisy) == steps(vector)[-1]["expected"]


@each
def test_counts_match_those_of_the_server(vector: Path) -> None:
    counts = {"primary": 1, "pending": 0, "running": 0, "awaitingPermission": 0, "finished": 0}
    for event in events(vector):
        counts = {name: event[name] for name in counts} if event["type"] == "session_status" else counts
    assert counts == steps(vector)[-1]["expected"]["counts"]
