"""The number of concurrent requests that a model service accepts, measured by sending requests. Pure rules, without
tasks or clocks.

One :class:`AdaptiveLimiter` serves all agents of a process for one service. The limit grows while the service accepts
requests and drops to what it still handles when it rejects one (429, 529). A rejection also pauses all requests once,
for as long as the service asks, so that the agents do not find out one by one. No request is lost: it waits in the
queue until it may start.

The queue is fair to sessions: the session with the fewest running requests is first, then the one that has waited
longest. Within a session the primary agent precedes its sub-agents, and each depth is first in, first out.

All times are seconds of one monotonic clock of the caller.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from deputy_agents.domain.settings import RetrySettings

FIRST_LIMIT = 8
"""Concurrent requests to an unknown service: few enough that a strict service rejects only a handful."""

_BACK_OFF = 0.75
"""A rejection reduces the limit at least to this share."""

_GROWTH_INTERVAL = 4
"""After a rejection the limit grows by one per this many times the limit of accepted requests; each probe can cost one
rejection."""


@dataclass(eq=False, slots=True)
class QueueEntry:
    """One request: waiting, running since ``started_at``, or finished (``left``)."""

    session_id: str
    depth: int
    number: int
    started_at: float | None = None
    accepted: bool = False
    left: bool = False


@dataclass(slots=True)
class _Rejections:
    """The last wave of rejections."""

    at: float = -math.inf
    in_a_row: int = 0
    limit_before: float = FIRST_LIMIT
    was_full: bool = False


@dataclass(slots=True)
class _Queue:
    """The requests of all sessions, waiting and running."""

    waiting: list[QueueEntry] = field(default_factory=list[QueueEntry])
    running: set[QueueEntry] = field(default_factory=set[QueueEntry])
    per_session: Counter[str] = field(default_factory=Counter[str])
    """Running requests."""
    last_started: dict[str, int] = field(default_factory=dict[str, int])
    numbers: int = 0

    def join(self, session_id: str, depth: int) -> QueueEntry:
        self.numbers += 1
        entry = QueueEntry(session_id, depth, self.numbers)
        self.waiting.append(entry)
        return entry

    def start_next(self, now: float) -> QueueEntry:
        entry = min(self.waiting, key=self._order)
        self.waiting.remove(entry)
        self.running.add(entry)
        self.per_session[entry.session_id] += 1
        self.numbers += 1
        self.last_started[entry.session_id] = self.numbers
        entry.started_at = now
        return entry

    def leave(self, entry: QueueEntry) -> None:
        if entry.left:
            return
        entry.left = True
        if entry.started_at is None:
            self.waiting.remove(entry)
        else:
            self.running.discard(entry)
            self.per_session[entry.session_id] -= 1
        if not self.per_session[entry.session_id]:
            del self.per_session[entry.session_id]
            if all(other.session_id != entry.session_id for other in self.waiting):
                self.last_started.pop(entry.session_id, None)

    def _order(self, entry: QueueEntry) -> tuple[int, int, int, int]:
        session = entry.session_id
        return self.per_session[session], self.last_started.get(session, 0), entry.depth, entry.number


class AdaptiveLimiter:
    """``random`` returns numbers in [0, 1), for pauses whose length the service leaves open."""

    def __init__(self, random: Callable[[], float], retry: RetrySettings | None = None) -> None:
        self.limit = float(FIRST_LIMIT)
        self.resume_at = -math.inf
        """No request starts before this time."""
        self._retry = retry or RetrySettings()
        self._random = random
        self._queue = _Queue()
        self._fast_growth_limit = math.inf
        """The limit grows by one per accepted request up to this value, and slowly above it."""
        self._rejections = _Rejections()

    @property
    def waiting(self) -> tuple[QueueEntry, ...]:
        return tuple(self._queue.waiting)

    @property
    def running(self) -> int:
        return len(self._queue.running)

    def join(self, session_id: str, depth: int) -> QueueEntry:
        """Adds a request to the queue; :meth:`start` starts it."""
        return self._queue.join(session_id, depth)

    def start(self, now: float) -> list[QueueEntry]:
        """Starts and returns the requests that may run now."""
        started: list[QueueEntry] = []
        while self._queue.waiting and now >= self.resume_at and self.running < int(self.limit):
            started.append(self._queue.start_next(now))
        return started

    def pause(self, now: float) -> float:
        """Seconds until requests may start again."""
        return max(0.0, self.resume_at - now)

    def accept(self, entry: QueueEntry) -> None:
        """The service has accepted the request. The limit grows only while the current one is used up."""
        wanted = bool(self._queue.waiting) or self.running >= int(self.limit)
        if entry.accepted or entry.started_at is None:
            return
        entry.accepted = True
        if entry.started_at < self._rejections.at:
            return  # sent before the last rejection
        self._rejections.in_a_row = 0
        if wanted:
            self.limit += 1 if self.limit < self._fast_growth_limit else 1 / (_GROWTH_INTERVAL * self.limit)

    def reject(self, entry: QueueEntry, now: float, retry_after: float | None) -> float:
        """The service is busy and has rejected the request. Returns the seconds that all requests wait now."""
        last = self._rejections
        is_new = entry.started_at is not None and entry.started_at > last.at
        if is_new:
            last.at = now
            last.limit_before = self.limit
            last.was_full = self.running >= int(self.limit)
            last.in_a_row += 1
            self.limit = self._fast_growth_limit = max(1.0, self.limit * _BACK_OFF)
        self.leave(entry)
        if last.was_full:
            self.limit = max(1.0, min(self.limit, self.running))
            # A service that handles no request any more limits the rate, not the number: half of it was acceptable.
            self._fast_growth_limit = max(1.0, self.running or last.limit_before / 2)
        if is_new or retry_after is not None:
            self.resume_at = max(self.resume_at, now + self._pause_after(retry_after))
        return self.pause(now)

    def leave(self, entry: QueueEntry) -> None:
        """Removes a finished or cancelled request. Idempotent."""
        self._queue.leave(entry)

    def _pause_after(self, retry_after: float | None) -> float:
        """Seconds to pause. A requested wait above the cap causes no pause: those requests fail instead."""
        settings = self._retry
        if retry_after is not None:
            return retry_after if retry_after <= settings.retry_after_cap else 0.0
        longest = min(settings.cap, settings.base * 2.0 ** (self._rejections.in_a_row - 1))
        return longest * (0.5 + self._random() / 2)
