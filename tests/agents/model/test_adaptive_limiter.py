"""The rules of the limiter, simulated in virtual time against lenient and strict services."""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.settings import RetrySettings
from deputy_agents.model.adaptive_limiter import FIRST_LIMIT, AdaptiveLimiter, QueueEntry

LATENCY = 0.02
"""Seconds until the service rejects a request."""


@dataclass
class World:
    """Agents that each send some requests in sequence, and a service that accepts ``allowed`` at once."""

    allowed: int
    answer_time: float = 1.0
    retry_after: float | None = None
    limiter: AdaptiveLimiter = field(default_factory=lambda: AdaptiveLimiter(lambda: 0.5))
    now: float = 0.0
    requests: int = 0
    rejected: int = 0
    finished: int = 0
    order: list[str] = field(default_factory=list[str])
    too_early: list[float] = field(default_factory=list[float])
    _busy: int = 0
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _count: "itertools.count[int]" = field(default_factory=itertools.count)
    _jobs: dict[QueueEntry, tuple[str, int, int]] = field(default_factory=dict)

    def at(self, time: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time, next(self._count), do))

    def agent(self, session: str, rounds: int, depth: int = 1) -> None:
        self._jobs[self.limiter.join(session, depth)] = session, rounds, depth

    def run(self) -> "World":
        self._start_requests()
        while self._events:
            self.now, _, do = heapq.heappop(self._events)
            do()
            self._start_requests()
        return self

    def _start_requests(self) -> None:
        for entry in self.limiter.start(self.now):
            self._send(entry)
        if self.limiter.waiting and self.limiter.pause(self.now):
            self.at(self.limiter.resume_at, lambda: None)

    def _send(self, entry: QueueEntry) -> None:
        if self.now < self.limiter.resume_at:
            self.too_early.append(self.now)
        self.requests += 1
        self.order.append(self._jobs[entry][0])
        if self._busy >= self.allowed:
            self.rejected += 1
            self.at(self.now + LATENCY, lambda: self._reject(entry))
        else:
            self._busy += 1
            self.at(self.now + self.answer_time / 2, lambda: self.limiter.accept(entry))
            self.at(self.now + self.answer_time, lambda: self._answer(entry))

    def _reject(self, entry: QueueEntry) -> None:
        pause = self.limiter.reject(entry, self.now, self.retry_after)
        job = self._jobs.pop(entry)
        self.at(self.now + pause, lambda: self.agent(*job))

    def _answer(self, entry: QueueEntry) -> None:
        self._busy -= 1
        self.limiter.leave(entry)
        session, rounds, depth = self._jobs.pop(entry)
        if rounds > 1:
            self.agent(session, rounds - 1, depth)
        else:
            self.finished += 1


@pytest.mark.requirement("X11")
@pytest.mark.parametrize("rounds", [1, 2, 6])
@pytest.mark.parametrize("retry_after", [None, 2.0])
def test_32_children_at_a_service_that_accepts_4_need_at_most_a_third_more_requests(
    rounds: int, retry_after: float | None
) -> None:
    world = World(allowed=4, retry_after=retry_after)
    for _ in range(32):
        world.agent("s", rounds)
    world.run()
    assert world.finished == 32
    assert world.requests <= 1.3 * 32 * rounds
    assert world.too_early == []


@given(
    st.integers(1, 40),
    st.integers(1, 12),
    st.lists(st.integers(1, 4), min_size=1, max_size=24),
    st.sampled_from([None, 0.0, 0.5, 30.0]),
)
def test_every_request_finishes_and_none_is_sent_during_a_pause(
    allowed: int, sessions: int, rounds: list[int], retry_after: float | None
) -> None:
    world = World(allowed=allowed, retry_after=retry_after)
    for number, many in enumerate(rounds):
        world.agent(f"s{number % sessions}", many)
    world.run()
    assert world.finished == len(rounds)
    assert world.too_early == []
    assert (world.limiter.running, world.limiter.waiting) == (0, ())


def test_a_lenient_service_is_fully_used_after_two_round_trips() -> None:
    world = World(allowed=1000)
    for _ in range(32):
        world.agent("s", 1)
    world.run()
    assert world.rejected == 0
    assert world.now <= 3 * world.answer_time


def started(limiter: AdaptiveLimiter, now: float = 1.0) -> list[QueueEntry]:
    return limiter.start(now)


def rejected_all(
    limiter: AdaptiveLimiter, entries: list[QueueEntry], now: float, retry_after: float | None = None
) -> float:
    return [limiter.reject(entry, now, retry_after) for entry in entries][-1]


def test_one_rejection_pauses_all_requests_for_as_long_as_the_service_asked() -> None:
    limiter = AdaptiveLimiter(lambda: 0.5)
    first, second = limiter.join("a", 0), limiter.join("b", 0)
    assert started(limiter) == [first, second]
    assert limiter.reject(first, 2.0, 7.0) == 7.0
    third = limiter.join("c", 0)
    assert started(limiter, 8.9) == []
    assert started(limiter, 9.0) == [third]


def test_rejections_of_one_burst_count_once() -> None:
    limiter = AdaptiveLimiter(lambda: 0.5, RetrySettings(base=1, cap=60))
    burst = [limiter.join("a", 1) for _ in range(FIRST_LIMIT)]
    started(limiter)
    assert rejected_all(limiter, burst, 1.5) == pytest.approx(0.75)  # pyright: ignore[reportUnknownMemberType]


def test_pauses_double_while_every_request_is_rejected_and_start_over_after_an_accepted_one() -> None:
    limiter = AdaptiveLimiter(lambda: 0.0, RetrySettings(base=1, cap=8))
    now, pauses = 1.0, list[float]()
    for _ in range(6):
        entry = limiter.join("a", 0)
        started(limiter, now)
        pauses.append(limiter.reject(entry, now + 0.1, None))
        now += 100
    assert pauses == [0.5, 1, 2, 4, 4, 4]
    limiter.join("a", 0)
    (through,) = started(limiter, now)
    limiter.accept(through)
    limiter.leave(through)
    limiter.join("a", 0)
    (last,) = started(limiter, now + 1)
    assert limiter.reject(last, now + 2, None) == 0.5


def test_a_requested_wait_above_the_cap_pauses_no_request() -> None:
    limiter = AdaptiveLimiter(lambda: 0.5, RetrySettings(retry_after_cap=60))
    entry = limiter.join("a", 0)
    started(limiter)
    assert limiter.reject(entry, 2.0, 3600.0) == 0


def full_limiter() -> tuple[AdaptiveLimiter, list[QueueEntry]]:
    """A limiter with one running request and a limit of one."""
    limiter = AdaptiveLimiter(lambda: 0.5)
    limiter.limit = 1.0
    limiter.join("a", 1)
    return limiter, started(limiter)


@pytest.mark.requirement("X11")
def test_sessions_alternate_regardless_of_how_many_requests_one_has() -> None:
    limiter, running = full_limiter()
    for _ in range(5):
        limiter.join("a", 1)
    for _ in range(2):
        limiter.join("b", 1)
    order: list[str] = []
    while running:
        limiter.leave(running.pop())
        running = started(limiter)
        order += [entry.session_id for entry in running]
    assert order == ["b", "a", "b", "a", "a", "a", "a"]


@pytest.mark.requirement("X11")
def test_the_primary_agent_precedes_its_children_and_each_depth_is_first_in_first_out() -> None:
    limiter, running = full_limiter()
    later, first, second = limiter.join("a", 2), limiter.join("a", 1), limiter.join("a", 1)
    primary = limiter.join("a", 0)
    order: list[QueueEntry] = []
    while running:
        limiter.leave(running.pop())
        running = started(limiter)
        order += running
    assert order == [primary, first, second, later]


def test_a_request_that_left_the_queue_does_not_block_others() -> None:
    limiter, (ahead,) = full_limiter()
    cancelled, waiting = limiter.join("a", 1), limiter.join("a", 1)
    limiter.leave(cancelled)
    limiter.leave(cancelled)
    limiter.leave(ahead)
    assert started(limiter) == [waiting]
