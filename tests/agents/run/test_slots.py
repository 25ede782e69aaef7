"""Who may run: caps, one queue, one lane for writers, and places that are lent and taken back."""

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


def reserve(pool: Slots, parent: str = "p", *, writer: bool = False, told: list[str] | None = None) -> Slot:
    told = [] if told is None else told
    return pool.reserve(
        parent, writer=writer, started=lambda: told.append("started"), shifted=lambda: told.append("shifted")
    )


def places(pool: Slots, *slots: Slot) -> list[int | None]:
    return [pool.places().get(slot) for slot in slots]


def test_slots_run_up_to_the_cap_and_then_queue_in_order() -> None:
    pool = slots(max_parallel=2)
    first, second, third, fourth = (reserve(pool) for _ in range(4))
    assert [slot.queued for slot in (first, second, third, fourth)] == [False, False, True, True]
    assert places(pool, third, fourth) == [1, 2]
    second.close()
    assert not third.queued
    assert places(pool, third, fourth) == [None, 1]
    assert (pool.running, pool.queued) == (2, 1)


def test_the_cap_of_one_parent_does_not_hold_up_another() -> None:
    pool = slots(max_parallel=3, max_parallel_per_parent=1)
    first, waits, other = reserve(pool, "p"), reserve(pool, "p"), reserve(pool, "q")
    assert (first.queued, waits.queued, other.queued) == (False, True, False)


def test_a_full_queue_rejects_and_takes_nothing() -> None:
    pool = slots(max_parallel=1, queue=1)
    running, waiting = reserve(pool), reserve(pool)
    with pytest.raises(Overloaded, match="1 sub-agents run and 1 wait"):
        reserve(pool)
    assert (pool.running, pool.queued) == (1, 1)
    waiting.close()
    assert reserve(pool).queued
    running.close()


def test_a_waiting_writer_never_holds_up_the_readers_behind_it() -> None:
    pool = slots()
    writes, waits, reads = reserve(pool, writer=True), reserve(pool, writer=True), reserve(pool)
    assert (writes.queued, waits.queued, reads.queued) == (False, True, False)
    assert not reserve(pool, "other", writer=True).queued
    writes.close()
    assert not waits.queued


def test_the_lane_is_held_while_its_writer_waits_for_the_user() -> None:
    pool = slots()
    writes, waits = reserve(pool, writer=True), reserve(pool, writer=True)
    writes.give_away()
    assert waits.queued
    writes.close()
    assert not waits.queued


def test_writers_run_side_by_side_where_the_settings_say_so() -> None:
    pool = slots(parallel_writers=True)
    assert not reserve(pool, writer=True).queued
    assert not reserve(pool, writer=True).queued


def test_a_raised_cap_lets_those_who_wait_start() -> None:
    pool = slots(max_parallel=1)
    reserve(pool)
    waits = reserve(pool)
    pool.settings = AgentSettings(max_parallel=2)
    assert not waits.queued


def test_who_waits_is_told_when_places_shift_and_when_it_starts() -> None:
    pool = slots(max_parallel=1)
    first, second, told = reserve(pool), reserve(pool), list[str]()
    reserve(pool, told=told)
    second.close()
    first.close()
    assert told == ["shifted", "started"]
    reserve(pool).close()
    assert len(told) == 2, "who runs is told nothing more"


def test_many_who_wait_with_one_ear_are_told_once_of_a_shift() -> None:
    pool, told = slots(max_parallel=1), list[str]()
    first = reserve(pool)

    def shifted() -> None:
        told.append("shifted")

    waiting = [pool.reserve("p", writer=False, started=lambda: None, shifted=shifted) for _ in range(3)]
    first.close()
    assert told == ["shifted"]
    assert places(pool, *waiting) == [None, 1, 2]


@pytest.mark.asyncio
async def test_one_that_reclaims_its_place_goes_before_newcomers() -> None:
    pool = slots(max_parallel=1)
    lender, borrower, newcomer = reserve(pool), reserve(pool), reserve(pool)
    lender.give_away()
    assert not borrower.queued
    returning = asyncio.create_task(lender.hold())
    await asyncio.sleep(0)
    assert not returning.done()
    borrower.close()
    async with asyncio.timeout(5):
        await returning
    assert newcomer.queued
    assert pool.running == 1


@pytest.mark.asyncio
async def test_whoever_waits_for_a_slot_that_is_closed_is_let_go() -> None:
    pool = slots(max_parallel=1)
    reserve(pool)
    waiting = reserve(pool)
    holds = [asyncio.create_task(waiting.hold()) for _ in range(2)]
    await asyncio.sleep(0)
    waiting.close()
    async with asyncio.timeout(5):
        await asyncio.gather(*holds)
    assert (pool.running, pool.queued) == (1, 0)


@pytest.mark.asyncio
async def test_a_slot_is_freed_whatever_ends_the_block_that_holds_it() -> None:
    pool = slots()
    with pytest.raises(ValueError, match="end"), reserve(pool):
        raise ValueError("end")
    with reserve(pool) as slot:
        slot.give_away()
    slot.close()
    assert pool.running == 0


class SlotsMachine(RuleBasedStateMachine):
    """Any use of a pool, beside a model of who should have a place."""

    CAPS = AgentSettings(max_parallel=3, max_parallel_per_parent=2, queue=4)

    def __init__(self) -> None:
        super().__init__()
        self.pool = Slots(self.CAPS)
        self.live: list[Slot] = []
        self.given: set[Slot] = set()
        self.returning: dict[Slot, asyncio.Task[None]] = {}
        self.loop = asyncio.new_event_loop()

    def teardown(self) -> None:
        for slot in self.live:
            slot.close()
        self.settle()
        assert not self.returning
        assert (self.pool.running, self.pool.queued) == (0, 0)
        self.loop.close()

    def holds(self, slot: Slot) -> bool:
        return not slot.queued and slot not in self.given and slot not in self.returning

    @rule(parent=st.sampled_from("pqr"), writer=st.booleans())
    def reserve(self, parent: str, writer: bool) -> None:
        waiting = self.pool.queued
        try:
            slot = reserve(self.pool, parent, writer=writer)
        except Overloaded:
            assert waiting == self.CAPS.queue
        else:
            self.live.append(slot)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from(self.live))
        self.live.remove(slot)
        self.given.discard(slot)
        slot.close()
        self.settle()

    @precondition(lambda self: any(map(self.holds, self.live)))
    @rule(data=st.data())
    def give_away(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from([slot for slot in self.live if self.holds(slot)]))
        slot.give_away()
        self.given.add(slot)
        self.settle()

    @precondition(lambda self: self.given)
    @rule(data=st.data())
    def take_back(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from([slot for slot in self.live if slot in self.given]))
        self.given.remove(slot)
        self.returning[slot] = self.loop.create_task(slot.hold())
        self.settle()

    def settle(self) -> None:
        """Lets those go on who have their place back."""

        async def a_few_steps() -> None:
            for _ in range(3):
                await asyncio.sleep(0)

        self.loop.run_until_complete(a_few_steps())
        self.returning = {slot: task for slot, task in self.returning.items() if not task.done()}

    @invariant()
    def no_cap_is_passed_and_no_place_is_lost(self) -> None:
        holding = [slot for slot in self.live if self.holds(slot)]
        assert len(holding) == self.pool.running <= self.CAPS.max_parallel
        for parent in "pqr":
            assert sum(slot.parent_id == parent for slot in holding) <= self.CAPS.max_parallel_per_parent

    @invariant()
    def one_writer_of_a_parent_at_a_time_from_start_to_end(self) -> None:
        for parent in "pqr":
            begun = [s for s in self.live if s.writer and s.parent_id == parent and not s.queued]
            assert len(begun) <= 1

    @invariant()
    def places_in_the_queue_are_consecutive_and_in_order(self) -> None:
        waiting = [slot for slot in self.live if slot.queued]
        assert self.pool.places() == {slot: place for place, slot in enumerate(waiting, 1)}

    @invariant()
    def nobody_waits_who_could_run(self) -> None:
        if self.pool.running == self.CAPS.max_parallel:
            return
        for slot in [*self.returning, *(slot for slot in self.live if slot.queued)]:
            holding = [other for other in self.live if self.holds(other) and other.parent_id == slot.parent_id]
            lane = [
                s for s in self.live if s.writer and s.parent_id == slot.parent_id and not s.queued and s is not slot
            ]
            assert len(holding) == self.CAPS.max_parallel_per_parent or (slot.writer and lane)


TestSlotsMachine = SlotsMachine.TestCase
TestSlotsMachine.settings = hypothesis_settings(max_examples=40, stateful_step_count=25, deadline=None)
