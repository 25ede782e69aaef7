"""Running commands: ``shell``, and ``process`` for those in the background."""

import codecs
import json
import math
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from signal import Signals
from typing import Annotated

import anyio
from anyio import to_thread
from anyio.abc import ByteReceiveStream
from pydantic import Field, PrivateAttr, field_validator

from deputy_agents.domain.errors import InvalidRequest, OutsideRoots, ToolError
from deputy_agents.domain.event import CommandPreview, Location, ToolKind
from deputy_agents.domain.rule import AccessRequest, Action
from deputy_agents.files.workspace import PathKind, Place
from deputy_agents.shell.access import TOOL, Target, needs
from deputy_agents.shell.background import BackgroundProcess
from deputy_agents.shell.output import Output
from deputy_agents.shell.process import Ended, Launch, guarded
from deputy_agents.text import clean, cut, visible
from deputy_agents.tool.args import Args, ArgsTool, PathArgs
from deputy_agents.tool.base import Commands, Prepared, ToolContext, ToolOutput

MAX_COMMAND = 20_000
MAX_TIMEOUT = 24 * 3600.0
FOR_MODEL = 16 * 1024
"""Bytes of each end of the output that the model reads."""
FOR_PEOPLE = 128 * 1024
"""Bytes of each end of the output that the transcript shows."""
KEPT = 4 * 1024 * 1024
"""Bytes of each end of the output that are kept for those who ask for all of it."""

_LIVE_EVERY = 0.1
_LIVE_CHARS = 4096
_MAX_TITLE = 200


class ShellArgs(Args):
    command: Annotated[
        str, Field(min_length=1, max_length=MAX_COMMAND, description="Line of bash. There is no terminal and no input.")
    ]
    cwd: Annotated[str, Field(description="Folder to run it in, inside the workspace.")] = "."
    timeout: Annotated[
        float | None,
        Field(gt=0, le=MAX_TIMEOUT, description="Seconds until it is ended; 120 if the user has set nothing else."),
    ] = None
    background: Annotated[
        bool, Field(description="Start it and go on: for servers and watchers. See the tool process.")
    ] = False
    _folder: PathArgs | None = PrivateAttr(default=None)

    @field_validator("command")
    @classmethod
    def _can_be_run(cls, command: str) -> str:
        if "\0" in command or not command.strip():
            raise ValueError("it must not be blank or hold a null character")
        try:
            command.encode()
        except UnicodeEncodeError:
            raise ValueError("it holds lone surrogates, which are no characters") from None
        return command

    @property
    def folder(self) -> PathArgs:
        """The folder, bound by the first look."""
        self._folder = self._folder or PathArgs(path=self.cwd)
        return self._folder


class Shell(ArgsTool[ShellArgs]):
    """A line of bash. Every command in it is decided about; what it starts ends with it."""

    def __init__(self) -> None:
        super().__init__(
            TOOL,
            ToolKind.EXECUTE,
            ShellArgs,
            "Runs a line of bash in the workspace and returns what it prints and its exit code. Everything that it "
            "starts is ended when it ends; use background for what is to go on. Prefer the file tools for reading, "
            "searching and changing files.",
        )

    async def prepare(self, args: ShellArgs, context: ToolContext) -> Prepared:
        place = await args.folder.look(context)
        if place.kind is not PathKind.FOLDER:
            raise ToolError(f"cwd: {context.workspace.shown(place, context.cwd)} is no folder.")
        needed = await to_thread.run_sync(needs, args.command, place.path)
        files = [await _located(target, place.path, context) for target in needed.targets]
        return Prepared(
            cut(visible(args.command.strip()), _MAX_TITLE),
            [*needed.access, *(request for request, _ in files)],
            tuple(location for _, location in files if location is not None),
            CommandPreview("\n".join(map(visible, args.command.split("\n"))), str(place.path)),
        )

    async def run(self, args: ShellArgs, context: ToolContext) -> ToolOutput:
        commands = _commands(context)
        place = await args.folder.use(context)
        async with context.workspace.working_directory(place) as cwd:
            launch = _launch(args.command, cwd, place, context, commands)
            if args.background:
                started = await commands.background.start(commands.agent_id, launch, args.timeout)
                how = "the tool process shows its output, and stops it"
                return ToolOutput(f"It runs in the background as {started.process_id}; {how}.")
            return await _finished(launch, args.timeout or commands.settings.timeout, context.show)


class ProcessArgs(Args):
    process_id: Annotated[str | None, Field(description="Which one; all are listed without.")] = None
    stop: Annotated[bool, Field(description="End it, with all that it has started.")] = False


class ProcessTool(ArgsTool[ProcessArgs]):
    """The agent's background commands."""

    def __init__(self) -> None:
        super().__init__(
            "process",
            ToolKind.OTHER,
            ProcessArgs,
            "Lists your background commands; with process_id, tells the state and the output of one, and can stop it.",
        )

    async def prepare(self, args: ProcessArgs, context: ToolContext) -> Prepared:
        del context
        target = f"stop {args.process_id}" if args.process_id and args.stop else args.process_id or ""
        return Prepared(target, (AccessRequest(self.name, Action.SESSION, target),))

    async def run(self, args: ProcessArgs, context: ToolContext) -> ToolOutput:
        commands = _commands(context)
        mine = commands.background.list(None if commands.all_agents else commands.agent_id)
        if args.process_id is None:
            return ToolOutput(json.dumps({"processes": [_state(command) for command in mine]}, ensure_ascii=False))
        if args.process_id not in [command.process_id for command in mine]:
            raise ToolError(f"You have no background command {args.process_id}; without process_id all are listed.")
        try:
            if args.stop:
                await commands.background.stop(args.process_id)
            output = commands.background.output(args.process_id, FOR_MODEL)
            command = commands.background.get(args.process_id)
        except InvalidRequest as error:
            raise ToolError(str(error)) from None
        return ToolOutput(json.dumps(_state(command) | {"output": output}, ensure_ascii=False))


def _commands(context: ToolContext) -> Commands:
    if context.commands is None:
        raise ToolError("Commands cannot be run here.")
    return context.commands


def _launch(text: str, cwd: str, place: Place, context: ToolContext, commands: Commands) -> Launch:
    settings = commands.settings
    writable = context.workspace.roots if settings.sandbox else None
    return Launch(text, cwd, str(place.path), settings.env, writable)


async def _located(target: Target, cwd: Path, context: ToolContext) -> tuple[AccessRequest, Location | None]:
    """What redirecting a file needs: the same as the file tools need for it."""
    tool = "write_file" if target.writes else "read_file"
    if target.path is None:
        return AccessRequest(tool, Action.OUTSIDE, target.shown, known="", computed=True), None
    try:
        place = await context.workspace.locate(target.path, cwd)
    except OutsideRoots:
        return AccessRequest(tool, Action.OUTSIDE, str(cwd / target.path)), None
    if target.writes:
        action = Action.EDIT_PROTECTED if place.protected else Action.EDIT
    else:
        action = Action.READ_SECRET if place.secret else Action.READ
    return AccessRequest(tool, action, place.subject, place.whole), Location(str(place.path))


async def _finished(launch: Launch, timeout: float, show: Callable[[str], None]) -> ToolOutput:
    """Runs a command to its end, or to the end of its time."""
    output = Output(KEPT)
    ended: Ended | None = None
    async with guarded(launch) as running:
        with anyio.move_on_after(timeout):
            async for chunk in _shown_live(running.output, show):
                output.add(chunk)
            ended = await running.wait()
        late = ended is None
        ended = ended or await running.end()
    notes = [f"timed out after {timeout:g} s and was ended" if late else _exit(ended.code)]
    if ended.left:
        notes.append(f"{_processes(ended.left)} left running by it had to end with it; use background for such")
    if ended.survivors:
        notes.append(f"{_processes(ended.survivors)} could not be ended")
    end = "".join(f"\n[{note}]" for note in notes if note)
    told, shown, whole = (f"{output.text(half)}{end}".strip() for half in (FOR_MODEL, FOR_PEOPLE, KEPT))
    return ToolOutput(
        told or "(no output)",
        is_error=late or ended.code != 0,
        shown=shown if output.size > 2 * FOR_MODEL else None,
        whole=whole if output.size > 2 * FOR_PEOPLE else None,
    )


async def _shown_live(stream: ByteReceiveStream, show: Callable[[str], None]) -> AsyncGenerator[bytes]:
    """The pieces of the output as they come. People see it a few times a second, of a flood the latest part."""
    decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
    waiting, shown_at = "", -math.inf
    try:
        while True:
            patience = _LIVE_EVERY if waiting else math.inf
            chunk: bytes | None = None
            with anyio.move_on_after(patience):
                chunk = await stream.receive()
            if chunk is not None:
                yield chunk
                waiting = (waiting + decode(chunk))[-_LIVE_CHARS:]
            if waiting and (chunk is None or anyio.current_time() - shown_at >= _LIVE_EVERY):
                show(clean(waiting))
                waiting, shown_at = "", anyio.current_time()
    except anyio.EndOfStream:
        pass
    finally:
        if waiting:
            show(clean(waiting))


def _exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}" if code else ""
    return f"ended by signal {Signals(-code).name if -code in list(Signals) else -code}"


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _state(command: BackgroundProcess) -> dict[str, object]:
    state: dict[str, object] = {"process_id": command.process_id, "command": command.text, "cwd": command.cwd}
    return state | ({"status": "running"} if command.code is None else {"status": "exited", "exit_code": command.code})
