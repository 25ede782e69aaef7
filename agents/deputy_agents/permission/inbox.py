"""What a session asks the user: permission to run tool calls, and input."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from anyio.abc import TaskGroup

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.event import (
    InputRequest,
    InputRequested,
    InputResolved,
    Option,
    OptionKind,
    PermissionRequest,
    PermissionRequested,
    PermissionResolved,
    ResolvedBy,
)
from deputy_agents.domain.preview import Preview
from deputy_agents.domain.rule import DecisionKind
from deputy_agents.domain.user_input import InputAction, Value
from deputy_agents.events.event_log import EventLog
from deputy_agents.permission.decide import Decision
from deputy_agents.permission.input_values import validated
from deputy_agents.permission.open_requests import OpenRequests, UserRequest
from deputy_agents.ports.permission import (
    Accepted,
    Declined,
    Dismissed,
    InputAnswer,
    PermissionAnswer,
    PermissionClient,
    Selected,
)

_EARLIER_IDS = {"allow_always": "allow_session", "reject_always": "reject_session"}
"""Ids that options had before, which clients may still send."""


@dataclass(frozen=True, slots=True)
class PermissionOutcome:
    """How a permission request was settled. ``option`` is set if the user chose one; ``allowed`` if a rule now allows
    the call."""

    by: ResolvedBy
    option: Option | None = None
    feedback: str | None = None
    input: Mapping[str, object] | None = None
    allowed: bool = False
    reason: str = ""
    """The reason of the decision by a rule, as a sentence."""

    @classmethod
    def by_rule(cls, decision: Decision) -> Self | None:
        """The outcome when rules decide about an open request; ``None`` while they still ask."""
        if decision.kind is DecisionKind.ASK:
            return None
        return cls(ResolvedBy.RULE, allowed=decision.kind is DecisionKind.ALLOW, reason=decision.reason)


@dataclass(frozen=True, slots=True)
class InputOutcome:
    """How an input request was settled. ``values`` are the user's, validated, if they were ``ACCEPTED``."""

    by: ResolvedBy
    action: InputAction = InputAction.CANCELLED
    values: Mapping[str, Value] | None = None


@dataclass(frozen=True)
class _Permission(UserRequest[PermissionRequest, PermissionOutcome]):
    request: PermissionRequest
    run: int
    decide_by_rules: Callable[[], PermissionOutcome | None]
    complete: Preview | None = None
    only_edits: bool = False

    def opened(self) -> PermissionRequested:
        return PermissionRequested(self.request)

    def settled(self, outcome: PermissionOutcome) -> PermissionResolved:
        option_id = outcome.option.option_id if outcome.option else None
        return PermissionResolved(self.request_id, outcome.by, option_id, outcome.reason or None)

    def unanswered(self, by: ResolvedBy) -> PermissionOutcome:
        return PermissionOutcome(by)

    async def ask(self, client: PermissionClient) -> PermissionOutcome | Dismissed:
        match await client.ask(self.request):
            case Selected(option_id) as answer if option := self.option(option_id):
                return self.chosen(option, answer)
            case Dismissed() as answer:
                return answer
            case _:
                return Dismissed()

    def decided(self) -> PermissionOutcome | None:
        return self.decide_by_rules()

    def without_details(self) -> Self:
        return replace(self, request=replace(self.request, preview=None, input={}, locations=()), complete=None)

    def option(self, option_id: str) -> Option | None:
        by_id = {option.option_id: option for option in self.request.options}
        return by_id.get(option_id) or by_id.get(_EARLIER_IDS.get(option_id, ""))

    def approved(self) -> PermissionOutcome:
        """The outcome if the user approves it once."""
        once = next(option for option in self.request.options if option.kind is OptionKind.ALLOW_ONCE)
        return PermissionOutcome(ResolvedBy.USER, once)

    @staticmethod
    def chosen(option: Option, answer: Selected) -> PermissionOutcome:
        return PermissionOutcome(ResolvedBy.USER, option, answer.feedback, answer.input)


@dataclass(frozen=True)
class _Input(UserRequest[InputRequest, InputOutcome]):
    request: InputRequest
    run: int

    def opened(self) -> InputRequested:
        return InputRequested(self.request)

    def settled(self, outcome: InputOutcome) -> InputResolved:
        return InputResolved(self.request_id, outcome.action, outcome.by)

    def unanswered(self, by: ResolvedBy) -> InputOutcome:
        return InputOutcome(by)

    async def ask(self, client: PermissionClient) -> InputOutcome | Dismissed:
        match await client.ask_input(self.request):
            case Accepted() | Declined() as answer:
                try:
                    return self.outcome(answer)
                except InvalidRequest:  # values that do not validate are no answer
                    return Dismissed()
            case Dismissed() as answer:
                return answer

    def outcome(self, answer: InputAnswer) -> InputOutcome:
        """
        Raises:
            InvalidRequest: the values do not fit the fields.
        """
        match answer:
            case Accepted(values):
                accepted = validated(self.request.form.fields, values)
                return InputOutcome(ResolvedBy.USER, InputAction.ACCEPTED, accepted)
            case Declined():
                return InputOutcome(ResolvedBy.USER, InputAction.DECLINED)
            case Dismissed(by):
                return InputOutcome(by)


class Inbox(OpenRequests):
    """The open permission requests and input requests of a session."""

    def __init__(self, log: EventLog, tasks: TaskGroup, grace: float = 0) -> None:
        super().__init__(log, tasks, grace)
        self._approved_edits: set[str] = set()
        """The ids of agents all of whose edits the user has approved for this turn."""

    def permission_requests(self) -> Sequence[PermissionRequest]:
        return [one.request for one in self.open(_Permission)]

    def input_requests(self) -> Sequence[InputRequest]:
        return [one.request for one in self.open(_Input)]

    def has(self, request_id: str) -> bool:
        """Whether this permission request is open or was settled recently."""
        return self.known(_Permission, request_id) is not None

    def has_input(self, request_id: str) -> bool:
        """Whether this input request is open or was settled recently."""
        return self.known(_Input, request_id) is not None

    # -- permission ------------------------------------------------------------------------------------------------

    async def ask(
        self,
        request: PermissionRequest,
        run: int,
        decide_by_rules: Callable[[], PermissionOutcome | None],
        complete: Preview | None = None,
        *,
        only_edits: bool = False,
    ) -> PermissionOutcome:
        """Wait for the answer, without a time limit. Cancelling the wait withdraws the request from all clients.
        ``only_edits``: it is about usual files alone, so :meth:`approve_edits` can answer it.
        ``decide_by_rules`` is called when rules change and returns the outcome if they now decide the request.
        ``complete`` is its preview where that of ``request`` is shortened."""
        asked = _Permission(request, run, decide_by_rules, complete, only_edits)
        if only_edits and request.agent.agent_id in self._approved_edits:
            return asked.approved()
        return await self.wait(asked)

    def approve_edits(self, request_id: str) -> Sequence[str]:
        """Approve an open request about an edit, and every edit of the same agent until the turn ends, of files that
        need no approval of their own kind. Returns the ids of the requests that this settles.

        Raises:
            InvalidRequest: no such request is open, or it is about more than the edit of a usual file.
        """
        known = self.known(_Permission, request_id)
        if known is None or not known.only_edits:
            reason = (
                "does not exist" if known is None else "is about more than the edit of a usual file: answer it alone"
            )
            raise InvalidRequest(f"Permission request {request_id}: it {reason}.", "requestId")
        own = [one for one in self.open(_Permission) if one.only_edits and one.agent.agent_id == known.agent.agent_id]
        if request_id not in [one.request_id for one in own]:
            return ()
        self._approved_edits.add(known.agent.agent_id)
        return [one.request_id for one in own if self.settle(one.request_id, one.approved())]

    def end_turn(self) -> None:
        """The turn has ended, and with it what :meth:`approve_edits` has approved."""
        self._approved_edits.clear()

    def complete_preview(self, request_id: str) -> Preview | None:
        """The preview of an open request with complete texts; ``None`` if it has no preview.

        Raises:
            InvalidRequest: no such request is open.
        """
        for one in self.open(_Permission):
            if one.request_id == request_id:
                return one.complete or one.request.preview
        raise InvalidRequest(f"No permission request {request_id} is open.", "requestId")

    def answer(self, request_id: str, answer: PermissionAnswer) -> bool:
        """Settle a request on behalf of any client; ``False`` if it was already settled.

        Raises:
            InvalidRequest: the request or the option does not exist.
        """
        return self.settle(request_id, self.outcome_of(request_id, answer))

    def outcome_of(self, request_id: str, answer: PermissionAnswer) -> PermissionOutcome:
        """The outcome that ``answer`` would have. Changes nothing.

        Raises:
            InvalidRequest: the request or the option does not exist.
        """
        if (known := self.known(_Permission, request_id)) is None:
            raise InvalidRequest(f"There is no permission request {request_id}.", "requestId")
        if isinstance(answer, Dismissed):
            return PermissionOutcome(answer.by)
        if (option := known.option(answer.option_id)) is None:
            names = ", ".join(option.option_id for option in known.request.options)
            raise InvalidRequest(
                f"Permission request {request_id} has no option {answer.option_id!r}. Use one of: {names}.",
                "outcome.optionId",
            )
        return known.chosen(option, answer)

    # -- input -----------------------------------------------------------------------------------------------------

    async def ask_input(self, request: InputRequest, run: int) -> InputOutcome:
        """Wait for the user's input, without a time limit. Cancelling the wait withdraws the request from all
        clients."""
        return await self.wait(_Input(request, run))

    def answer_input(self, request_id: str, answer: InputAnswer) -> bool:
        """Settle an input request on behalf of any client; ``False`` if it was already settled.

        Raises:
            InvalidRequest: the request does not exist, or the values do not fit its fields.
        """
        if (known := self.known(_Input, request_id)) is None:
            raise InvalidRequest(f"There is no input request {request_id}.", "requestId")
        return self.settle(request_id, known.outcome(answer))
