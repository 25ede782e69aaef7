"""A server in front of a model service that fails in random ways; and what must hold after each prompt."""

import random
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

from tests.support.findings import Findings
from tests.support.messages_api import messages_api
from tests.support.model_replies import Failure, Json, Play, call, calls, event, failing, redacted, say, text, think
from tests.support.pings import pinging
from tests.support.rpc import RpcClient, RpcFailure
from tests.support.sockets import listening

_STREAM_FAILURES = (Failure.CUT, Failure.RESET, Failure.NO_STOP, Failure.ERROR_EVENT, Failure.LINGER)
_STATUSES = (400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529)
_BODIES = (
    b"",
    b"data: [DONE]\n\n",
    b"<html>sign in first</html>",
    b"event: message_start\ndata: {oops\n\n",
    b"event: content_block_delta\ndata: \xff\xfe\n\n",
    event("error", error={"type": "overloaded_error", "message": "later"}),
    event("error", error="nonsense"),
    event("message_start", message={"usage": {"input_tokens": -5}}) + event("message_stop"),
)
_INPUTS = (
    '{"path": "a',
    "[1]",
    '{"path": 1e400}',
    '{"path": "\\ud800"}',
    '{"path": ".", "deep": ' + '{"a":' * 300 + "1" + "}" * 300 + "}",
    '{"path": "../../etc/passwd"}',
    '{"path": ["."]}',
    "",
)
_MOST_IN_A_ROW = 4
"""Failures one after the other: the waits between retries double."""
_STOPS = ("end_turn", "max_tokens", "refusal", "pause_turn", "model_context_window_exceeded", "invented", None)


class ModelFaults:
    """Sends prompts until the model has failed ``faults`` times; all randomness comes from ``seed``."""

    def __init__(self, seed: int, faults: int, workspace: Path) -> None:
        self._random = random.Random(seed)
        self._left = faults
        self._in_a_row = 0
        self._workspace = workspace
        self.summary: Counter[str] = Counter()
        self.findings = Findings(tries=faults)

    async def run(self) -> None:
        async with AsyncExitStack() as stack:
            api = await stack.enter_async_context(messages_api(self._script))
            server = await stack.enter_async_context(listening("--tcp", "0", env={"ANTHROPIC_API_KEY": "test-key"}))
            pings = await stack.enter_async_context(pinging(server))
            options: Json = {"model": "m", "baseUrl": api.url, "api": {"idleTimeout": 5}}
            client = await stack.enter_async_context(server.opened(self._workspace, options=options))
            session_id, _ = await client.session()
            while self._left > 0:
                if self._random.random() < 0.05:
                    session_id, _ = await client.session()
                await self._prompt(client, session_id)
            self._left = -(10**9)  # healthy from now on
            assert (await client.prompt(session_id, "all well?"))["stopReason"] == "end_turn"
            self.findings.invalid += api.violations
        pings.add_to(self.findings)
        self.findings.check()

    async def _prompt(self, client: RpcClient, session_id: str) -> None:
        """Every prompt is answered: by a stop reason or by an error of the model."""
        try:
            result = await client.prompt(session_id, self._random.choice(("go", "read it", "x" * 2000)))
            self.summary[result["stopReason"]] += 1
        except RpcFailure as failure:
            if failure.code not in range(-32099, -31999):
                raise
            self.summary[failure.data["kind"]] += 1
        client.forget()

    def _script(self, body: Json, _: int) -> Play:
        choose = self._random
        if self._left < 0 or self._in_a_row == _MOST_IN_A_ROW or choose.random() < 0.3:
            self._in_a_row = 0
            return say("fine", piece=2)
        self._left -= 1
        self._in_a_row += 1
        match choose.randrange(6):
            case 0:
                return say(
                    "half of an answer", piece=3, failure=choose.choice(_STREAM_FAILURES), after=choose.randrange(1, 8)
                )
            case 1:
                return failing(choose.choice(_STATUSES), "api_error", retry_after_ms="1")
            case 2:
                return Play(raw=choose.choice(_BODIES))
            case 3:
                used = call(
                    "list_dir", json_text=choose.choice(_INPUTS), id=choose.choice((None, "same", "bad id!", ""))
                )
                return calls(*[used] * choose.randrange(1, 3), think("hm") if choose.random() < 0.3 else text("so"))
            case 4:
                parts = (text(""), text("  \n"), think("deep"), redacted("abc"), text("word"))
                blocks = choose.sample(parts, choose.randrange(len(parts)))
                return Play(tuple(blocks), stop_reason=choose.choice(_STOPS))
            case _:
                return say("", failure=Failure.CLOSE_BEFORE_HEADERS)
