"""Tests of the fake Messages API server, which must detect mistakes."""

import asyncio
import json
import sys
from typing import Any
from urllib.request import urlopen

import pytest

from tests.support import messages_api as server
from tests.support.api_rules import broken_rules

HEADERS = {"anthropic-version": "x"}


def body(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 1, "messages": list(messages), **more}


def message(role: str, *blocks: Any) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


TEXT = {"type": "text", "text": "x"}
USE: dict[str, Any] = {"type": "tool_use", "id": "a", "name": "t", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": "x"}
USER = message("user", TEXT)


def test_a_valid_conversation_breaks_no_rule() -> None:
    assert broken_rules(HEADERS, body(USER, message("assistant", TEXT, USE), message("user", RESULT, TEXT))) == []


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (body(), "at least one message"),
        (body(message("assistant", TEXT)), "first message must use the user role"),
        (body(USER, USER), "roles must alternate"),
        (body(message("user")), "non-empty"),
        (body(message("user", {"type": "text", "text": " "})), "non-whitespace"),
        (body(USER, message("assistant", USE)), "without a tool_result"),
        (body(USER, message("assistant", USE), USER), "0 tool_result blocks"),
        (body(USER, message("assistant", USE), message("user", RESULT, RESULT)), "2 tool_result blocks"),
        (body(USER, message("assistant", USE), message("user", TEXT, RESULT)), "must come first"),
        (body(USER, message("assistant", TEXT), message("user", RESULT)), "unexpected tool_use_id"),
        (body(USER, message("assistant", USE, USE), message("user", RESULT)), "must be unique"),
        (body(USER, message("assistant", {**USE, "id": "a b"})), "does not match the pattern"),
        (body(USER, message("assistant", {"type": "thinking", "thinking": "x"})), "signature: field required"),
        (body(message("user", USE)), "is not allowed"),
        (body(USER, tools=[{"name": "a", "input_schema": {"type": "object"}}] * 2), "unique"),
        (body(USER, tools=[{"name": "a", "input_schema": {}}]), "must be object"),
        (body(USER, system=""), "system"),
        (body(message("user", *[{**TEXT, "cache_control": {}}] * 5)), "at most 4"),
        (body(USER, message("assistant", {**USE, "name": "a.b"}), message("user", RESULT)), "tool's name"),
        (body(USER, message("assistant", {**TEXT, "text": "on \n"})), "trailing whitespace"),
        (body(USER, max_tokens=0), "max_tokens"),
    ],
)
def test_every_broken_rule_is_detected(broken: dict[str, Any], rule: str) -> None:
    assert any(rule in found for found in broken_rules(HEADERS, broken))


@pytest.mark.asyncio
async def test_it_runs_as_a_separate_process() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, server.__file__, "--port", "0", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(20):
            url = (await process.stdout.readline()).decode().strip()
        with await asyncio.to_thread(urlopen, f"{url}/_requests", timeout=10) as answer:
            assert json.load(answer) == {"violations": [], "requests": []}
    finally:
        process.terminate()
        await process.wait()
