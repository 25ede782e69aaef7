"""A real server in front of a scripted Messages API, shared by the tests of a module: each gets it as if fresh."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.support.facts import without_facts
from tests.support.messages_api import MessagesApi, Script, messages_api
from tests.support.model_replies import Json, call, calls, say
from tests.support.rpc import EVERYTHING, RpcClient, serving


class Deputies:
    """Servers by what their client can do. A start costs seconds, and most tests need none of their own."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._running: dict[str, tuple[RpcClient, MessagesApi]] = {}

    @asynccontextmanager
    async def __call__(
        self, script: Script, workspace: Path, capabilities: Json = EVERYTHING
    ) -> AsyncGenerator[tuple[RpcClient, MessagesApi]]:
        """A server that works in ``workspace`` alone and asks ``script``; the API's rules must be kept."""
        client, api = await self._server(capabilities)
        api.script = script
        api.requests.clear()
        folders = [{"uri": workspace.as_uri(), "name": "workspace"}]
        client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": folders, "removed": []}})
        client.forget()
        try:
            yield client, api
        finally:
            client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": [], "removed": folders}})
        assert "Traceback" not in client.stderr
        assert api.violations == []

    async def _server(self, capabilities: Json) -> tuple[RpcClient, MessagesApi]:
        key = str(capabilities)
        if key not in self._running:
            api = await self._stack.enter_async_context(messages_api(lambda _body, _n: say("nothing")))
            client = await self._stack.enter_async_context(serving(env={"ANTHROPIC_API_KEY": "test-key"}))
            options = {"model": "m", "baseUrl": api.url}
            await client.initialize(None, capabilities, initializationOptions=options)
            self._stack.push_async_callback(_shut_down, client)
            self._running[key] = client, api
        return self._running[key]


async def _shut_down(client: RpcClient) -> None:
    assert await client.shut_down() == 0


def last_text(body: Json) -> str:
    """The text of the last message of a request, without the facts of the project."""
    content = body["messages"][-1]["content"]
    texts = [content] if isinstance(content, str) else [block.get("text", "") for block in content]
    return "".join(without_facts(texts))


def is_child(body: Json) -> bool:
    return not any(tool["name"] == "spawn_agent" for tool in body.get("tools", ()))


def spawning(*instructions: str, child: Script, mode: str = "read_only") -> Script:
    """The primary spawns a child for each of ``instructions``, then says "done"; ``child`` plays them all."""

    def play(body: Json, n: int) -> object:
        if is_child(body):
            return child(body, n)
        if len(body["messages"]) > 1:
            return say("done")
        return calls(*(call("spawn_agent", instructions=text, mode=mode) for text in instructions))

    return play  # type: ignore[return-value]


def hanging(gate: asyncio.Event) -> Script:
    """Answers when ``gate`` opens."""
    return lambda _body, _n: say("late", gate=gate)


def is_quiet(api: MessagesApi) -> bool:
    """No request is being answered. (Connections may be kept for later ones.)"""
    return all(received.ended_at is not None for received in api.requests)
