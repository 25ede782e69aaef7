"""The session's open questions to the user.

The inbox belongs to the session, not to a view: each question has one future, is put to every client that can ask a
person, and is settled exactly once, by the first explicit answer. Everything else (a closed prompt, null, an error,
garbage) only takes that client out of the matter; when no client that was asked remains, the call is refused.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.event import Option, PermissionRequest, PermissionRequested, PermissionResolved, ResolvedBy
from deputy_agents.events.event_log import EventLog
from deputy_agents.ports.permission import Dismissed, PermissionAnswer, PermissionClient, Selected

logger = logging.getLogger(__name__)

REMEMBERED = 1000
"""Settled questions that are told from those that never were."""


@dataclass(frozen=True, slots=True)
class PermissionOutcome:
    """How a question was settled. ``option`` is set when someone chose; ``allowed`` when a rule lets the call run."""

    by: ResolvedBy
    option: Option | None = None
    feedback: str | None = None
    input: Mapping[str, object] | None = None
    allowed: bool = False
    decision: str = ""
    """What a rule says, as a sentence."""


@dataclass(slots=True)
class _Open:
    request: PermissionRequest
    run: int
    review: "Callable[[], PermissionOutcome | None]"
    future: "asyncio.Future[PermissionOutcome]"
    asked: dict[PermissionClient, anyio.CancelScope] = field(default_factory=dict[PermissionClient, anyio.CancelScope])
    waits: int = 0
    """How often it began to wait for a client."""
    dismissed: bool = False
    """Some client showed it, and it was closed there."""


class Inbox:
    """Questions in the order of asking. ``grace`` is how long a question waits for a client that can ask, in
    seconds; 0 where no client can come back."""

    def __init__(self, log: EventLog, tasks: TaskGroup, grace: float = 0) -> None:
        self._log = log
        self._tasks = tasks
        self.grace = grace
        self._clients: list[PermissionClient] = []
        self._open: dict[str, _Open] = {}
        self._settled: OrderedDict[str, tuple[Option, ...]] = OrderedDict()
        """The options of questions that are settled, for those who answer late."""

    def permission_requests(self) -> Sequence[PermissionRequest]:
        return [entry.request for entry in self._open.values()]

    def attach(self, client: PermissionClient) -> None:
        """``client`` is asked everything that is open, and all that follows; once, however often it is attached."""
        if client in self._clients:
            return
        self._clients.append(client)
        for entry in tuple(self._open.values()):
            self._put(entry, client)

    def detach(self, client: PermissionClient) -> None:
        """``client`` is gone; what only it was asked is refused when the grace is over."""
        if client not in self._clients:
            return
        self._clients.remove(client)
        for entry in tuple(self._open.values()):
            if (scope := entry.asked.pop(client, None)) is not None:
                scope.cancel()
                self._check_reachable(entry)

    async def ask(
        self, request: PermissionRequest, run: int, review: Callable[[], PermissionOutcome | None]
    ) -> PermissionOutcome:
        """Waits for the answer as long as it takes. Cancelling the wait withdraws the question everywhere.
        ``review`` is called when rules change, and says whether they answer it now."""
        entry = _Open(request, run, review, asyncio.get_running_loop().create_future())
        self._open[request.request_id] = entry
        self._log.emit(PermissionRequested(request), request.agent.agent_id, run)
        for client in self._clients:
            self._put(entry, client)
        self._check_reachable(entry)
        try:
            return await entry.future
        finally:
            self._settle(entry, PermissionOutcome(ResolvedBy.CANCELLED))

    def answer(self, request_id: str, answer: PermissionAnswer) -> bool:
        """Settles a question from anywhere; ``False`` when it was settled before.

        Raises:
            InvalidRequest: no such question, or no such option of it.
        """
        resolution = self.resolution(request_id, answer)
        entry = self._open.get(request_id)
        return entry is not None and self._settle(entry, resolution)

    def resolution(self, request_id: str, answer: PermissionAnswer) -> PermissionOutcome:
        """What ``answer`` would mean. Changes nothing.

        Raises:
            InvalidRequest: no such question, or no such option of it.
        """
        entry = self._open.get(request_id)
        options = entry.request.options if entry else self._settled.get(request_id)
        if options is None:
            raise InvalidRequest(f"There is no question {request_id}.", "requestId")
        match answer:
            case Selected(option_id, feedback, input):
                option = _option(options, option_id)
                if option is None:
                    known = ", ".join(option.option_id for option in options)
                    raise InvalidRequest(
                        f"Question {request_id} has no option {option_id!r}; use {known}.", "outcome.optionId"
                    )
                return PermissionOutcome(ResolvedBy.USER, option, feedback, input)
            case Dismissed(by):
                return PermissionOutcome(by)

    def review(self) -> None:
        """The rules have changed: what they answer now is no longer asked."""
        for entry in tuple(self._open.values()):
            if (resolution := entry.review()) is not None:
                self._settle(entry, resolution)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _put(self, entry: _Open, client: PermissionClient) -> None:
        scope = entry.asked[client] = anyio.CancelScope()
        self._tasks.start_soon(self._ask_one, entry, client, scope)

    async def _ask_one(self, entry: _Open, client: PermissionClient, scope: anyio.CancelScope) -> None:
        answer: PermissionAnswer = Dismissed()
        with scope:
            try:
                answer = await client.ask(entry.request)
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and not is_stray_cancel():
                    raise
                logger.exception("a client failed to ask question %s", entry.request.request_id)
        if entry.asked.pop(client, None) is None or scope.cancelled_caught:
            return
        match answer:
            case Selected(option_id, feedback, input) if option := _option(entry.request.options, option_id):
                self._settle(entry, PermissionOutcome(ResolvedBy.USER, option, feedback, input))
            case Dismissed(by=ResolvedBy.UNREACHABLE):
                self._check_reachable(entry)
            case _:
                entry.dismissed = True
                self._check_reachable(entry)

    def _check_reachable(self, entry: _Open) -> None:
        if entry.asked or entry.future.done():
            return
        if entry.dismissed:
            self._settle(entry, PermissionOutcome(ResolvedBy.DISMISSED))
        elif self.grace > 0:
            entry.waits += 1
            self._tasks.start_soon(self._wait_for_client, entry, entry.waits)
        else:
            self._settle(entry, PermissionOutcome(ResolvedBy.UNREACHABLE))

    async def _wait_for_client(self, entry: _Open, wait: int) -> None:
        with anyio.move_on_after(self.grace):
            await asyncio.wait([entry.future])
        if not entry.asked and entry.waits == wait:
            self._settle(entry, PermissionOutcome(ResolvedBy.UNREACHABLE))

    def _settle(self, entry: _Open, resolution: PermissionOutcome) -> bool:
        """Once and for all; the other clients that show the question are told to put it away."""
        request_id = entry.request.request_id
        if self._open.pop(request_id, None) is None:
            return False
        self._settled[request_id] = entry.request.options
        if len(self._settled) > REMEMBERED:
            self._settled.popitem(last=False)
        for scope in entry.asked.values():
            scope.cancel()
        entry.asked.clear()
        option_id = resolution.option.option_id if resolution.option else None
        self._log.emit(
            PermissionResolved(request_id, resolution.by, option_id, resolution.decision or None),
            entry.request.agent.agent_id,
            entry.run,
        )
        if not entry.future.done():
            entry.future.set_result(resolution)
        return True


def _option(options: Sequence[Option], option_id: str) -> Option | None:
    return next((option for option in options if option.option_id == option_id), None)


def is_stray_cancel() -> bool:
    """In a handler of ``CancelledError``: whether nobody cancelled this task, and only what it awaited was (the future
    of a client that went away, say). Raised on, it would end the tasks around in silence."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() == 0
