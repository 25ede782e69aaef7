"""What a request asks for as thinking and effort: what the user chose, as far as the model accepts it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deputy_agents.domain import message as msg
from deputy_agents.domain.message import Message, ToolResult, tool_uses
from deputy_agents.domain.model_card import Effort, ModelCard, ThinkingMode, ThinkingType
from deputy_agents.ports.model import Thinking

MIN_BUDGET = 1024
"""The smallest budget that services accept."""

_BUDGETS: Mapping[Effort | None, int] = {
    Effort.LOW: 2048,
    None: 8192,
    Effort.MEDIUM: 8192,
    Effort.HIGH: 16_384,
    Effort.XHIGH: 32_768,
    Effort.MAX: 65_536,
}
_CHOICES: Mapping[ThinkingMode, tuple[ThinkingType, ...]] = {
    ThinkingMode.AUTO: (ThinkingType.ADAPTIVE, ThinkingType.BUDGET),
    ThinkingMode.ALWAYS: (ThinkingType.BUDGET, ThinkingType.ADAPTIVE),
    ThinkingMode.OFF: (ThinkingType.DISABLED, ThinkingType.BETWEEN_TOOLS),
}
"""What each mode asks for: the first that the model accepts."""

_FOR_UNKNOWN: Mapping[ThinkingMode, tuple[ThinkingType, ...]] = {
    ThinkingMode.AUTO: (),
    ThinkingMode.ALWAYS: (ThinkingType.BUDGET,),
    ThinkingMode.OFF: (ThinkingType.DISABLED,),
}
"""The same for a model of which nothing is known. Servers of other makers accept these, if anything."""

_WITHOUT_THINKING = Effort.HIGH
"""The most effort that services accept for a reply without thinking."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """``effort`` and ``thinking`` of a request."""

    thinking: Thinking | None = None
    effort: Effort | None = None

    @property
    def thinks(self) -> bool:
        """Whether the model may think, so that services accept no temperature."""
        return self.thinking is not None and self.thinking.type in (ThinkingType.ADAPTIVE, ThinkingType.BUDGET)


def reasoning(
    card: ModelCard, mode: ThinkingMode, effort: Effort | None, max_tokens: int, messages: Sequence[Message]
) -> Reasoning:
    """What to ask for in a request of ``messages`` with a reply of at most ``max_tokens``."""
    thinking = _thinking(card, mode, effort, max_tokens, messages)
    accepted = accepted_effort(card, effort)
    if thinking is not None and accepted is not None and thinking.type in _CHOICES[ThinkingMode.OFF]:
        accepted = min(accepted, _WITHOUT_THINKING, key=list(Effort).index)
    return Reasoning(thinking, accepted)


def accepted_effort(card: ModelCard, effort: Effort | None) -> Effort | None:
    """The highest effort up to ``effort`` that the model accepts, else its lowest; ``None`` if it accepts none."""
    if effort is None or card.efforts is None:
        return effort
    order = list(Effort)
    below = [one for one in card.efforts if order.index(one) <= order.index(effort)]
    return max(below, key=order.index) if below else min(card.efforts, key=order.index, default=None)


def _thinking(
    card: ModelCard, mode: ThinkingMode, effort: Effort | None, max_tokens: int, messages: Sequence[Message]
) -> Thinking | None:
    if card.thinking is None:
        choices = _FOR_UNKNOWN[mode]
    else:
        choices = tuple(one for one in _CHOICES[mode] if one in card.thinking)
    for choice in choices:
        if choice is not ThinkingType.BUDGET:
            return Thinking(choice)
        budget = min(_BUDGETS[effort], max_tokens // 2)
        if budget >= MIN_BUDGET and not _lost_thinking(messages):
            return Thinking(choice, budget)
    return None


def _lost_thinking(messages: Sequence[Message]) -> bool:
    """Whether the tool calls that the last message answers had no thinking, or no longer have it. A service that thinks
    within a budget accepts no such request."""
    answers = messages and any(isinstance(block, ToolResult) for block in messages[-1].content)
    asked = next((one for one in reversed(messages) if one.role == "assistant"), None) if answers else None
    return asked is not None and bool(tool_uses(asked)) and not isinstance(asked.content[0], msg.Thinking)
