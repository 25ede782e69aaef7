"""Rate limiting with merging."""

import asyncio

import pytest

from deputy_server.lsp.throttle import Throttle

pytestmark = pytest.mark.asyncio


def joined(earlier: str, later: str) -> str:
    return earlier + later


async def test_the_first_item_is_sent_at_once_and_later_ones_are_merged_by_key_and_sent_together() -> None:
    sent: list[str] = []
    arrived = asyncio.Event()

    def send(item: str) -> None:
        sent.append(item)
        if len(sent) == 3:
            arrived.set()

    throttle = Throttle(0.02, send, joined)
    throttle.add("a", "1")
    assert sent == ["1"]
    for key, item in [("a", "2"), ("b", "x"), ("a", "3")]:
        throttle.add(key, item)
    assert sent == ["1"]
    async with asyncio.timeout(10):
        await arrived.wait()
    assert sent == ["1", "23", "x"]


async def test_flush_sends_now_and_close_drops_pending_items() -> None:
    sent: list[str] = []
    throttle = Throttle(1000, sent.append, joined)
    for item in "abc":
        throttle.add(None, item)
    throttle.flush()
    assert sent == ["a", "bc"]
    throttle.add(None, "d")
    throttle.close()
    throttle.flush()
    assert sent == ["a", "bc"]
