"""A session that the client has open: it is told what happens there, and asked its questions."""

import logging
from collections import defaultdict
from collections.abc import Sequence

import anyio

from deputy_agents.domain.event import (
    AgentFinished,
    DefinitionsChanged,
    Event,
    PermissionRequest,
    ResolvedBy,
    SessionChanged,
    StatusChanged,
    TurnFinished,
)
from deputy_agents.domain.ids import new_id
from deputy_agents.events.signal import Signal
from deputy_agents.ports.permission import Dismissed, PermissionAnswer, Selected
from deputy_agents.session.session import Session
from deputy_protocol.base import to_wire
from deputy_protocol.errors import ErrorCode
from deputy_server.acp.client import Client
from deputy_server.acp.facts import Facts, Spending
from deputy_server.acp.peer import Asked, Peer
from deputy_server.acp.transcript import chunk
from deputy_server.acp.updates import Updates
from deputy_server.convert.agent import agent_ref_to_wire
from deputy_server.rpc.errors import ClientError, ConnectionLost
from deputy_server.rpc.json import JsonObject, dig

log = logging.getLogger(__name__)

SETTLE_GRACE = 1
"""Seconds that the end of an agent waits for the client to close its withdrawn questions."""


class Opened:
    """One session of one client; its questioner too. ``replay`` tells what was before, else the client knows it, or
    there was nothing."""

    def __init__(self, session: Session, peer: Peer, client: Client, models: Sequence[str], *, replay: bool) -> None:
        self.session = session
        self._peer = peer
        self._client = client
        self.facts = Facts(session, models)
        self._spending = Spending(session, known=not replay)
        last = session.last_seq
        self._updates = Updates(
            session.id, session.primary_id, subagents=client.subagents, replay_to=last if replay else 0
        )
        if not replay:
            self._updates.know(session.agents())
        self._subscription = session.subscribe(0 if replay else last)
        self._told = 0 if replay else last
        self._moved = Signal()
        self._closed = False
        self._asked: defaultdict[str, set[Asked]] = defaultdict(set)
        """What the client was asked for each agent and has not answered, withdrawn or not."""
        self._unsaid: list[str] = []
        """What a client that shows no notices is told with the next turn."""
        self._retrying = False

    async def run(self) -> None:
        """Tells the client what happens, for as long as the session lasts and is open. A client that does not read
        holds this up, and nothing else: what follows waits in the store."""
        try:
            async for event in self._subscription:
                await self._peer.out.at_ease()
                if isinstance(event.body, AgentFinished | TurnFinished):
                    await self._settled(event.agent_id or "")
                try:
                    self._tell(event)
                except Exception:
                    log.exception("event %s of session %s could not be told", event.seq, self.session.id)
                if event.seq is not None:
                    self._told = event.seq
                    self._stir()
        finally:
            self.close()

    def close(self) -> None:
        """The client hears no more of the session, which goes on."""
        self._closed = True
        self._subscription.close()
        self.session.detach(self)
        self._stir()

    async def told(self, seq: int) -> None:
        """Returns when the client has been told everything up to ``seq``, or hears no more."""
        while self._told < seq and not self._closed:
            await self._moved.wait()

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        await self.session.flush()
        await self.told(self.session.last_seq)  # a client knows a tool call before it is asked about it
        open_questions = self._asked[request.agent.agent_id]
        asked: Asked | None = None
        try:
            asked = self._peer.ask("session/request_permission", self._request(request))
            open_questions.add(asked)
            return _chosen(request, await self._peer.answer_to(asked, timeout=None))
        except ClientError as error:
            unable = error.code == ErrorCode.METHOD_NOT_FOUND.value
            return Dismissed(ResolvedBy.UNREACHABLE) if unable else Dismissed()
        except ConnectionLost:
            return Dismissed(ResolvedBy.UNREACHABLE)
        finally:
            if asked is not None and asked.over.is_set():
                open_questions.discard(asked)

    def tell_facts(self) -> None:
        """Tells what is new of title, mode, model and commands."""
        for update in self.facts.news():
            self._notify(self.session.id, update)

    def notice(self, text: str, *, severity: str = "info") -> None:
        """Tells the user something beside the conversation; in it, before the next turn, where the client has no other
        place."""
        if self._client.notices:
            self._notify(self.session.id, {"sessionUpdate": "notice", "severity": severity, "title": text})
        else:
            self._unsaid.append(text)

    def say_unsaid(self) -> None:
        """A turn begins: what the user has to know is said first."""
        for text in self._unsaid:
            self._notify(self.session.id, chunk("agent_message_chunk", f"*{text}*\n\n", new_id()))
        self._unsaid.clear()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _tell(self, event: Event) -> None:
        for session_id, update in self._updates.of(event):
            self._notify(session_id, update)
        if (spent := self._spending.take(event)) is not None:
            self._notify(self.session.id, spent)
        match event.body:
            case SessionChanged() | DefinitionsChanged():
                self.tell_facts()
            case StatusChanged(detail=str(detail)) if event.agent_id == self.session.primary_id:
                self._tell_trouble(detail)
            case TurnFinished():
                self._retrying = False
            case _:
                pass

    def _tell_trouble(self, detail: str) -> None:
        """Once a turn: how often it is tried again is nobody's business. A client that shows no notices shows it with
        what the agent thinks, so that nobody looks at an editor that is silent."""
        if self._retrying:
            return
        self._retrying = True
        if self._client.notices:
            self.notice(detail, severity="warning")
        else:
            self._notify(self.session.id, chunk("agent_thought_chunk", f"*{detail}*\n\n", new_id()))

    def _notify(self, session_id: str, update: JsonObject) -> None:
        self._peer.notify("session/update", {"sessionId": session_id, "update": update})

    def _request(self, request: PermissionRequest) -> JsonObject:
        session_id, call = self._updates.asked(request)
        agent = to_wire(agent_ref_to_wire(request.agent))
        return {
            "sessionId": session_id,
            "toolCall": call,
            "options": [{"optionId": o.option_id, "name": o.name, "kind": o.kind.value} for o in request.options],
            "_meta": {"deputy": {"agent": agent, "reason": request.reason}},
        }

    async def _settled(self, agent_id: str) -> None:
        """Waits, for a moment, until the client has let go of an agent's questions: the end comes after them."""
        with anyio.move_on_after(SETTLE_GRACE):
            for asked in self._asked.pop(agent_id, ()):
                await asked.over.wait()

    def _stir(self) -> None:
        self._moved.notify()


def _chosen(request: PermissionRequest, reply: object) -> PermissionAnswer:
    """Only the name of an option that was offered is a choice."""
    option_id = dig(reply, "outcome", "optionId")
    selected = dig(reply, "outcome", "outcome") == "selected"
    if selected and isinstance(option_id, str) and any(one.option_id == option_id for one in request.options):
        return Selected(option_id)
    return Dismissed()
