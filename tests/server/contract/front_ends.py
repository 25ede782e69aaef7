"""The two front ends for editors behind one interface, each used over its own protocol in a real process."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.acp import ASK as ACP_ASK
from tests.support.acp import SUBAGENTS, AcpClient, choose, speaking
from tests.support.model_replies import Json
from tests.support.rpc import RpcClient, RpcFailure, Unanswered, serving

ASK = "deputy/permission/request"


@dataclass(frozen=True)
class Ending:
    """The response to a prompt: a stop reason or an error."""

    reason: str = ""
    code: int = 0
    action: str = ""


@dataclass(frozen=True)
class Shown:
    """What a client shows of a session: messages by author, and calls with their last state by agent."""

    said: tuple[tuple[str, str], ...]
    calls: tuple[tuple[str, str], ...]
    children: tuple[tuple[str, str], ...]
    """Labels, and the outcome of each agent."""


class Front(ABC):
    """One client. ``answer`` is the kind of option that it selects; with an empty one it leaves requests open."""

    def __init__(self, client: RpcClient, ask: str) -> None:
        self.client = client
        self.answer = "allow_once"
        self.permission_requests: list[str] = []
        """The titles of permission requests."""
        client.handlers[ask] = self._answer

    def _answer(self, permission_request: Json) -> object:
        self.permission_requests.append(self.title_of(permission_request))
        return choose(self.answer)(permission_request) if self.answer else Unanswered

    async def end_of(self, prompt: int) -> Ending:
        try:
            return Ending((await self.client.result(prompt))["stopReason"])
        except RpcFailure as failure:
            return Ending(code=failure.code, action=failure.data["action"])

    async def say(self, session: str, text: str) -> Ending:
        return await self.end_of(self.start(session, text))

    @abstractmethod
    def title_of(self, permission_request: Json) -> str: ...
    @abstractmethod
    async def open(self, folder: Path) -> str: ...
    @abstractmethod
    def start(self, session: str, text: str) -> int: ...
    @abstractmethod
    async def cancel(self, session: str) -> None: ...
    @abstractmethod
    async def cancel_child(self, session: str, label: str) -> None: ...
    @abstractmethod
    async def load(self, session: str, folder: Path) -> None: ...
    @abstractmethod
    async def asked(self) -> None:
        """Return when a permission request is open."""

    @abstractmethod
    async def withdrawn(self) -> None:
        """Return when a permission request was withdrawn."""

    @abstractmethod
    def shown(self, session: str) -> Shown: ...


class LanguageServer(Front):
    def __init__(self, client: RpcClient) -> None:
        super().__init__(client, ASK)
        self._loaded: Json = {"agents": [], "transcript": []}
        self._transcripts: list[Json] = []

    def title_of(self, permission_request: Json) -> str:
        return permission_request["title"]

    async def open(self, folder: Path) -> str:
        return (await self.client.session(cwd=folder.as_uri()))[0]

    def start(self, session: str, text: str) -> int:
        return self.client.start_prompt(session, text)

    async def cancel(self, session: str) -> None:
        await self.client.request("deputy/session/cancel", {"sessionId": session})

    async def cancel_child(self, session: str, label: str) -> None:
        child = await self.client.event("agent_started", lambda event: event["agent"]["label"] == label)
        await self.client.request("deputy/agent/cancel", {"sessionId": session, "agentId": child["agentId"]})

    async def load(self, session: str, folder: Path) -> None:
        self._loaded = await self.client.request("deputy/session/load", {"sessionId": session})
        for agent in self._loaded["agents"]:
            address = {"sessionId": session, "agentId": agent["agentId"]}
            self._transcripts += (await self.client.request("deputy/agent/transcript", address))["entries"]

    async def asked(self) -> None:
        await self.client.until(lambda message: message.get("method") == ASK)

    async def withdrawn(self) -> None:
        await self.client.until(lambda message: message.get("method") == "$/cancelRequest")

    def shown(self, session: str) -> Shown:
        events = [e for e in self.client.events() if e.get("sessionId") == session]
        entries = [*self._transcripts, *events]
        calls: dict[str, list[str]] = {}
        for entry in entries:
            if entry["type"] == "tool_call":
                calls[entry["toolCallId"]] = [entry["tool"], entry["status"]]
            elif entry["type"] == "tool_call_update":
                calls[entry["toolCallId"]][1] = entry["status"]
        nodes = {a["agentId"]: a["label"] for a in self._loaded["agents"] if a["depth"]}
        nodes |= {
            e["agentId"]: e["agent"]["label"] for e in events if e["type"] == "agent_started" and e["agent"]["depth"]
        }
        ends = {a["agentId"]: a["status"] for a in self._loaded["agents"]}
        ends |= {e["agentId"]: e["status"] for e in events if e["type"] == "agent_finished"}
        said = [(e["role"], e["text"]) for e in entries if e["type"] == "message"]
        return _shown(said, calls, {nodes[one]: ends[one] for one in nodes})


class Acp(Front):
    def __init__(self, client: AcpClient) -> None:
        super().__init__(client, ACP_ASK)
        self.acp = client
        self._said: list[str] = []

    def title_of(self, permission_request: Json) -> str:
        return permission_request["toolCall"]["title"]

    async def open(self, folder: Path) -> str:
        return await self.acp.open(folder)

    def start(self, session: str, text: str) -> int:
        self._said.append(text)  # a client shows its own messages itself
        return self.acp.start_say(session, text)

    async def cancel(self, session: str) -> None:
        self.client.notify("session/cancel", {"sessionId": session})

    async def cancel_child(self, session: str, label: str) -> None:
        child = (await self.acp.update("subagent_update", title=label))["sessionId"]
        await self.cancel(child)
        await self.acp.update("subagent_update", sessionId=child, capabilities={})

    async def load(self, session: str, folder: Path) -> None:
        await self.client.request("session/load", {"sessionId": session, "cwd": str(folder), "mcpServers": []})

    async def asked(self) -> None:
        await self.client.until(lambda message: message.get("method") == ACP_ASK)

    async def withdrawn(self) -> None:
        await self.client.until(lambda message: message.get("method") == "$/cancel_request")

    def shown(self, session: str) -> Shown:
        children = {u["sessionId"]: u["title"] for u in self.acp.updates("subagent_update") if "title" in u}
        ends = {
            u["sessionId"]: u["state"]["_meta"]["deputy"]["status"]
            for u in self.acp.updates("subagent_update")
            if u.get("capabilities") == {}
        }
        said = [("user", text) for text in self._said]
        calls: dict[str, list[str]] = {}
        for one in (session, *children):
            said += _messages(self.acp.updates(session_id=one))
            for update in self.acp.updates(session_id=one):
                if update["sessionUpdate"] == "tool_call":
                    calls[one + update["toolCallId"]] = [update["name"], update["status"]]
                elif update["sessionUpdate"] == "tool_call_update" and "status" in update:
                    calls[one + update["toolCallId"]][1] = update["status"]
        return _shown(said, calls, {children[one]: ends[one] for one in children})


def _messages(updates: list[Json]) -> list[tuple[str, str]]:
    whole: dict[str, tuple[str, str]] = {}
    for update in updates:
        if update["sessionUpdate"] == "session_message":
            whole[update["messageId"]] = "user", update["content"][0]["text"]
        elif update["sessionUpdate"] in ("user_message_chunk", "agent_message_chunk"):
            role = "user" if update["sessionUpdate"] == "user_message_chunk" else "assistant"
            before = whole.get(update["messageId"], (role, ""))[1]
            whole[update["messageId"]] = role, before + update["content"]["text"]
    return list(whole.values())


def _shown(said: list[tuple[str, str]], calls: Mapping[str, list[str]], children: Mapping[str, str]) -> Shown:
    # The Agent Client Protocol has no status for a cancelled call.
    ended = [(tool, "failed" if status == "cancelled" else status) for tool, status in calls.values()]
    return Shown(tuple(sorted(said)), tuple(sorted(ended)), tuple(sorted(children.items())))


@asynccontextmanager
async def language_server(env: Mapping[str, str], folder: Path) -> AsyncGenerator[Front]:
    async with serving(env=env) as client:
        await client.initialize(folder)
        yield LanguageServer(client)
        assert await client.shut_down() == 0


@asynccontextmanager
async def acp(env: Mapping[str, str], folder: Path) -> AsyncGenerator[Front]:
    async with speaking(env=env) as client:
        await client.greet(**SUBAGENTS)
        yield Acp(client)
        client.close_input()
        assert await client.exit_code() == 0
