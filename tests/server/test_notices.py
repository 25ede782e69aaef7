"""Notices that a user gets once for each occasion."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from deputy_agents.domain.errors import StoreError
from deputy_agents.domain.event import Event
from deputy_agents.domain.message import Text
from deputy_agents.domain.outcome import CancelReason
from deputy_agents.events.commit_queue import RETRY
from deputy_agents.model.scripted import say
from deputy_agents.ports.store import Record
from deputy_agents.store.memory import MemoryStore
from deputy_server.lsp.client import Client
from deputy_server.lsp.protocol import RpcProtocol
from deputy_server.lsp.window import Window
from deputy_server.prompting import IncomingPrompt
from tests.support.core import Cast, Core, StillClock, core


class _Store(MemoryStore):
    failing = False

    async def append(self, session_id: str, events: Sequence[Event], records: Sequence[Record] = ()) -> None:
        if self.failing:
            raise StoreError("The disk is full.")
        await super().append(session_id, events, records)


class _FrontEnd:
    """What a prompt needs of a client, with a real window; ``shown`` are its messages."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self._window = Window(cast("RpcProtocol", self), cast("Client", None))

    def notify(self, method: str, params: dict[str, str]) -> None:
        assert method == "window/showMessage"
        self.shown.append(params["message"])

    def report_problems(self) -> None:
        pass

    async def before_refresh(self) -> None:
        pass

    async def before_prompt(self) -> None:
        pass

    def cancel_reason(self) -> CancelReason:
        return CancelReason.USER

    async def flush(self) -> None:
        pass

    def notice(self, text: str, occasion: str = "") -> None:
        self._window.notice(text, occasion)


async def _prompt(c: Core, front_end: _FrontEnd) -> None:
    incoming = IncomingPrompt(c.session, front_end)
    await incoming.outcome(await incoming.accept([Text("go")]))


@pytest.mark.asyncio
async def test_each_outage_of_the_store_is_shown_once_even_if_its_cause_is_the_same(workspace: Path) -> None:
    store, clock, front_end = _Store(), StillClock(), _FrontEnd()
    async with core(workspace, Cast([say("ok")] * 5), store=store, clock=clock) as c:
        for outage in (1, 2):
            store.failing = True
            await _prompt(c, front_end)
            await _prompt(c, front_end)
            assert len(front_end.shown) == outage
            store.failing = False
            clock.advance(RETRY + 1)
            await c.session.log.retry_now()
            assert c.session.keeper.store_problem is None
        await _prompt(c, front_end)
    assert len(front_end.shown) == 2
    assert all("The disk is full." in text for text in front_end.shown)
