"""A session that the client has open: sends its events and permission requests."""

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import anyio

from deputy_agents.concurrency.signal import Signal
from deputy_agents.domain.event import (
    AgentFinished,
    DefinitionsChanged,
    Event,
    InputRequest,
    PermissionRequest,
    ResolvedBy,
    SessionChanged,
    StatusChanged,
    TurnFinished,
)
from deputy_agents.domain.outcome import CancelReason
from deputy_agents.domain.user_input import InputField
from deputy_agents.ports.permission import Dismissed, InputAnswer, PermissionAnswer, Selected
from deputy_agents.session.session import Session
from deputy_protocol.base import to_wire
from deputy_server.acp.client import Client
from deputy_server.acp.elicitation import choice_answer, choice_options, elicitation_answer, elicitation_params
from deputy_server.acp.notices import Notices
from deputy_server.acp.session_state import SessionState, UsageTotals
from deputy_server.acp.session_updates import SessionUpdates
from deputy_server.consent import button
from deputy_server.convert.agent import agent_ref_to_wire
from deputy_server.convert.permission import dismissed_by
from deputy_server.rpc.endpoint import Endpoint, OutgoingRequest
from deputy_server.rpc.errors import ClientError, ConnectionLost
from deputy_server.rpc.json import JsonObject, dig

log = logging.getLogger(__name__)

PERMISSION = "session/request_permission"

A = TypeVar("A")

WITHDRAW_GRACE = 1
"""Seconds that the end of an agent waits for the client to close withdrawn permission requests."""


class OpenSession:
    """One session of one client, which is its permission client and the front end of its prompts. With ``replay``, the
    client receives the events of the past, otherwise only new ones."""

    def __init__(
        self,
        session: Session,
        endpoint: Endpoint,
        client: Client,
        models: Sequence[str],
        shown_notices: set[str],
        *,
        replay: bool,
    ) -> None:
        self.session = session
        self.state = SessionState(session, models)
        self.notices = Notices(client, shown_notices, self._notify)
        self._endpoint = endpoint
        self._client = client
        last = session.log.last_seq
        self._replay_to = last if replay else 0
        self._usage = UsageTotals(session, known=not replay)
        self._updates = SessionUpdates(
            session.id, session.primary_id, subagents=client.subagents, replay_to=self._replay_to
        )
        if not replay:
            self._updates.add_known(session.agents())
        self._subscription = session.log.subscribe(0 if replay else last)
        self._sent_seq = 0 if replay else last
        self._advanced = Signal()
        self._closed = False
        self._requests: defaultdict[str, set[OutgoingRequest]] = defaultdict(set)
        """By agent id, the requests to the user that the client has not answered, withdrawn or not."""

    async def run(self) -> None:
        """Send events until the session ends or is closed. A client that does not read delays only this: later events
        stay in the store."""
        try:
            async for event in self._subscription:
                await self._endpoint.out.wait_uncongested()
                if isinstance(event.body, AgentFinished | TurnFinished):
                    await self._requests_closed(event.agent_id or "")
                try:
                    if not self._is_gone(event):
                        self._send(event)
                except Exception:
                    log.exception("event %s of session %s was not sent", event.seq, self.session.id)
                if event.seq is not None:
                    self._sent_seq = event.seq
                    self._advanced.notify()
        finally:
            self.close()

    def close(self) -> None:
        """Stop sending. The session continues."""
        self._closed = True
        self._subscription.close()
        self.session.inbox.detach(self)
        self._advanced.notify()

    # -- the permission client -------------------------------------------------------------------------------------

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        params = partial(self._permission_params, request)
        return await self._answered(request, PERMISSION, params, partial(_answer, request))

    async def ask_input(self, request: InputRequest) -> InputAnswer:
        shows = self._client.fills_forms if request.form.url is None else self._client.opens_urls
        if shows:
            params = partial(elicitation_params, self._updates.session_of(request.agent.agent_id), request)
            return await self._answered(request, "elicitation/create", params, elicitation_answer)
        if (choice := request.form.single_choice) is None:
            return Dismissed(ResolvedBy.UNREACHABLE)
        params = partial(self._choice_params, request, choice)
        return await self._answered(request, PERMISSION, params, partial(choice_answer, choice))

    async def _answered(
        self,
        request: PermissionRequest | InputRequest,
        method: str,
        params: Callable[[], JsonObject],
        read: Callable[[object], A],
    ) -> A | Dismissed:
        """The user's answer to a request of the agent, or that there is none because the client failed."""
        await self.session.log.flush()
        await self.flush()  # the tool call must reach the client before its request
        open_requests = self._requests[request.agent.agent_id]
        outgoing: OutgoingRequest | None = None
        try:
            outgoing = self._endpoint.start_request(method, params())
            open_requests.add(outgoing)
            return read(await self._endpoint.wait_response(outgoing, timeout=None))
        except (ClientError, ConnectionLost) as failure:
            return dismissed_by(failure)
        finally:
            if outgoing is not None and outgoing.closed.is_set():
                open_requests.discard(outgoing)

    # -- the front end of prompts ----------------------------------------------------------------------------------

    def report_problems(self) -> None:
        for problem in self.session.problems:
            self.notices.show_once(str(problem), severity="warning")

    async def before_refresh(self) -> None:
        pass

    async def before_prompt(self) -> None:
        self.notices.flush()

    def cancel_reason(self) -> CancelReason:
        return CancelReason.SHUTDOWN if self._endpoint.closing else CancelReason.USER

    async def flush(self) -> None:
        """Return when the client has received everything that the session has published, or is closed."""
        seq = self.session.log.last_seq
        while self._sent_seq < seq and not self._closed:
            await self._advanced.wait()

    def notice(self, text: str, occasion: str = "") -> None:
        self.notices.show_once(text, severity="warning", occasion=occasion)

    # -- updates ---------------------------------------------------------------------------------------------------

    def send_state(self) -> None:
        """Send what has changed of title, mode, model and commands."""
        for update in self.state.updates():
            self._notify(update)

    def _send(self, event: Event) -> None:
        for session_id, update in self._updates.of(event):
            self._notify(update, session_id)
        if (update := self._usage.take(event)) is not None:
            self._notify(update)
        match event.body:
            case SessionChanged() | DefinitionsChanged():
                self.send_state()
            case StatusChanged(detail=str(detail)) if event.agent_id == self.session.primary_id:
                self.notices.show_delay(detail)
            case TurnFinished():
                self.notices.turn_ended()
            case _:
                pass

    def _is_gone(self, event: Event) -> bool:
        """Whether the event is of the past, and a rewind has gone back over it."""
        return event.seq is not None and event.seq <= self._replay_to and self.session.view.lineage.is_hidden(event.seq)

    def _notify(self, update: JsonObject, session_id: str | None = None) -> None:
        self._endpoint.notify("session/update", {"sessionId": session_id or self.session.id, "update": update})

    def _permission_params(self, request: PermissionRequest) -> JsonObject:
        session_id, call = self._updates.requested_call(request)
        agent = to_wire(agent_ref_to_wire(request.agent))
        return {
            "sessionId": session_id,
            "toolCall": call,
            "options": [{"optionId": o.option_id, "name": button(o), "kind": o.kind.value} for o in request.options],
            "_meta": {"deputy": {"agent": agent, "reason": request.reason}},
        }

    def _choice_params(self, request: InputRequest, choice: InputField) -> JsonObject:
        agent = to_wire(agent_ref_to_wire(request.agent))
        call = {"toolCallId": request.tool_call_id or request.request_id, "title": request.form.message}
        meta = {"deputy": {"agent": agent, "reason": None}}
        session_id = self._updates.session_of(request.agent.agent_id)
        return {"sessionId": session_id, "toolCall": call, "options": choice_options(choice), "_meta": meta}

    async def _requests_closed(self, agent_id: str) -> None:
        """Wait until the client has closed an agent's permission requests, so that the agent's end comes after them."""
        with anyio.move_on_after(WITHDRAW_GRACE):
            for outgoing in self._requests.pop(agent_id, ()):
                await outgoing.closed.wait()


def _answer(request: PermissionRequest, response: object) -> PermissionAnswer:
    """The selected option, if it is one of the request's."""
    option_id = dig(response, "outcome", "optionId")
    selected = dig(response, "outcome", "outcome") == "selected"
    if selected and isinstance(option_id, str) and any(one.option_id == option_id for one in request.options):
        return Selected(option_id)
    return Dismissed()
