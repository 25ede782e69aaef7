"""Whatever clients come, go and reload: only an answer settles a permission request, or that no client is left."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from deputy_agents.domain.event import PermissionRequest, ResolvedBy
from deputy_agents.events.event_log import EventLog
from deputy_agents.events.view import View
from deputy_agents.permission.inbox import Inbox
from deputy_agents.ports.permission import Dismissed, PermissionAnswer
from deputy_agents.store.memory import MemoryStore
from tests.agents.permission.test_inbox import request, steps
from tests.support.core import ALLOW, BOUND, StillClock

WINDOWS = 3
Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["load", "load", "unload", "disconnect", "dismiss"]), st.integers(0, WINDOWS - 1)),
    max_size=14,
)


@dataclass(eq=False)
class Shown:
    """One subscription of a window, as a front end makes a new one for each load."""

    answer: "asyncio.Future[PermissionAnswer]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    asked: int = 0

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        self.asked += 1
        return await self.answer


class Windows:
    """Windows on one inbox, and what must be true of its request."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self.shown: dict[int, Shown] = {}
        self.left: dict[int, Shown] = {}
        self.showing: set[int] = set()
        self.dismissed = False
        self.settled: set[ResolvedBy] = set()

    async def do(self, action: str, window: int) -> None:
        getattr(self, f"_{action}")(window)
        await steps()

    def _load(self, window: int) -> None:
        self._unload(window)
        self.shown[window] = Shown()
        self._inbox.attach(self.shown[window])
        self._forget(window)
        self.showing.add(window)

    def _unload(self, window: int) -> None:
        if (shown := self.shown.pop(window, None)) is not None:
            self._inbox.pause(shown)
            self._forget(window)
            self.left[window] = shown
            self.showing.discard(window)

    def _forget(self, window: int) -> None:
        if (left := self.left.pop(window, None)) is not None:
            self._inbox.detach(left)

    def _disconnect(self, window: int) -> None:
        known = window in self.shown or window in self.left
        self._unload(window)
        self._forget(window)
        if known and not self.showing and not self.left:
            self.settled |= {ResolvedBy.DISMISSED if self.dismissed else ResolvedBy.UNREACHABLE}

    def _dismiss(self, window: int) -> None:
        if window in self.showing:
            self.shown[window].answer.set_result(Dismissed())
            self.showing.discard(window)
            self.dismissed = True
            if not self.showing:
                self.settled |= {ResolvedBy.DISMISSED}


@settings(max_examples=150, deadline=None)
@given(plan=STEPS)
def test_only_an_answer_or_the_end_of_the_last_client_settles_a_request(plan: Sequence[Step]) -> None:
    asyncio.run(_run(plan))


async def _run(plan: Sequence[Step]) -> None:
    log = EventLog("s", MemoryStore(), StillClock(), View())
    async with asyncio.timeout(BOUND), anyio.create_task_group() as tasks:
        inbox = Inbox(log, tasks)
        windows = Windows(inbox)
        await windows.do("load", 0)
        wait = asyncio.create_task(inbox.ask(request(), 1, lambda: None))
        await steps()
        for action, window in plan:
            await windows.do(action, window)
            if windows.settled:
                assert {(await wait).by} == windows.settled
                tasks.cancel_scope.cancel()
                return
            assert not wait.done(), (plan, action, window)
        await windows.do("load", 1)
        assert windows.shown[1].asked == 1
        windows.shown[1].answer.set_result(ALLOW)
        assert (await wait).by is ResolvedBy.USER
        tasks.cancel_scope.cancel()
