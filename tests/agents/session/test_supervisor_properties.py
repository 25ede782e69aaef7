"""What holds of a tree of agents whatever they do and whatever happens to them, in any order."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.domain.message import Reply, ToolUse
from deputy_agents.domain.settings import AgentSettings, Settings
from deputy_agents.model.scripted import call, calls, say, use
from tests.support.delegation import background_use
from tests.support.forest import KINDS, Forest

SOME = st.integers(0, 20)
MODES = st.sampled_from(["default", "read_only"])
TASKS = st.fixed_dictionaries(
    {"task": st.sampled_from(["look", "dig"]), "subagent_type": st.sampled_from(KINDS), "mode": MODES}
)
LIMITS = st.builds(
    AgentSettings,
    max_parallel=st.integers(1, 4),
    max_parallel_per_parent=st.integers(1, 3),
    queue=st.integers(0, 4),
    max_depth=st.just(3),
    parallel_writers=st.booleans(),
    wake_on_task_end=st.booleans(),
)


def _spawn_agent(mode: str) -> ToolUse:
    return use("spawn_agent", instructions="look", mode=mode)


def _spawn_agents(tasks: list[dict[str, str]]) -> ToolUse:
    return use("spawn_agents", tasks=tasks)


def _task(kind: str) -> ToolUse:
    return background_use("dig", kind)


def _again(ended: tuple[str, str]) -> ToolUse:
    agent_id, kind = ended
    return background_use("more", kind, task_id=agent_id)


def uses(ended: list[tuple[str, str]]) -> st.SearchStrategy[ToolUse]:
    """One call: of a delegation tool, of another tool, or of one that does not exist; ``ended`` are tasks that can be
    continued."""
    options: list[st.SearchStrategy[ToolUse]] = [
        MODES.map(_spawn_agent),
        st.lists(TASKS, min_size=1, max_size=3).map(_spawn_agents),
        st.sampled_from([*KINDS, "nobody"]).map(_task),
        st.sampled_from([use("judge", topic="taste"), use("todo", entries=[]), use("no_such_tool")]),
    ]
    if ended:
        options.append(st.sampled_from(ended).map(_again))
    return st.one_of(options)


def replies(ended: list[tuple[str, str]]) -> st.SearchStrategy[Reply | Exception]:
    return st.one_of(
        st.lists(uses(ended), min_size=1, max_size=3).map(calls),
        st.sampled_from([say("done"), say(""), RuntimeError("an error"), ModelError("no", ModelErrorKind.SERVER)]),
        st.sampled_from([call("submit_result", result="submitted"), call("submit_error", error="given up")]),
    )


class AnyTree(RuleBasedStateMachine):
    forest: Forest

    @initialize(limits=LIMITS)
    def open(self, limits: AgentSettings) -> None:
        self.folder = tempfile.TemporaryDirectory()
        root = Path(self.folder.name).resolve() / "workspace"
        root.mkdir()
        self.forest = Forest(root, Settings(agents=limits))
        self.forest.prompt()

    @rule()
    def prompt(self) -> None:
        self.forest.prompt()

    @precondition(lambda self: self.forest.waiting)
    @rule(index=SOME, data=st.data())
    def answer(self, index: int, data: Any) -> None:
        request, _ = self.forest.waiting[index % len(self.forest.waiting)]
        self.forest.answer(index, data.draw(replies(self.forest.ended_children(request.agent_id))))

    @precondition(lambda self: self.forest.waiting)
    @rule(index=SOME)
    def complete(self, index: int) -> None:
        self.forest.answer(index, say("done"))

    @precondition(lambda self: self.forest.waiting)
    @rule(index=SOME, tasks=st.lists(TASKS, min_size=1, max_size=4))
    def spawn(self, index: int, tasks: list[dict[str, str]]) -> None:
        self.forest.answer(index, call("spawn_agents", tasks=tasks))

    @precondition(lambda self: self.forest.waiting)
    @rule(index=SOME, kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
    def spawn_in_background(self, index: int, kinds: list[str]) -> None:
        self.forest.answer(index, calls([background_use("dig", kind) for kind in kinds]))

    @precondition(lambda self: self.forest.waiting)
    @rule(index=SOME, data=st.data(), turns=st.integers(0, 25), victim=SOME)
    def interrupt(self, index: int, data: Any, turns: int, victim: int) -> None:
        request, _ = self.forest.waiting[index % len(self.forest.waiting)]
        reply = data.draw(replies(self.forest.ended_children(request.agent_id)))
        self.forest.interrupt(index, reply, turns, victim)

    @precondition(lambda self: self.forest.deadlines)
    @rule(what=st.sampled_from(["cancel", "expire", "steer", "repeat", "cancel turn", "cancel all"]), index=SOME)
    def disturb(self, what: str, index: int) -> None:
        match what:
            case "cancel":
                self.forest.cancel(index + 1)
            case "expire":
                self.forest.expire(index)
            case "steer":
                self.forest.steer(index)
            case "repeat":
                self.forest.repeat(index)
            case "cancel turn":
                self.forest.cancel_turn()
            case _:
                self.forest.cancel(0)

    @invariant()
    def limits_hold(self) -> None:
        self.forest.check_always()

    def teardown(self) -> None:
        with self.folder:
            try:
                self.forest.finish(say("done"))
                self.forest.check_rest()
            finally:
                self.forest.close()


@pytest.mark.requirement("E4")
@pytest.mark.requirement("E11")
@pytest.mark.requirement("E6")
@pytest.mark.requirement("E19")
def test_every_run_starts_once_and_ends_once_and_leaves_nothing_behind() -> None:
    run_state_machine_as_test(
        AnyTree,
        settings=settings(
            max_examples=40,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        ),
    )
