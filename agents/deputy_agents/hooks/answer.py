"""The answer of a hook: its exit code and its output, which may be JSON, with the meaning that they have in Claude
Code."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, cast

from pydantic import BaseModel, Field, ValidationError

from deputy_agents.domain.hook import Hook, When
from deputy_agents.domain.rule import DecisionKind
from deputy_agents.text import cut
from deputy_agents.validation_errors import describe

BLOCKS: Final = 2
"""The exit code that blocks what the event is about."""
MAX_CONTEXT: Final = 8000
"""Characters of a hook's output that an agent reads."""

_STRICT: Final = (When.BEFORE_TOOL, When.AFTER_TOOL, When.PROMPT_SUBMIT)
_OUTPUT_IS_CONTEXT: Final = (When.SESSION_START, When.PROMPT_SUBMIT)
_DECISIONS: Final = {"block": DecisionKind.DENY, "approve": DecisionKind.ALLOW}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a hook answers about its event. ``decision`` is ``None`` if it leaves the decision to others; ``reason`` is
    the reason for it. ``context`` is for the agent, ``message`` for the user. ``failure`` is the reason why the hook
    failed, if its failure decides nothing. ``stop`` is the reason to end the turn."""

    decision: DecisionKind | None = None
    reason: str = ""
    context: str = ""
    message: str = ""
    failure: str | None = None
    stop: str | None = None

    @property
    def blocks(self) -> bool:
        return self.decision is DecisionKind.DENY


class _PermissionAnswer(BaseModel):
    behavior: Literal["allow", "deny"]
    message: str = ""
    interrupt: bool = False
    changed: Annotated[object, Field(alias="updatedInput")] = None


class _Specific(BaseModel):
    context: Annotated[str, Field(alias="additionalContext")] = ""
    permission: Annotated[Literal["allow", "deny", "ask", "defer"] | None, Field(alias="permissionDecision")] = None
    permission_reason: Annotated[str, Field(alias="permissionDecisionReason")] = ""
    changed: Annotated[object, Field(alias="updatedInput")] = None
    decision: _PermissionAnswer | None = None


class _Json(BaseModel):
    goes_on: Annotated[bool, Field(alias="continue")] = True
    stop_reason: Annotated[str, Field(alias="stopReason")] = ""
    message: Annotated[str, Field(alias="systemMessage")] = ""
    decision: Literal["approve", "block", "allow", "deny", "ask"] | None = None
    reason: str = ""
    specific: Annotated[_Specific, Field(alias="hookSpecificOutput")] = Field(default_factory=_Specific)


def failed(hook: Hook, reason: str) -> Answer:
    """The answer of a hook that failed in another way than exit code 2."""
    if hook.strict and hook.when in _STRICT:
        return Answer(DecisionKind.DENY, reason)
    return Answer(failure=reason)


def read_answer(hook: Hook, code: int, output: str, errors: str) -> Answer:
    """The answer of ``hook``, which exited with ``code`` and printed ``output`` and ``errors``."""
    both = cut("\n".join(filter(None, (output.strip(), errors.strip()))), MAX_CONTEXT)
    if code == BLOCKS:
        return Answer(DecisionKind.DENY, both)
    if code != 0:
        return failed(hook, both or f"exit code {code}")
    if output.lstrip().startswith("{"):
        return _read_json(hook, output)
    return _text(hook, output)


def _text(hook: Hook, output: str) -> Answer:
    return Answer(context=cut(output.strip(), MAX_CONTEXT) if hook.when in _OUTPUT_IS_CONTEXT else "")


def _without_nulls(value: object) -> object:
    """``value`` without the fields that are null, which mean the same as absent ones."""
    if not isinstance(value, dict):
        return value
    fields = cast("Mapping[str, object]", value)
    return {name: _without_nulls(field) for name, field in fields.items() if field is not None}


def _read_json(hook: Hook, output: str) -> Answer:
    try:
        value = _without_nulls(json.loads(output))
    except (ValueError, RecursionError):  # text that only looks like it
        return _text(hook, output)
    try:
        answer = _Json.model_validate(value)
    except ValidationError as error:
        return failed(hook, f"its answer is invalid: {describe(error)}")
    decision, reason = _decision(answer)
    stop = None if answer.goes_on else answer.stop_reason or reason or "it asked to stop"
    if (asked := answer.specific.decision) is not None and asked.interrupt:
        stop = reason or "it asked to stop"
    context = cut(answer.specific.context.strip(), MAX_CONTEXT)
    return Answer(decision, cut(reason.strip(), MAX_CONTEXT), context, cut(answer.message, MAX_CONTEXT), None, stop)


def _decision(answer: _Json) -> tuple[DecisionKind | None, str]:
    specific = answer.specific
    changed = specific.changed if specific.decision is None else specific.decision.changed
    if changed is not None:
        # What it allows is not the call that the agent has made.
        return DecisionKind.DENY, "it changes the input (updatedInput), which is not supported"
    if specific.decision is not None:
        return DecisionKind(specific.decision.behavior), specific.decision.message
    if specific.permission is not None:
        kind = None if specific.permission == "defer" else DecisionKind(specific.permission)
        return kind, specific.permission_reason
    if answer.decision is None:
        return None, answer.reason
    return _DECISIONS.get(answer.decision) or DecisionKind(answer.decision), answer.reason
