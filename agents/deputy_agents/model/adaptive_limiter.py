"""How many requests a model service takes at once, found out by asking: the rules, without tasks or clocks.

One :class:`AdaptiveLimiter` speaks for all agents of a process at one service. The limit grows while requests are taken and
falls to what the service still carries when it refuses one (429, 529); a refusal also begins one pause for everybody,
as long as the service asked for, so that a crowd is slowed once and not each of its members by trial. Nothing is lost:
a request waits in line until it may start.

In line, sessions take turns: the one with the fewest requests under way goes first, then the one that has waited
longest. Within a session the primary goes before its children, and each depth in the order of asking.

All times are seconds of one monotonic clock of the caller's.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from deputy_agents.domain.settings import RetrySettings

FIRST_LIMIT = 8
"""Requests at once before anything is known of the service: few enough that a strict one refuses a handful."""

_BACK_OFF = 0.75
"""What a refusal leaves of the limit, at most."""

_PATIENCE = 4
"""Once refused, the limit grows by one after this many times as many requests were taken: each trial may cost one."""


@dataclass(eq=False, slots=True)
class QueueEntry:
    """The place of one request: in line, under way (``started`` says since when), or gone."""

    session_id: str
    depth: int
    number: int
    started: float | None = None
    taken: bool = False
    gone: bool = False


class AdaptiveLimiter:
    """``random`` gives numbers in [0, 1), for pauses that the service left open."""

    def __init__(self, random: Callable[[], float], retry: RetrySettings | None = None) -> None:
        self.limit = float(FIRST_LIMIT)
        self.resume_at = -math.inf
        """Nothing starts before this time."""
        self._retry = retry or RetrySettings()
        self._random = random
        self._line: list[QueueEntry] = []
        self._flying: set[QueueEntry] = set()
        self._per_session: Counter[str] = Counter()
        self._served: dict[str, int] = {}
        self._numbers = 0
        self._ceiling = math.inf
        """Up to here the limit grows fast."""
        self._slowed_at = -math.inf
        self._limit_before = self.limit
        self._was_full = False
        self._refused_in_a_row = 0

    @property
    def waiting(self) -> tuple[QueueEntry, ...]:
        return tuple(self._line)

    @property
    def under_way(self) -> int:
        return len(self._flying)

    def join(self, session_id: str, depth: int) -> QueueEntry:
        """A place in line; :meth:`start` says when its turn has come."""
        self._numbers += 1
        ticket = QueueEntry(session_id, depth, self._numbers)
        self._line.append(ticket)
        return ticket

    def start(self, now: float) -> list[QueueEntry]:
        """Those whose turn has come; they are under way from now on."""
        started: list[QueueEntry] = []
        while self._line and now >= self.resume_at and len(self._flying) < int(self.limit):
            ticket = min(self._line, key=self._order)
            self._line.remove(ticket)
            self._flying.add(ticket)
            self._per_session[ticket.session_id] += 1
            self._numbers += 1
            self._served[ticket.session_id] = self._numbers
            ticket.started = now
            started.append(ticket)
        return started

    def pause(self, now: float) -> float:
        """Seconds until requests may start again."""
        return max(0.0, self.resume_at - now)

    def take(self, ticket: QueueEntry) -> None:
        """The service has begun to answer. That it takes more than this is learnt only while more is wanted."""
        wanted = bool(self._line) or len(self._flying) >= int(self.limit)
        if ticket.taken or ticket.started is None:
            return
        ticket.taken = True
        if ticket.started < self._slowed_at:
            return  # it says nothing of the time since
        self._refused_in_a_row = 0
        if wanted:
            self.limit += 1 if self.limit < self._ceiling else 1 / (_PATIENCE * self.limit)

    def refuse(self, ticket: QueueEntry, now: float, retry_after: float | None) -> float:
        """The service has refused it for being busy; the seconds that everybody waits now."""
        fresh = ticket.started is not None and ticket.started > self._slowed_at
        if fresh:
            self._slowed_at = now
            self._limit_before = self.limit
            self._was_full = len(self._flying) >= int(self.limit)
            self._refused_in_a_row += 1
            self.limit = self._ceiling = max(1.0, self.limit * _BACK_OFF)
        self.leave(ticket)
        if self._was_full:
            carried = len(self._flying)
            self.limit = max(1.0, min(self.limit, carried))
            # A service that carries nothing any more limits the rate, not the number: half of it was not too many.
            self._ceiling = max(1.0, carried or self._limit_before / 2)
        if fresh or retry_after is not None:
            self.resume_at = max(self.resume_at, now + self._seconds(retry_after))
        return self.pause(now)

    def leave(self, ticket: QueueEntry) -> None:
        """It is over, or not wanted any more. Safe to call twice."""
        if ticket.gone:
            return
        ticket.gone = True
        if ticket.started is None:
            self._line.remove(ticket)
        else:
            self._flying.discard(ticket)
            self._per_session[ticket.session_id] -= 1
        if not self._per_session[ticket.session_id]:
            del self._per_session[ticket.session_id]
            if all(other.session_id != ticket.session_id for other in self._line):
                self._served.pop(ticket.session_id, None)

    def _order(self, ticket: QueueEntry) -> tuple[int, int, int, int]:
        session = ticket.session_id
        return self._per_session[session], self._served.get(session, 0), ticket.depth, ticket.number

    def _seconds(self, retry_after: float | None) -> float:
        """A wait beyond the cap is nobody's: those requests are given up, and say so."""
        settings = self._retry
        if retry_after is not None:
            return retry_after if retry_after <= settings.retry_after_cap else 0.0
        longest = min(settings.cap, settings.base * 2.0 ** (self._refused_in_a_row - 1))
        return longest * (0.5 + self._random() / 2)
