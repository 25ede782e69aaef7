"""How many sub-agents run at the same time: limits, the queue, one writer per parent, and released slots."""

import asyncio

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from deputy_agents.domain.errors import Overloaded
from deputy_agents.domain.settings import AgentSettings
from deputy_agents.run.slots import Slot, Slots


def slots(**settings: int | bool) -> Slots:
    return Slots(AgentSettings(**settings))  # pyright: ignore[reportArgumentType]


def reserve(pool: Slots, parent: str = "p", *, writer: bool = False, calls: list[str] | None = None) -> Slot:
    calls = [] if calls is None else calls
    return pool.reserve(
        parent, writer=writer, on_start=lambda: calls.append("start"), on_shift=lambda: calls.append("shift")
    )


def positions(pool: Slots, *slots: Slot) -> list[int | None]:
    return [pool.positions().get(slot) for slot in slots]


def test_slots_run_up_to_the_limit_and_then_queue_in_order() -> None:
    pool = slots(max_parallel=2)
    first, second, third, fourth = (reserve(pool) for _ in range(4))
    assert [slot.queued for slot in (first, second, third, fourth)] == [False, False, True, True]
    assert positions(pool, third, fourth) == [1, 2]
    second.close()
    assert not third.queued
    assert positions(pool, third, fourth) == [None, 1]
    assert (pool.running, pool.queued) == (2, 1)


def test_the_limit_of_one_parent_does_not_delay_another() -> None:
    pool = slots(max_parallel=3, max_parallel_per_parent=1)
    first, waits, other = reserve(pool, "p"), reserve(pool, "p"), reserve(pool, "q")
    assert (first.queued, waits.queued, other.queued) == (False, True, False)


def test_a_full_queue_rejects_a_slot_and_does_not_change() -> None:
    pool = slots(max_parallel=1, queue=1)
    running, waiting = reserve(pool), reserve(pool)
    with pytest.raises(Overloaded, match="1 sub-agents run and 1 wait"):
        reserve(pool)
    assert (pool.running, pool.queued) == (1, 1)
    waiting.close()
    assert reserve(pool).queued
    running.close()


def test_a_waiting_writer_never_blocks_readers_behind_it() -> None:
    pool = slots()
    writes, waits, reads = reserve(pool, writer=True), reserve(pool, writer=True), reserve(pool)
    assert (writes.queued, waits.queued, reads.queued) == (False, True, False)
    assert not reserve(pool, "other", writer=True).queued
    writes.close()
    assert not waits.queued


def test_a_writer_that_waits_for_the_user_still_blocks_the_next_writer() -> None:
    pool = slots()
    writes, waits = reserve(pool, writer=True), reserve(pool, writer=True)
    writes.release()
    assert waits.queued
    writes.close()
    assert not waits.queued


def test_writers_run_in_parallel_when_the_settings_allow_it() -> None:
    pool = slots(parallel_writers=True)
    assert not reserve(pool, writer=True).queued
    assert not reserve(pool, writer=True).queued


def test_a_raised_limit_starts_queued_slots() -> None:
    pool = slots(max_parallel=1)
    reserve(pool)
    waits = reserve(pool)
    pool.settings = AgentSettings(max_parallel=2)
    assert not waits.queued


def test_a_queued_slot_is_notified_of_position_changes_and_of_its_start() -> None:
    pool = slots(max_parallel=1)
    first, second, calls = reserve(pool), reserve(pool), list[str]()
    reserve(pool, calls=calls)
    second.close()
    first.close()
    assert calls == ["shift", "start"]
    reserve(pool).close()
    assert len(calls) == 2, "a running slot is not notified again"


def test_slots_that_share_a_callback_are_notified_once_of_a_position_change() -> None:
    pool, calls = slots(max_parallel=1), list[str]()
    first = reserve(pool)

    def on_shift() -> None:
        calls.append("shift")

    waiting = [pool.reserve("p", writer=False, on_start=lambda: None, on_shift=on_shift) for _ in range(3)]
    first.close()
    assert calls == ["shift"]
    assert positions(pool, *waiting) == [None, 1, 2]


@pytest.mark.asyncio
async def test_a_returning_slot_runs_before_queued_ones() -> None:
    pool = slots(max_parallel=1)
    first, second, third = reserve(pool), reserve(pool), reserve(pool)
    first.release()
    assert not second.queued
    returning = asyncio.create_task(first.acquire())
    await asyncio.sleep(0)
    assert not returning.done()
    second.close()
    async with asyncio.timeout(5):
        await returning
    assert third.queued
    assert pool.running == 1


@pytest.mark.asyncio
async def test_closing_a_slot_ends_every_wait_for_it() -> None:
    pool = slots(max_parallel=1)
    reserve(pool)
    waiting = reserve(pool)
    waits = [asyncio.create_task(waiting.acquire()) for _ in range(2)]
    await asyncio.sleep(0)
    waiting.close()
    async with asyncio.timeout(5):
        await asyncio.gather(*waits)
    assert (pool.running, pool.queued) == (1, 0)


@pytest.mark.asyncio
async def test_a_slot_is_freed_however_its_block_ends() -> None:
    pool = slots()
    with pytest.raises(ValueError, match="end"), reserve(pool):
        raise ValueError("end")
    with reserve(pool) as slot:
        slot.release()
    slot.close()
    assert pool.running == 0


class SlotsMachine(RuleBasedStateMachine):
    """Any use of a pool, compared with a model of which slots should run."""

    LIMITS = AgentSettings(max_parallel=3, max_parallel_per_parent=2, queue=4)

    def __init__(self) -> None:
        super().__init__()
        self.pool = Slots(self.LIMITS)
        self.live: list[Slot] = []
        self.released: set[Slot] = set()
        self.returning: dict[Slot, asyncio.Task[None]] = {}
        self.loop = asyncio.new_event_loop()

    def teardown(self) -> None:
        for slot in self.live:
            slot.close()
        self.run_loop()
        assert not self.returning
        assert (self.pool.running, self.pool.queued) == (0, 0)
        self.loop.close()

    def runs(self, slot: Slot) -> bool:
        return not slot.queued and slot not in self.released and slot not in self.returning

    @rule(parent=st.sampled_from("pqr"), writer=st.booleans())
    def reserve(self, parent: str, writer: bool) -> None:
        waiting = self.pool.queued
        try:
            slot = reserve(self.pool, parent, writer=writer)
        except Overloaded:
            assert waiting == self.LIMITS.queue
        else:
            self.live.append(slot)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from(self.live))
        self.live.remove(slot)
        self.released.discard(slot)
        slot.close()
        self.run_loop()

    @precondition(lambda self: any(map(self.runs, self.live)))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from([slot for slot in self.live if self.runs(slot)]))
        slot.release()
        self.released.add(slot)
        self.run_loop()

    @precondition(lambda self: self.released)
    @rule(data=st.data())
    def acquire(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from([slot for slot in self.live if slot in self.released]))
        self.released.remove(slot)
        self.returning[slot] = self.loop.create_task(slot.acquire())
        self.run_loop()

    def run_loop(self) -> None:
        """Lets the tasks of slots that run again finish."""

        async def a_few_steps() -> None:
            for _ in range(3):
                await asyncio.sleep(0)

        self.loop.run_until_complete(a_few_steps())
        self.returning = {slot: task for slot, task in self.returning.items() if not task.done()}

    @invariant()
    def no_limit_is_exceeded_and_no_slot_is_lost(self) -> None:
        running = [slot for slot in self.live if self.runs(slot)]
        assert len(running) == self.pool.running <= self.LIMITS.max_parallel
        for parent in "pqr":
            assert sum(slot.parent_id == parent for slot in running) <= self.LIMITS.max_parallel_per_parent

    @invariant()
    def one_writer_of_a_parent_runs_at_a_time_from_start_to_end(self) -> None:
        for parent in "pqr":
            started = [s for s in self.live if s.writer and s.parent_id == parent and not s.queued]
            assert len(started) <= 1

    @invariant()
    def positions_in_the_queue_are_consecutive_and_in_order(self) -> None:
        waiting = [slot for slot in self.live if slot.queued]
        assert self.pool.positions() == {slot: position for position, slot in enumerate(waiting, 1)}

    @invariant()
    def no_slot_waits_that_could_run(self) -> None:
        if self.pool.running == self.LIMITS.max_parallel:
            return
        for slot in [*self.returning, *(slot for slot in self.live if slot.queued)]:
            running = [other for other in self.live if self.runs(other) and other.parent_id == slot.parent_id]
            other_writers = [
                s for s in self.live if s.writer and s.parent_id == slot.parent_id and not s.queued and s is not slot
            ]
            assert len(running) == self.LIMITS.max_parallel_per_parent or (slot.writer and other_writers)


TestSlotsMachine = SlotsMachine.TestCase
TestSlotsMachine.settings = hypothesis_settings(max_examples=40, stateful_step_count=25, deadline=None)
