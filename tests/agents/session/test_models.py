"""The model of each agent, its effort and its thinking, and the titles that models give to their sub-agents."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.domain.event import MessageAdded
from deputy_agents.domain.message import Reply
from deputy_agents.domain.model_card import Effort, ModelCard, ModelCards, ThinkingMode, ThinkingType
from deputy_agents.domain.settings import AgentSettings, Settings
from deputy_agents.model import card_file
from deputy_agents.model.scripted import Script, ScriptedModel, calls, say, use
from deputy_agents.ports.model import ModelRequest, Thinking
from tests.support.core import Cast, Core, StillClock, core, delegate, small

pytestmark = pytest.mark.asyncio

BUILT_IN = card_file.built_in()
ADAPTIVE = ModelCard(efforts=tuple(Effort), thinking=(ThinkingType.ADAPTIVE, ThinkingType.DISABLED))
CARDS = ModelCards((("big", ADAPTIVE), ("tiny", ADAPTIVE), ("fast", ADAPTIVE)))
SETTINGS = Settings(model="big", small_model="tiny", effort=Effort.MEDIUM, cards=CARDS)


def chosen(request: ModelRequest) -> tuple[str, Effort | None]:
    return request.model, request.effort


def definition(root: Path, name: str, **fields: object) -> None:
    folder = root / ".deputy" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{key}: {value}" for key, value in {"name": name, "description": "d", **fields}.items()]
    (folder / f"{name}.md").write_text("\n".join(["---", *lines, "---", "Work."]))


async def spawned(tmp_path: Path, settings: Settings = SETTINGS, **how: object) -> tuple[str, Effort | None]:
    """Model and effort of a child that ``spawn_agent`` starts with these arguments."""
    script = Cast([delegate("look", **how), say("done")], {"look": [say("seen")]})
    async with core(tmp_path, script, settings=settings) as c:
        await c.turn()
        node = c.child("look")
        assert chosen(c.requests("look")[0]) == (node.info.model, node.info.effort)
        return node.info.model, node.info.effort


# -- sub-agents ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("M2")
@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, ("big", "medium")),
        ({"effort": "max"}, ("big", "max")),
        ({"model": "inherit"}, ("big", "medium")),
        ({"model": "small"}, ("tiny", "medium")),
        ({"model": "default"}, ("big", "medium")),
        ({"model": "fast", "effort": "low"}, ("fast", "low")),
    ],
)
async def test_an_agent_chooses_model_and_effort_of_its_child(
    tmp_path: Path, how: dict[str, object], expected: tuple[str, str]
) -> None:
    assert await spawned(tmp_path, small(SETTINGS, models=("fast",)), **how) == expected


@pytest.mark.requirement("M2")
async def test_a_model_that_the_settings_do_not_allow_is_rejected_with_those_that_they_allow(tmp_path: Path) -> None:
    script = Cast([delegate("look", model="dear"), say("done")])
    async with core(tmp_path, script, settings=small(SETTINGS, models=("fast",))) as c:
        await c.turn()
        assert "model: 'dear' is not allowed; use one of: inherit, small, default, fast." in c.told()[0]
        assert len(c.session.agents()) == 1


@pytest.mark.requirement("M2")
async def test_a_child_inherits_only_what_its_definition_does_not_set(tmp_path: Path) -> None:
    root = tmp_path / "work"
    definition(root, "thorough", effort="xhigh")
    definition(root, "quick", model="tiny")
    tasks = [{"task": name, "subagent_type": name} for name in ("thorough", "quick")]
    tasks.append({"task": "both", "subagent_type": "thorough", "effort": "low", "model": "small"})
    script = Cast(
        [calls([use("spawn_agents", tasks=tasks)]), say("done")],
        {name: [say("seen")] for name in ("thorough", "quick", "both")},
    )
    async with core(root, script, settings=SETTINGS) as c:
        await c.turn()
        assert chosen(c.requests("thorough")[0]) == ("big", Effort.XHIGH)
        assert chosen(c.requests("quick")[0]) == ("tiny", Effort.MEDIUM)
        assert chosen(c.requests("both")[0]) == ("tiny", Effort.LOW)


@pytest.mark.requirement("M2")
async def test_the_tools_name_the_models_that_the_settings_allow(tmp_path: Path) -> None:
    async with core(tmp_path, lambda _: say("done"), settings=small(SETTINGS, models=("fast", "far/away"))) as c:
        await c.turn()
        tools = {tool.name: str(tool.input_schema) for tool in c.requests()[0].tools}
        delegation = ("spawn_agent", "spawn_agents", "task", "code_search", "code_review", "planner")
        assert all("or one of these names: fast, far/away." in tools[name] for name in delegation)


@pytest.mark.requirement("M11")
async def test_the_title_that_an_agent_gives_is_the_label_of_its_child(tmp_path: Path) -> None:
    long = "Audit the module group of the store and all that it imports"
    tasks = [
        {"task": "a", "title": " Audit  store\nnow "},
        {"task": "b", "title": long},
        {"task": "Audit module", "title": " "},
    ]
    script = Cast(
        [
            calls(
                [
                    use("spawn_agents", tasks=tasks),
                    use("code_search", query="where", title="Find the retry loop"),
                    use("task", description="d", prompt="behind", subagent_type="general", title="In the background"),
                ]
            ),
            say("done"),
            say("told"),
        ],
        {name: [say("seen")] for name in ("a", "b", "Audit module", "where", "behind")},
    )
    async with core(tmp_path, script, settings=SETTINGS) as c:
        await c.turn()
        labels = [node.info.label for node in c.session.agents() if node.info.depth]
        shortened = f"{long[:39]}…"
        assert sorted(labels) == sorted(
            ["Audit store", shortened, "Audit module", "Find the retry loop", "In the background"]
        )
        assert len(shortened) == 40


# -- the session -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("M2")
async def test_a_session_changes_model_effort_and_thinking_from_the_next_request_on(tmp_path: Path) -> None:
    script = Cast([say("one"), say("two"), delegate("look"), say("done")], {"look": [say("seen")]})
    async with core(tmp_path, script, settings=SETTINGS) as c:
        await c.turn()
        c.session.model_choice.change("fast", Effort.MAX, ThinkingMode.OFF)
        await c.turn()
        c.session.model_choice.change(effort="default", thinking="default")
        await c.turn()
        first, second, third, _ = c.requests()
        assert chosen(first) == ("big", Effort.MEDIUM)
        assert first.thinking == third.thinking == Thinking(ThinkingType.ADAPTIVE)
        assert chosen(second) == ("fast", Effort.HIGH)  # the most that is possible without thinking
        assert second.thinking == Thinking(ThinkingType.DISABLED)
        assert chosen(third) == chosen(c.requests("look")[0]) == ("fast", Effort.MEDIUM)
        assert [(node.info.model, node.info.effort) for node in c.session.agents()] == [("fast", Effort.MEDIUM)] * 2


@pytest.mark.requirement("M2")
async def test_the_choice_of_a_session_survives_a_restart(tmp_path: Path) -> None:
    async with core(tmp_path, lambda _: say("done"), settings=SETTINGS) as c:
        c.session.model_choice.change("fast", Effort.LOW, ThinkingMode.OFF)
        await c.session.keeper.save()
        record = await c.store.get(c.session.id)
        assert (record.model, record.effort, record.thinking) == ("fast", Effort.LOW, ThinkingMode.OFF)
        await c.runtime.unload(c.session.id)
        session = await c.runtime.load(c.session.settings.client, c.session.id, roots=[tmp_path])
        (node,) = session.agents()
        assert (node.info.model, node.info.effort) == ("fast", Effort.LOW)


# -- what a model rejects --------------------------------------------------------------------------------------------


def picky(word: str) -> Script:
    """A model that rejects every request whose options include ``word``."""

    def script(request: ModelRequest) -> Reply:
        options = {"thinking": request.thinking, "effort": request.effort, "temperature": request.temperature}
        if options.get(word) is not None:
            raise ModelError(f"{word}: Extra inputs are not permitted", ModelErrorKind.INVALID_REQUEST)
        return delegate("look") if request.depth == 0 and len(request.messages) == 1 else say("done")

    return script


async def notices(c: Core) -> list[str]:
    await c.caught_up()
    return [message.text for message in c.bodies(MessageAdded) if "does not accept" in message.text]


@pytest.mark.requirement("M1")
@pytest.mark.parametrize("word", ["thinking", "effort"])
async def test_an_option_that_a_model_rejects_is_left_out_by_all_agents_and_the_user_told_once(
    tmp_path: Path, word: str
) -> None:
    async with core(tmp_path, picky(word), settings=SETTINGS) as c:
        await c.turn()
        asked = [getattr(request, word) is not None for request in c.model.requests]
        assert asked == [True, False, False, False]
        assert await notices(c) == [f"The model big does not accept {word}, so it is left out from now on."]


async def test_an_error_that_only_names_an_option_leaves_it_in(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Reply:
        raise ModelError("thinking is broken today", ModelErrorKind.INVALID_REQUEST)

    async with core(tmp_path, script, settings=SETTINGS) as c:
        assert (await c.turn()).stop_reason == "error"
        await c.turn()
        assert [request.thinking is not None for request in c.model.requests] == [True, False, True, False]
        assert await notices(c) == []


@pytest.mark.parametrize(("thinking", "temperature"), [("auto", None), ("off", 0)])
async def test_a_definition_with_a_temperature_has_it_only_where_the_model_does_not_think(
    tmp_path: Path, thinking: str, temperature: float | None
) -> None:
    definition(tmp_path, "cold", temperature=0)
    tasks = [{"task": "look", "subagent_type": "cold"}]
    script = Cast([calls([use("spawn_agents", tasks=tasks)]), say("done")], {"look": [say("seen")]})
    settings = Settings(model="claude-haiku-4-5", cards=BUILT_IN, thinking=ThinkingMode(thinking))
    async with core(tmp_path, script, settings=settings) as c:
        await c.turn()
        assert c.requests("look")[0].temperature == temperature


async def test_agents_have_no_models_to_choose_by_default() -> None:
    assert AgentSettings().models == ()


# -- a model that stays overloaded -------------------------------------------------------------------------------------


def overloaded(*models: str) -> Script:
    def script(request: ModelRequest) -> Reply:
        if request.model in models:
            raise ModelError("The model service is overloaded.", ModelErrorKind.OVERLOADED, retryable=True)
        return say(f"from {request.model}")

    return script


@pytest.mark.requirement("M10")
async def test_a_fallback_model_takes_over_for_the_turn_and_the_user_is_told(tmp_path: Path) -> None:
    settings = replace(SETTINGS, fallback_model="fast")
    async with core(tmp_path, overloaded("big"), settings=settings, clock=StillClock()) as c:
        assert (await c.turn()).stop_reason == "end_turn"
        assert [request.model for request in c.model.requests] == ["big"] * 3 + ["fast"]
        await c.caught_up()
        texts = [message.text for message in c.bodies(MessageAdded) if message.role == "assistant"]
        assert texts == [
            "big does not answer (The model service is overloaded), so fast takes over until the end of this turn.",
            "from fast",
        ]
        await c.turn()
        assert [request.model for request in c.model.requests[4:]] == ["big"] * 3 + ["fast"]
        assert c.session.agents()[0].info.model == "big"


@pytest.mark.requirement("M10")
async def test_without_a_fallback_model_an_overloaded_one_is_tried_to_the_end(tmp_path: Path) -> None:
    async with core(tmp_path, overloaded("big"), settings=SETTINGS, clock=StillClock()) as c:
        assert (await c.turn()).stop_reason == "error"
        assert {request.model for request in c.model.requests} == {"big"}


async def test_a_fallback_model_that_is_overloaded_too_ends_the_turn(tmp_path: Path) -> None:
    settings = replace(SETTINGS, fallback_model="fast")
    async with core(tmp_path, overloaded("big", "fast"), settings=settings, clock=StillClock()) as c:
        assert (await c.turn()).stop_reason == "error"
        assert [request.model for request in c.model.requests] == ["big"] * 3 + ["fast"] * 5


@pytest.mark.requirement("M10")
async def test_a_model_that_asks_for_a_long_wait_is_replaced_at_once(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Reply:
        if request.model == "big":
            raise ModelError("Limited.", ModelErrorKind.RATE_LIMITED, retryable=True, retry_after=3600)
        return say("done")

    settings = replace(SETTINGS, fallback_model="fast")
    async with core(tmp_path, script, settings=settings, clock=StillClock()) as c:
        assert (await c.turn()).stop_reason == "end_turn"
        assert [request.model for request in c.model.requests] == ["big", "fast"]


# -- the first request -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("M9")
async def test_a_session_prepares_its_model_soon_after_it_is_opened(tmp_path: Path) -> None:
    prepared = asyncio.Event()

    class Slow(ScriptedModel):
        async def prepare(self) -> None:
            prepared.set()
            raise RuntimeError("a failure to prepare ends nothing")

    async with core(tmp_path, lambda _: say("done"), wrap=lambda _: Slow(lambda _: say("done"))) as c:
        await prepared.wait()
        assert (await c.turn()).stop_reason == "end_turn"
