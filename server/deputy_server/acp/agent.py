"""``deputy acp``: the sessions of a process for one client of the Agent Client Protocol."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias, cast

import acp
import anyio
from acp import schema
from anyio.abc import TaskGroup

from deputy_agents.definition import PermissionMode
from deputy_agents.errors import DeputyError
from deputy_agents.event import Question
from deputy_agents.message import Block, Text
from deputy_agents.ports import Answer, Dismissed, Selected
from deputy_agents.session import Session
from deputy_server.acp.updates import Updates, asked
from deputy_server.app import App
from deputy_server.version import VERSION

Given: TypeAlias = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)


class Open:
    """A session that the client has open; its questioner too."""

    def __init__(self, session: Session, client: acp.Client) -> None:
        self.session = session
        self._client = client
        self._told = 0
        self._moved = anyio.Event()

    async def follow(self) -> None:
        """Tells the client what happens, for as long as the session lasts."""
        updates = Updates(self.session.primary_id)
        async for event in self.session.subscribe(0):
            for update in updates.of(event):
                await self._client.session_update(self.session.id, update)
            if event.seq is not None:
                self._told = event.seq
                self._moved.set()
                self._moved = anyio.Event()

    async def told(self, seq: int) -> None:
        """Returns when the client knows everything up to ``seq``."""
        while self._told < seq:
            await self._moved.wait()

    async def ask(self, question: Question) -> Answer:
        call, options = asked(question)
        await self.session.flush()
        await self.told(self.session.last_seq)  # a client knows a tool call before it is asked about it
        try:
            reply = await self._client.request_permission(self.session.id, call, options)
        except acp.RequestError:
            return Dismissed()
        chosen = reply.outcome
        if isinstance(chosen, schema.AllowedOutcome) and any(
            one.option_id == chosen.option_id for one in question.options
        ):
            return Selected(chosen.option_id)
        return Dismissed()


class DeputyAgent:
    """Answers the methods that it has; the library refuses all others as unknown."""

    def __init__(self, app: App, tasks: TaskGroup) -> None:
        self._app, self._tasks = app, tasks
        self._open: dict[str, Open] = {}
        self._client: acp.Client

    def on_connect(self, conn: acp.Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: object) -> schema.InitializeResponse:
        return schema.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_capabilities=schema.AgentCapabilities(),
            agent_info=schema.Implementation(name="deputy", title="Deputy", version=VERSION),
        )

    async def new_session(self, cwd: str, **_: object) -> schema.NewSessionResponse:
        given = anyio.Path(cwd)
        if not given.is_absolute() or not await given.is_dir():
            raise acp.RequestError.invalid_params({"cwd": "an absolute path of a folder is needed"})
        folder = Path(await given.resolve())
        session = await self._app.runtime.new_session(cwd=folder, roots=(folder,))
        opened = self._open[session.id] = Open(session, self._client)
        session.attach(opened)
        self._tasks.start_soon(opened.follow)
        modes = [
            schema.SessionMode(id=one.value, name=one.value.replace("_", " ").capitalize()) for one in PermissionMode
        ]
        return schema.NewSessionResponse(
            session_id=session.id,
            modes=schema.SessionModeState(current_mode_id=session.permission_mode.value, available_modes=modes),
        )

    async def set_session_mode(self, session_id: str, mode_id: str, **_: object) -> schema.SetSessionModeResponse:
        if mode_id not in [one.value for one in PermissionMode]:
            raise acp.RequestError.invalid_params({"modeId": f"there is no mode {mode_id}"})
        self._of(session_id).session.permission_mode = PermissionMode(mode_id)
        return schema.SetSessionModeResponse()

    async def prompt(self, session_id: str, prompt: Sequence[Given], **_: object) -> schema.PromptResponse:
        opened = self._of(session_id)
        blocks: list[Block] = []
        for one in prompt:
            if isinstance(one, schema.TextContentBlock):
                blocks.append(Text(one.text))
            elif isinstance(one, schema.ResourceContentBlock):
                blocks.append(Text(one.uri))
            else:
                raise acp.RequestError.invalid_params({"prompt": f"{one.type} is not supported"})
        try:
            await opened.session.refresh()
            result = await (await opened.session.prompt(blocks)).result()
        except DeputyError as error:
            raise acp.RequestError(-32003, str(error)) from None
        await opened.told(opened.session.last_seq)
        if result.error is not None:
            raise acp.RequestError(-32006, f"{result.error.message} {result.error.action}".strip())
        return schema.PromptResponse(stop_reason=cast(schema.StopReason, result.stop_reason))

    async def cancel(self, session_id: str, **_: object) -> None:
        await self._of(session_id).session.cancel()

    def _of(self, session_id: str) -> Open:
        if session_id not in self._open:
            raise acp.RequestError(-32001, f"There is no session {session_id}.")
        return self._open[session_id]


async def serve() -> None:
    """Serves the client at standard input and output until it goes."""
    async with App() as app, anyio.create_task_group() as tasks:
        await acp.run_agent(cast(acp.Agent, DeputyAgent(app, tasks)))
        tasks.cancel_scope.cancel()
