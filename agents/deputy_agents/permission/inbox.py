"""The open permission requests of a session.

The inbox belongs to the session, not to a client. Each request is sent to every client that can ask the user and is
settled exactly once, by the first explicit answer. Any other response of a client (a closed prompt, null, an error,
invalid data) only removes that client from the request; when no client remains, the request is settled without an
answer and the call does not run.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import anyio
from anyio.abc import TaskGroup

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.event import Option, PermissionRequest, PermissionRequested, PermissionResolved, ResolvedBy
from deputy_agents.domain.rule import DecisionKind
from deputy_agents.events.event_log import EventLog
from deputy_agents.permission.decide import Decision
from deputy_agents.ports.permission import Dismissed, PermissionAnswer, PermissionClient, Selected

logger = logging.getLogger(__name__)

MAX_SETTLED = 1000
"""Settled requests that are remembered, to distinguish late answers from answers to unknown requests."""


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


@dataclass(slots=True)
class _OpenRequest:
    request: PermissionRequest
    run: int
    decide_by_rules: "Callable[[], PermissionOutcome | None]"
    future: "asyncio.Future[PermissionOutcome]"
    shown_by: dict[PermissionClient, anyio.CancelScope] = field(
        default_factory=dict[PermissionClient, anyio.CancelScope]
    )
    waits: int = 0
    """Number of times that it started to wait for a client."""
    dismissed: bool = False
    """A client showed it and the user closed it without an answer."""


class Inbox:
    """The open permission requests, oldest first. ``grace`` is how long a request waits for a client that can ask the
    user, in seconds; 0 if clients cannot reconnect."""

    def __init__(self, log: EventLog, tasks: TaskGroup, grace: float = 0) -> None:
        self._log = log
        self._tasks = tasks
        self.grace = grace
        self._clients: list[PermissionClient] = []
        self._open: dict[str, _OpenRequest] = {}
        self._settled: OrderedDict[str, tuple[Option, ...]] = OrderedDict()
        """The options of settled requests, to validate late answers."""

    def permission_requests(self) -> Sequence[PermissionRequest]:
        return [entry.request for entry in self._open.values()]

    def has(self, request_id: str) -> bool:
        """Whether this request is open or was settled recently."""
        return request_id in self._open or request_id in self._settled

    def attach(self, client: PermissionClient) -> None:
        """Send all open and future requests to ``client``. Does nothing if it is attached already."""
        if client in self._clients:
            return
        self._clients.append(client)
        for entry in tuple(self._open.values()):
            self._send(entry, client)

    def detach(self, client: PermissionClient) -> None:
        """Remove ``client``. Requests that no other client shows are settled as unreachable when the grace ends."""
        if client not in self._clients:
            return
        self._clients.remove(client)
        for entry in tuple(self._open.values()):
            if (scope := entry.shown_by.pop(client, None)) is not None:
                scope.cancel()
                self._check_reachable(entry)

    async def ask(
        self, request: PermissionRequest, run: int, decide_by_rules: Callable[[], PermissionOutcome | None]
    ) -> PermissionOutcome:
        """Wait for the answer, without a time limit. Cancelling the wait withdraws the request from all clients.
        ``decide_by_rules`` is called when rules change and returns the outcome if they now decide the request."""
        entry = _OpenRequest(request, run, decide_by_rules, asyncio.get_running_loop().create_future())
        self._open[request.request_id] = entry
        self._log.emit(PermissionRequested(request), request.agent.agent_id, run)
        for client in self._clients:
            self._send(entry, client)
        self._check_reachable(entry)
        try:
            return await entry.future
        finally:
            self._settle(entry, PermissionOutcome(ResolvedBy.CANCELLED))

    def answer(self, request_id: str, answer: PermissionAnswer) -> bool:
        """Settle a request on behalf of any client; ``False`` if it was already settled.

        Raises:
            InvalidRequest: the request or the option does not exist.
        """
        outcome = self.outcome_of(request_id, answer)
        entry = self._open.get(request_id)
        return entry is not None and self._settle(entry, outcome)

    def outcome_of(self, request_id: str, answer: PermissionAnswer) -> PermissionOutcome:
        """The outcome that ``answer`` would have. Changes nothing.

        Raises:
            InvalidRequest: the request or the option does not exist.
        """
        entry = self._open.get(request_id)
        options = entry.request.options if entry else self._settled.get(request_id)
        if options is None:
            raise InvalidRequest(f"There is no permission request {request_id}.", "requestId")
        match answer:
            case Selected(option_id, feedback, input):
                option = _option(options, option_id)
                if option is None:
                    known = ", ".join(option.option_id for option in options)
                    raise InvalidRequest(
                        f"Permission request {request_id} has no option {option_id!r}. Use one of: {known}.",
                        "outcome.optionId",
                    )
                return PermissionOutcome(ResolvedBy.USER, option, feedback, input)
            case Dismissed(by):
                return PermissionOutcome(by)

    def recheck(self) -> None:
        """Settle the requests that the rules decide after a change of the rules."""
        for entry in tuple(self._open.values()):
            if (outcome := entry.decide_by_rules()) is not None:
                self._settle(entry, outcome)

    def _send(self, entry: _OpenRequest, client: PermissionClient) -> None:
        scope = entry.shown_by[client] = anyio.CancelScope()
        self._tasks.start_soon(self._ask_client, entry, client, scope)

    async def _ask_client(self, entry: _OpenRequest, client: PermissionClient, scope: anyio.CancelScope) -> None:
        answer: PermissionAnswer = Dismissed()
        with scope:
            try:
                answer = await client.ask(entry.request)
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and not is_stray_cancel():
                    raise
                logger.exception("a client failed to ask permission request %s", entry.request.request_id)
        if entry.shown_by.pop(client, None) is None or scope.cancelled_caught:
            return
        match answer:
            case Selected(option_id, feedback, input) if option := _option(entry.request.options, option_id):
                self._settle(entry, PermissionOutcome(ResolvedBy.USER, option, feedback, input))
            case Dismissed(by=ResolvedBy.UNREACHABLE):
                self._check_reachable(entry)
            case _:
                entry.dismissed = True
                self._check_reachable(entry)

    def _check_reachable(self, entry: _OpenRequest) -> None:
        if entry.shown_by or entry.future.done():
            return
        if entry.dismissed:
            self._settle(entry, PermissionOutcome(ResolvedBy.DISMISSED))
        elif self.grace > 0:
            entry.waits += 1
            self._tasks.start_soon(self._wait_for_client, entry, entry.waits)
        else:
            self._settle(entry, PermissionOutcome(ResolvedBy.UNREACHABLE))

    async def _wait_for_client(self, entry: _OpenRequest, wait: int) -> None:
        with anyio.move_on_after(self.grace):
            await asyncio.wait([entry.future])
        if not entry.shown_by and entry.waits == wait:
            self._settle(entry, PermissionOutcome(ResolvedBy.UNREACHABLE))

    def _settle(self, entry: _OpenRequest, outcome: PermissionOutcome) -> bool:
        """Settle a request unless it is settled; the other clients stop showing it."""
        request_id = entry.request.request_id
        if self._open.pop(request_id, None) is None:
            return False
        self._settled[request_id] = entry.request.options
        if len(self._settled) > MAX_SETTLED:
            self._settled.popitem(last=False)
        for scope in entry.shown_by.values():
            scope.cancel()
        entry.shown_by.clear()
        option_id = outcome.option.option_id if outcome.option else None
        self._log.emit(
            PermissionResolved(request_id, outcome.by, option_id, outcome.reason or None),
            entry.request.agent.agent_id,
            entry.run,
        )
        if not entry.future.done():
            entry.future.set_result(outcome)
        return True


def _option(options: Sequence[Option], option_id: str) -> Option | None:
    return next((option for option in options if option.option_id == option_id), None)


def is_stray_cancel() -> bool:
    """In a handler of ``CancelledError``: whether this task was not cancelled itself but only what it awaited (such as
    the future of a client that disconnected). If re-raised, the error would silently end the surrounding tasks."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() == 0
