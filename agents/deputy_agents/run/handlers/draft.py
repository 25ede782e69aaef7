"""A step under construction, and the moves that several handlers share."""

from dataclasses import replace
from typing import Any

from deputy_agents.domain.errors import InvalidTransition
from deputy_agents.domain.message import Message, Text
from deputy_agents.domain.outcome import Cancelled, Completed, Failed, FailureReason, LimitReached
from deputy_agents.run.effect import AppendMessage, Effect, FinishTurn, NotifyParent, RequestModel
from deputy_agents.run.history import text_only
from deputy_agents.run.state import Context, EffectId, Idle, LlmRequesting, Note, Phase, State

UNREAD = "(Not read: the agent ended first.)"


class Draft:
    """The next state except its phase, and the effects of the step so far."""

    def __init__(self, state: State, context: Context) -> None:
        self.state = state
        self.context = context
        self.effects: list[Effect] = []

    def add(self, *effects: Effect) -> None:
        self.effects.extend(effects)

    def update(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)

    def new_id(self) -> EffectId:
        effect = self.state.next_effect
        self.update(next_effect=effect + 1)
        return effect

    def take_notes(self) -> tuple[Note, ...]:
        notes = self.state.notes
        self.update(notes=())
        return notes

    @property
    def at_limit(self) -> bool:
        """No further model request is allowed in this run."""
        return self.state.iterations >= self.context.max_iterations

    @property
    def must_continue(self) -> bool:
        """Notes wait for the model, and another request is allowed."""
        return bool(self.state.notes) and not self.at_limit


def request_model(draft: Draft, attempt: int = 1) -> LlmRequesting:
    effect = draft.new_id()
    draft.add(RequestModel(effect, attempt))
    return LlmRequesting(attempt, effect)


def next_request(draft: Draft) -> Phase:
    """Requests the model again, after a message with the waiting notes; at the limit, ends the run instead."""
    if draft.at_limit:
        return _stop_at_limit(draft)
    if notes := draft.take_notes():
        draft.add(AppendMessage(Message("user", note_blocks(notes)), shown_text(notes)))
    return request_model(draft)


def end_run(draft: Draft, ending: Completed | Failed | Cancelled) -> Phase:
    """Ends the run of a child. Waiting notes go into the history for a later run, and are shown as unread."""
    if notes := draft.take_notes():
        shown = shown_text(notes)
        draft.add(AppendMessage(Message("user", note_blocks(notes)), f"{shown}\n\n{UNREAD}" if shown else ""))
    draft.add(NotifyParent(ending))
    return ending


def keep_partial(draft: Draft, partial: Message | None) -> None:
    """Appends the text of a message that was cut off, which the user has seen."""
    if partial is None:
        return
    message = text_only(partial)
    if message.content:
        draft.update(last_text=message.text.strip())
        draft.add(AppendMessage(message, message.text))


def note_blocks(notes: tuple[Note, ...]) -> tuple[Text, ...]:
    return tuple(Text(note.text) for note in notes)


def shown_text(notes: tuple[Note, ...]) -> str:
    """The notes that the user sees, separated by blank lines."""
    return "\n\n".join(note.text for note in notes if note.shown)


def require_outstanding(effect: EffectId, expected: EffectId | None) -> None:
    if effect != expected:
        raise InvalidTransition(f"effect {effect} is not outstanding")


def _stop_at_limit(draft: Draft) -> Phase:
    error = f"it reached its limit of {draft.context.max_iterations} model requests"
    if draft.context.is_child:
        return end_run(draft, Failed(FailureReason.BUDGET_EXCEEDED, error, draft.state.last_text))
    limit = LimitReached(f"{error} for one prompt", "limits.turnIterations")
    draft.add(FinishTurn("max_turn_requests", limit=limit))
    return Idle()
