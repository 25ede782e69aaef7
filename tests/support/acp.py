"""A client of the Agent Client Protocol that speaks plain lines of JSON to a real ``deputy acp``."""

import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.messages_api import MessagesApi, Script, messages_api
from tests.support.model_replies import say
from tests.support.rpc import Json, RpcClient, running

ASK = "session/request_permission"
ACP = ("-P", "-m", "deputy_server", "acp")
SUBAGENTS: Json = {"subagents": {}, "session": {"notices": {}}}


class AcpClient(RpcClient):
    """Like the client of the language server, but for framing and vocabulary."""

    def send(self, message: object) -> None:
        self.send_bytes(f"{json.dumps(message)}\n".encode())

    async def read(self) -> None:
        assert self.process.stdout is not None
        while True:
            await self._reading.wait()
            if not (line := await self.process.stdout.readline()):
                break
            await self._take(json.loads(line))
        self.ended = True
        async with self._news:
            self._news.notify_all()

    def forget(self) -> None:
        self.received.clear()
        self.handlers = {}

    # -- what is said often ----------------------------------------------------------------------------------------

    async def greet(self, **capabilities: object) -> Json:
        return await self.request("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})

    async def open(self, folder: Path, **more: object) -> str:
        opened = await self.request("session/new", {"cwd": str(folder), "mcpServers": [], **more})
        return opened["sessionId"]

    def start_say(self, session_id: str, text: str) -> int:
        blocks = [{"type": "text", "text": text}]
        return self.start("session/prompt", {"sessionId": session_id, "prompt": blocks})

    async def say(self, session_id: str, text: str) -> Json:
        return await self.result(self.start_say(session_id, text))

    def updates(self, kind: str | None = None, session_id: str | None = None) -> list[Json]:
        """The updates so far, of one kind, of one session."""
        found = [m["params"] for m in self.received if m.get("method") == "session/update"]
        return [
            p["update"]
            for p in found
            if kind in (None, p["update"]["sessionUpdate"]) and session_id in (None, p["sessionId"])
        ]

    async def update(self, kind: str, **fields: object) -> Json:
        """The first update of a kind with such fields."""

        def fits(message: Json) -> bool:
            update = message["params"]["update"] if message.get("method") == "session/update" else {}
            return update.get("sessionUpdate") == kind and all(update.get(k) == v for k, v in fields.items())

        return (await self.until(fits))["params"]["update"]

    def text(self, session_id: str, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"]["text"] for update in self.updates(kind, session_id))


@asynccontextmanager
async def speaking(
    *options: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> AsyncGenerator[AcpClient]:
    """A fresh ``deputy acp`` and its client; ``env`` is added to the environment of the test."""
    with TemporaryDirectory(prefix="deputy-home-") as home:
        user = {"HOME": home, "USERPROFILE": home}
        environment = os.environ | user | dict(env or {})
        async with running([*ACP, *options], environment, cwd, connect=AcpClient, limit=2**26) as client:
            yield client


class Speakers:
    """Processes of ``deputy acp`` by what their client can do, each in front of a scripted Messages API."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._running: dict[str, tuple[AcpClient, MessagesApi]] = {}

    @asynccontextmanager
    async def __call__(
        self, script: Script, workspace: Path, capabilities: Json | None = None
    ) -> AsyncGenerator[tuple[AcpClient, MessagesApi, str]]:
        """A client, the API, and a new session in ``workspace``; the API's rules must be kept."""
        client, api = await self._speaker(capabilities or {})
        api.script = script
        api.requests.clear()
        client.forget()
        session_id = await client.open(workspace)
        yield client, api, session_id
        await client.request("session/close", {"sessionId": session_id})
        assert "Traceback" not in client.stderr
        assert api.violations == []

    async def _speaker(self, capabilities: Json) -> tuple[AcpClient, MessagesApi]:
        key = str(capabilities)
        if key not in self._running:
            api = await self._stack.enter_async_context(messages_api(lambda _body, _n: say("nothing")))
            env = {"ANTHROPIC_API_KEY": "test-key", "ANTHROPIC_BASE_URL": api.url}
            client = await self._stack.enter_async_context(speaking("--model", "m", env=env))
            await client.greet(**capabilities)
            self._stack.push_async_callback(_end, client)
            self._running[key] = client, api
        return self._running[key]


async def _end(client: AcpClient) -> None:
    client.close_input()
    assert await client.exit_code() == 0


def choose(kind: str) -> Callable[[Json], Json]:
    """A handler of questions that picks the first option of ``kind``."""

    def answer(permission_request: Json) -> Json:
        option = next(option for option in permission_request["options"] if option["kind"] == kind)
        return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}

    return answer
