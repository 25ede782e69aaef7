"""What requests ask for as thinking and effort: what the user chose, as far as the model accepts it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain import message as msg
from deputy_agents.domain.message import Message, Text, ToolResult, ToolUse
from deputy_agents.domain.model_card import Effort, ModelCard, ThinkingMode, ThinkingType
from deputy_agents.model import card_file
from deputy_agents.model.request_params import head_params
from deputy_agents.ports.model import ModelRequest
from deputy_agents.run.thinking import Reasoning, accepted_effort, reasoning
from tests.support.api_rules import broken_rules
from tests.support.model_infos import MODELS

CARDS = card_file.built_in()
PROMPT = (Message("user", (Text("Go."),)),)
HEADERS = {"anthropic-version": "2026-10-21"}


def head(model: str, mode: ThinkingMode, effort: Effort | None = None, max_tokens: int = 16_384) -> dict[str, object]:
    """``thinking`` and ``output_config`` of a request."""
    chosen = reasoning(CARDS.card(model), mode, effort, max_tokens, PROMPT)
    request = ModelRequest(model, "", PROMPT, max_tokens=max_tokens, thinking=chosen.thinking, effort=chosen.effort)
    params = head_params(request)
    return {name: params[name] for name in ("thinking", "output_config") if name in params}


@pytest.mark.requirement("M1")
@pytest.mark.parametrize(
    ("model", "mode", "expected"),
    [
        ("claude-sonnet-5-5", "auto", {"type": "adaptive", "display": "summarized"}),
        ("claude-sonnet-5-5", "always", {"type": "adaptive", "display": "summarized"}),
        ("claude-sonnet-5-5", "off", {"type": "between_tools"}),
        ("claude-haiku-5-5", "off", {"type": "disabled"}),
        ("claude-opus-5-5", "off", None),
        ("claude-opus-4-6", "auto", {"type": "adaptive", "display": "summarized"}),
        ("claude-opus-4-6", "always", {"type": "enabled", "display": "summarized", "budget_tokens": 8192}),
        ("claude-haiku-4-5", "auto", {"type": "enabled", "display": "summarized", "budget_tokens": 8192}),
        ("claude-haiku-4-5", "off", {"type": "disabled"}),
        ("unknown", "auto", None),
        ("unknown", "always", {"type": "enabled", "display": "summarized", "budget_tokens": 8192}),
        ("unknown", "off", {"type": "disabled"}),
    ],
)
def test_the_request_has_the_thinking_that_the_model_accepts(model: str, mode: str, expected: object) -> None:
    assert head(model, ThinkingMode(mode)).get("thinking") == expected


@pytest.mark.requirement("M2")
@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("claude-sonnet-5-5", "xhigh", {"effort": "xhigh"}),
        ("claude-opus-4-6", "xhigh", {"effort": "high"}),
        ("claude-opus-4-6", "max", {"effort": "max"}),
        ("claude-haiku-4-5", "high", None),
        ("unknown", "low", {"effort": "low"}),
        ("claude-sonnet-5-5", None, None),
    ],
)
def test_the_request_has_the_effort_that_the_model_accepts(model: str, effort: str | None, expected: object) -> None:
    chosen = None if effort is None else Effort(effort)
    assert head(model, ThinkingMode.AUTO, chosen).get("output_config") == expected


def test_the_lowest_effort_of_a_model_stands_for_a_lower_one() -> None:
    card = ModelCard(efforts=(Effort.HIGH, Effort.MEDIUM))
    assert accepted_effort(card, Effort.LOW) is Effort.MEDIUM


def test_effort_sets_the_budget_of_a_model_that_thinks_within_one() -> None:
    card = CARDS.card("claude-haiku-4-5")
    chosen = [reasoning(card, ThinkingMode.AUTO, effort, 200_000, PROMPT).thinking for effort in Effort]
    budgets = [0 if thinking is None else thinking.budget for thinking in chosen]
    assert budgets == sorted(set(budgets))
    assert len(budgets) == len(Effort)


def test_a_reply_too_short_for_the_smallest_budget_has_no_thinking() -> None:
    assert head("claude-haiku-4-5", ThinkingMode.AUTO, max_tokens=2047) == {}


def test_a_tool_loop_that_has_lost_its_thinking_goes_on_without_a_budget() -> None:
    use = ToolUse("t", "grep", {})
    answer = Message("user", (ToolResult("t", "found"),))
    lost = (*PROMPT, Message("assistant", (use,)), answer)
    kept = (*PROMPT, Message("assistant", (msg.Thinking("Hm.", "s"), use)), answer)
    card = CARDS.card("claude-haiku-4-5")
    assert reasoning(card, ThinkingMode.AUTO, None, 16_384, lost) == Reasoning()
    assert reasoning(card, ThinkingMode.AUTO, None, 16_384, kept).thinking is not None
    next_prompt = (*lost, Message("assistant", (Text("Done."),)), *PROMPT)
    assert reasoning(card, ThinkingMode.AUTO, None, 16_384, next_prompt).thinking is not None


@pytest.mark.requirement("M1")
@given(
    st.sampled_from(sorted(MODELS)),
    st.sampled_from(ThinkingMode),
    st.none() | st.sampled_from(Effort),
    st.integers(1, 100_000),
)
def test_the_service_accepts_every_combination(
    model: str, mode: ThinkingMode, effort: Effort | None, max_tokens: int
) -> None:
    body = {"model": model, "max_tokens": max_tokens, "messages": [{"role": "user", "content": "Go."}]}
    assert broken_rules(HEADERS, {**body, **head(model, mode, effort, max_tokens)}) == []


def test_the_built_in_cards_say_what_the_service_lists() -> None:
    names = {ThinkingType.BUDGET: "enabled"}
    for model in MODELS.values():
        card = CARDS.card(model.name)
        assert card.thinking is not None
        assert card.efforts is not None
        assert {names.get(kind, kind.value) for kind in card.thinking} == set(model.thinking), model.name
        assert [effort.value for effort in card.efforts] == list(model.efforts)
        assert (card.window, card.max_output, card.display_name) == (model.window, model.max_output, model.display_name)
