"""The open requests of a session to the user, whatever they ask for.

They belong to the session, not to a client. Each request is sent to every client that can ask the user and is settled
exactly once, by the first explicit answer. Any other response of a client (a closed prompt, null, an error, invalid
data) only removes that client from the request; when no client remains, the request is settled without an answer.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

import anyio
from anyio.abc import TaskGroup

from deputy_agents.domain.event import AgentRef, Durable, InputRequest, PermissionRequest, ResolvedBy
from deputy_agents.events.event_log import EventLog
from deputy_agents.ports.permission import Dismissed, PermissionClient

logger = logging.getLogger(__name__)

MAX_SETTLED = 1000
"""Settled requests that are remembered, to distinguish late answers from answers to unknown requests."""

Outcome = TypeVar("Outcome")
Asked = TypeVar("Asked", PermissionRequest, InputRequest)
R = TypeVar("R", bound="UserRequest[Any, Any]")


class UserRequest(ABC, Generic[Asked, Outcome]):
    """A request to the user, and the outcome ``Outcome`` that it can have."""

    request: Asked
    run: int

    @property
    def request_id(self) -> str:
        return self.request.request_id

    @property
    def agent(self) -> AgentRef:
        return self.request.agent

    @abstractmethod
    def opened(self) -> Durable:
        """The event that it is open."""

    @abstractmethod
    def settled(self, outcome: Outcome) -> Durable:
        """The event that it is settled."""

    @abstractmethod
    def unanswered(self, by: ResolvedBy) -> Outcome:
        """The outcome without an answer."""

    @abstractmethod
    async def ask(self, client: PermissionClient) -> Outcome | Dismissed:
        """What the user answers at ``client``."""

    def decided(self) -> Outcome | None:
        """The outcome, if the user need not be asked any longer."""
        return None

    def without_details(self) -> Self:
        """What has to be remembered of it to validate late answers."""
        return self


@dataclass(slots=True)
class _Open:
    request: UserRequest[Any, Any]
    future: "asyncio.Future[Any]"
    shown_by: dict[PermissionClient, anyio.CancelScope] = field(
        default_factory=dict[PermissionClient, anyio.CancelScope]
    )
    waits: int = 0
    """Number of times that it started to wait for a client."""
    dismissed: bool = False
    """A client showed it and the user closed it without an answer."""


class OpenRequests:
    """The open requests, oldest first. No request ends because time passes, except that ``grace`` is how long one waits
    for a client that can ask the user while only clients are connected that cannot, in seconds; 0 if clients cannot
    reconnect."""

    def __init__(self, log: EventLog, tasks: TaskGroup, grace: float = 0) -> None:
        self._log = log
        self._tasks = tasks
        self.grace = grace
        self._clients: list[PermissionClient] = []
        self._away: set[PermissionClient] = set()
        """Clients that are connected, show no requests of this session, and can return to it."""
        self._open: dict[str, _Open] = {}
        self._settled: OrderedDict[str, UserRequest[Any, Any]] = OrderedDict()

    def open(self, kind: type[R]) -> Iterator[R]:
        return (entry.request for entry in self._open.values() if isinstance(entry.request, kind))

    def known(self, kind: type[R], request_id: str) -> R | None:
        """A request of this kind that is open or was settled recently."""
        entry = self._open.get(request_id)
        found = entry.request if entry else self._settled.get(request_id)
        return found if isinstance(found, kind) else None

    def attach(self, client: PermissionClient) -> None:
        """Send all open and future requests to ``client``. Does nothing if it is attached already."""
        if client in self._clients:
            return
        self._away.discard(client)
        self._clients.append(client)
        for entry in tuple(self._open.values()):
            self._send(entry, client)

    def pause(self, client: PermissionClient) -> None:
        """Withdraw all requests from ``client``, which stays connected and can return: they stay open for it."""
        if client in self._clients:
            self._away.add(client)
            self._remove(client)

    def detach(self, client: PermissionClient) -> None:
        """Remove ``client``, which has disconnected. Requests that no other client can show are settled as unreachable
        when the grace ends."""
        if client in self._away:
            self._away.discard(client)
            for entry in tuple(self._open.values()):
                self._check_reachable(entry)
        self._remove(client)

    def recheck(self) -> None:
        """Settle the requests about which the user need not be asked any longer."""
        for entry in tuple(self._open.values()):
            if (outcome := entry.request.decided()) is not None:
                self._settle(entry, outcome)

    async def wait(self, request: UserRequest[Any, Outcome]) -> Outcome:
        """Wait for the outcome, without a time limit. Cancelling the wait withdraws the request from all clients."""
        entry = _Open(request, asyncio.get_running_loop().create_future())
        self._open[request.request_id] = entry
        self._log.emit(request.opened(), request.agent.agent_id, request.run)
        for client in self._clients:
            self._send(entry, client)
        self._check_reachable(entry)
        try:
            return await entry.future
        finally:
            self._settle(entry, request.unanswered(ResolvedBy.CANCELLED))

    def settle(self, request_id: str, outcome: object) -> bool:
        """Settle a request on behalf of any client; ``False`` if it is not open."""
        entry = self._open.get(request_id)
        return entry is not None and self._settle(entry, outcome)

    def _remove(self, client: PermissionClient) -> None:
        if client not in self._clients:
            return
        self._clients.remove(client)
        for entry in tuple(self._open.values()):
            if (scope := entry.shown_by.pop(client, None)) is not None:
                scope.cancel()
                self._check_reachable(entry)

    def _send(self, entry: _Open, client: PermissionClient) -> None:
        scope = entry.shown_by[client] = anyio.CancelScope()
        self._tasks.start_soon(self._ask_client, entry, client, scope)

    async def _ask_client(self, entry: _Open, client: PermissionClient, scope: anyio.CancelScope) -> None:
        answer: object = Dismissed()
        with scope:
            try:
                answer = await entry.request.ask(client)
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and not is_stray_cancel():
                    raise
                logger.exception("a client failed to show request %s", entry.request.request_id)
        if entry.shown_by.pop(client, None) is None or scope.cancelled_caught:
            return
        match answer:
            case Dismissed(by=ResolvedBy.UNREACHABLE):
                self._check_reachable(entry)
            case Dismissed():
                entry.dismissed = True
                if not entry.shown_by:
                    self._settle(entry, entry.request.unanswered(ResolvedBy.DISMISSED))
            case outcome:
                self._settle(entry, outcome)

    def _check_reachable(self, entry: _Open) -> None:
        """Settle a request that no client can show any more. That a client left is no answer: only if none can return,
        an earlier dismissal by another client becomes one."""
        if entry.shown_by or entry.future.done() or self._away:
            return
        if self.grace > 0 and not self._clients:
            return  # a client may connect, whenever that is
        if self.grace > 0:
            entry.waits += 1
            self._tasks.start_soon(self._wait_for_client, entry, entry.waits)
        else:
            self._settle(entry, self._unshown(entry))

    @staticmethod
    def _unshown(entry: _Open) -> object:
        return entry.request.unanswered(ResolvedBy.DISMISSED if entry.dismissed else ResolvedBy.UNREACHABLE)

    async def _wait_for_client(self, entry: _Open, wait: int) -> None:
        with anyio.move_on_after(self.grace):
            await asyncio.wait([entry.future])
        if not entry.shown_by and not self._away and entry.waits == wait:
            self._settle(entry, self._unshown(entry))

    def _settle(self, entry: _Open, outcome: object) -> bool:
        """Settle a request unless it is settled; the other clients stop showing it."""
        request = entry.request
        if self._open.pop(request.request_id, None) is None:
            return False
        self._settled[request.request_id] = request.without_details()
        if len(self._settled) > MAX_SETTLED:
            self._settled.popitem(last=False)
        for scope in entry.shown_by.values():
            scope.cancel()
        entry.shown_by.clear()
        self._log.emit(request.settled(outcome), request.agent.agent_id, request.run)
        if not entry.future.done():
            entry.future.set_result(outcome)
        return True


def is_stray_cancel() -> bool:
    """In a handler of ``CancelledError``: whether this task was not cancelled itself but only what it awaited (such as
    the future of a client that disconnected). If re-raised, the error would silently end the surrounding tasks."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() == 0
