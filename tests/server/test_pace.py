"""Sending at a bounded rate."""

import asyncio

import pytest

from deputy_server.lsp.pace import Pace

pytestmark = pytest.mark.asyncio


def joined(earlier: str, later: str) -> str:
    return earlier + later


async def test_the_first_is_sent_at_once_and_what_follows_is_merged_by_key_and_sent_together() -> None:
    sent: list[str] = []
    arrived = asyncio.Event()

    def send(item: str) -> None:
        sent.append(item)
        if len(sent) == 3:
            arrived.set()

    pace = Pace(0.02, send, joined)
    pace.add("a", "1")
    assert sent == ["1"]
    for key, item in [("a", "2"), ("b", "x"), ("a", "3")]:
        pace.add(key, item)
    assert sent == ["1"]
    async with asyncio.timeout(10):
        await arrived.wait()
    assert sent == ["1", "23", "x"]


async def test_a_flush_sends_now_and_a_closed_pace_sends_nothing_more() -> None:
    sent: list[str] = []
    pace = Pace(1000, sent.append, joined)
    for item in "abc":
        pace.add(None, item)
    pace.flush()
    assert sent == ["a", "bc"]
    pace.add(None, "d")
    pace.close()
    pace.flush()
    assert sent == ["a", "bc"]
