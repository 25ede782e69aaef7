"""Tools that run commands: ``shell``, and ``process`` for background processes."""

import codecs
import json
import math
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import anyio
from anyio import to_thread
from anyio.abc import ByteReceiveStream
from pydantic import Field, PrivateAttr, field_validator

from deputy_agents.concurrency.off_loop import off_loop
from deputy_agents.domain.errors import InvalidRequest, OutsideRoots, ToolError
from deputy_agents.domain.event import Location, ToolKind
from deputy_agents.domain.preview import CommandPreview
from deputy_agents.domain.rule import AccessRequest, Action
from deputy_agents.files.place import PathKind, Place, leads_to_own_configuration
from deputy_agents.permission.file_access import read_access, write_access
from deputy_agents.shell.access import TOOL, RedirectTarget, required_access
from deputy_agents.shell.background import process_state, signal_name
from deputy_agents.shell.confinement import Confinement
from deputy_agents.shell.output import BoundedOutput
from deputy_agents.shell.process import ExitStatus, Launch, guarded_command
from deputy_agents.text import clean, cut, visible
from deputy_agents.tool.args import Args, ArgsTool, PathArgs
from deputy_agents.tool.base import CommandContext, Prepared, ToolContext, ToolOutput

MAX_COMMAND = 20_000
MAX_TIMEOUT = 24 * 3600.0
FOR_MODEL = 16 * 1024
"""Bytes of each end of the output that the model reads."""
FOR_USER = 128 * 1024
"""Bytes of each end of the output that the transcript shows."""
STORED = 4 * 1024 * 1024
"""Bytes of each end of the output that are stored for reading the complete output."""

_LIVE_INTERVAL = 0.1
"""Seconds between live updates of the output."""
_LIVE_CHARS = 4096
_MAX_TITLE = 200


class ShellArgs(Args):
    command: Annotated[
        str, Field(min_length=1, max_length=MAX_COMMAND, description="Line of bash. It has no terminal and no input.")
    ]
    cwd: Annotated[str, Field(description="Working directory, inside the workspace.")] = "."
    timeout: Annotated[
        float | None,
        Field(gt=0, le=MAX_TIMEOUT, description="Seconds until the command is ended. Default: 120, or a user setting."),
    ] = None
    background: Annotated[
        bool,
        Field(
            description="Run in the background, for servers and watchers. You get a message when it ends. See the tool "
            "process."
        ),
    ] = False
    _folder: PathArgs | None = PrivateAttr(default=None)
    _unasked: Mapping[str, str] = PrivateAttr(default_factory=dict[str, str])

    @field_validator("command")
    @classmethod
    def _check_characters(cls, command: str) -> str:
        if "\0" in command or not command.strip():
            raise ValueError("must not be blank or contain a null character")
        try:
            command.encode()
        except UnicodeEncodeError:
            raise ValueError("contains lone surrogates, which are not characters") from None
        return command

    @property
    def folder(self) -> PathArgs:
        """``cwd`` as a path input; always the same object, which stores the resolved place."""
        self._folder = self._folder or PathArgs(path=self.cwd)
        return self._folder

    @property
    def unasked(self) -> Mapping[str, str]:
        """Variables for the command if it runs without being asked about."""
        return self._unasked

    @unasked.setter
    def unasked(self, variables: Mapping[str, str]) -> None:
        self._unasked = variables


class Shell(ArgsTool[ShellArgs]):
    """Runs a line of bash. The gate decides about every command in it; all processes that it starts end with it."""

    def __init__(self) -> None:
        super().__init__(
            TOOL,
            ToolKind.EXECUTE,
            ShellArgs,
            "Runs a line of bash in the workspace and returns its output and exit code. All processes that it starts "
            "are ended when it ends; use background for processes that must keep running. Prefer the file tools for "
            "reading, searching and changing files.",
        )

    async def prepare(self, args: ShellArgs, context: ToolContext) -> Prepared:
        place = await args.folder.locate(context)
        if place.kind is not PathKind.FOLDER:
            raise ToolError(f"cwd: {context.workspace.shown(place, context.cwd)} is not a folder.")
        passed = context.commands.settings.env if context.commands else ()
        find_access = partial(
            required_access,
            args.command,
            place.path,
            context.session_folder or context.cwd,
            context.workspace.roots,
            passed,
            reading=context.commands is not None and context.commands.reading,
        )
        required = await to_thread.run_sync(find_access)
        args.unasked = required.variables
        files = [await _redirect_access(target, place.path, context) for target in required.targets]
        folders = [await _folder_access(folder, context) for folder in required.folders]
        return Prepared(
            cut(visible(args.command.strip()), _MAX_TITLE),
            [*required.access, *(required.part(request) for request, _ in files), *map(required.part, folders)],
            tuple(location for _, location in files if location is not None),
            CommandPreview("\n".join(map(visible, args.command.split("\n"))), str(place.path)),
            confinable=await _is_confinable(context),
        )

    async def run(self, args: ShellArgs, context: ToolContext) -> ToolOutput:
        commands = _commands(context)
        place = await args.folder.relocate(context)
        async with context.workspace.working_directory(place) as cwd:
            launch = _launch(args, cwd, place, context, commands)
            if args.background:
                started = await commands.background_processes.start(
                    commands.agent_id, launch, args.timeout, context.cover
                )
                how = "use the tool process to read its output or to stop it. You will get a message when it ends"
                return ToolOutput(f"Running in the background as {started.process_id}; {how}.")
            async with context.cover():
                try:
                    return await _run(launch, args.timeout or commands.settings.timeout, context)
                except ToolError as error:
                    if not context.confined:
                        raise
                    return ToolOutput(str(error), is_error=True, refused=(f"start: {error}",))


class ProcessArgs(Args):
    process_id: Annotated[str | None, Field(description="Id of the process; omit it to list all.")] = None
    stop: Annotated[bool, Field(description="Stop the process and everything that it has started.")] = False


class ProcessTool(ArgsTool[ProcessArgs]):
    """Lists, reads and stops the agent's background processes."""

    def __init__(self) -> None:
        super().__init__(
            "process",
            ToolKind.OTHER,
            ProcessArgs,
            "Lists your background processes; with process_id, returns the state and output of one and can stop it.",
        )

    async def prepare(self, args: ProcessArgs, context: ToolContext) -> Prepared:
        del context
        target = f"stop {args.process_id}" if args.process_id and args.stop else args.process_id or ""
        return Prepared(target, (AccessRequest(self.name, Action.SESSION, target),))

    async def run(self, args: ProcessArgs, context: ToolContext) -> ToolOutput:
        commands = _commands(context)
        processes = commands.background_processes
        visible_processes = processes.list(None if commands.all_agents else commands.agent_id)
        if args.process_id is None:
            states = [process_state(process) for process in visible_processes]
            ended = tuple(process.process_id for process in visible_processes if process.code is not None)
            return ToolOutput(json.dumps({"processes": states}, ensure_ascii=False), reports=ended)
        if args.process_id not in [process.process_id for process in visible_processes]:
            raise ToolError(f"You have no background process {args.process_id}. Omit process_id to list all.")
        try:
            if args.stop:
                await processes.stop(args.process_id, commands.agent_id)
            output = processes.output(args.process_id, FOR_MODEL)
            process = processes.get(args.process_id)
        except InvalidRequest as error:
            raise ToolError(str(error)) from None
        ended = (process.process_id,) if process.code is not None else ()
        return ToolOutput(json.dumps(process_state(process) | {"output": output}, ensure_ascii=False), reports=ended)


def _commands(context: ToolContext) -> CommandContext:
    if context.commands is None:
        raise ToolError("Running commands is not available.")
    return context.commands


def _launch(args: ShellArgs, cwd: str, place: Place, context: ToolContext, commands: CommandContext) -> Launch:
    settings = commands.settings
    confinement = Confinement(
        context.workspace.roots,
        readable=tuple(root.path for root in context.workspace.further),
        private=context.confined,
        hosts=settings.sandbox_hosts,
        private_hosts=commands.private_hosts,
    )
    is_sandboxed = settings.sandbox or context.confined
    variables = () if context.confined else settings.env
    launch = Launch(
        args.command, cwd, str(place.path), variables, confinement if is_sandboxed else None, settings.isolated
    )
    return launch if context.approved else replace(launch, added=args.unasked)


async def _is_confinable(context: ToolContext) -> bool:
    """Whether the user lets commands run in the sandbox in place of asking, and the sandbox holds on this machine."""
    if context.commands is None or not context.commands.settings.auto_approve_sandboxed:
        return False
    from deputy_agents.shell.trust import trust_problem  # few users need it

    return await to_thread.run_sync(trust_problem) is None


async def _redirect_access(
    target: RedirectTarget, cwd: Path, context: ToolContext
) -> tuple[AccessRequest, Location | None]:
    """The access that a redirect requires, which is what the file tools require for the same file."""
    tool = "write_file" if target.writes else "read_file"
    if target.path is None:
        return AccessRequest(tool, Action.OUTSIDE, target.shown, known="", computed=True), None
    try:
        place = await context.workspace.locate(target.path, cwd, exact=True)
    except OutsideRoots:
        own = target.writes and await to_thread.run_sync(leads_to_own_configuration, cwd / target.path)
        return AccessRequest(tool, Action.CONFIGURE if own else Action.OUTSIDE, str(cwd / target.path)), None
    (request,) = (write_access if target.writes else read_access)(tool, place)
    return request, Location(str(place.path))


async def _folder_access(folder: str, context: ToolContext) -> AccessRequest:
    """The access that reading every file below ``folder`` requires: which files those are is only known when the
    command runs, so each rule that may apply to one of them asks."""
    place = await context.workspace.locate(folder, context.cwd, exact=True)
    subject, whole = (f"{name}/" if name not in ("", ".") else "" for name in (place.subject, str(place.path)))
    also = ((f"{whole}**", whole),)
    return AccessRequest("read_file", Action.READ, f"{subject}**", known=subject, also=also)


async def _run(launch: Launch, timeout: float, context: ToolContext) -> ToolOutput:
    """Run a command until it ends or times out."""
    output = BoundedOutput(STORED)
    ended: ExitStatus | None = None
    async with guarded_command(launch) as running:
        with anyio.move_on_after(timeout):
            async for chunk in _show_live(running.output, context.show_output):
                output.add(chunk)
            ended = await running.wait()
        timed_out = ended is None
        ended = ended or await running.end()
        failed = timed_out or ended.code != 0
        refused = running.refusals if failed else ()
    notes = ["ran in the sandbox"] if context.confined else []
    notes += [f"timed out after {timeout:g} s and was ended" if timed_out else _exit_note(ended.code)]
    if ended.left:
        were, them = ("was", "it") if ended.left == 1 else ("were", "them")
        notes.append(
            f"{_processes(ended.left)} that it left running {were} ended; use background to keep {them} running"
        )
    if ended.survivors:
        notes.append(f"{_processes(ended.survivors)} could not be ended")
    if refused:
        notes.append(f"the sandbox did not allow it to {'; to '.join(map(visible, refused))}")
    end = "".join(f"\n[{note}]" for note in notes if note)
    content, shown = (f"{output.text(half)}{end}".strip() for half in (FOR_MODEL, FOR_USER))
    full = f"{await off_loop(output.size, output.text)}{end}".strip()
    return ToolOutput(
        content or "(no output)",
        is_error=failed,
        shown=shown if output.size > 2 * FOR_MODEL else None,
        full=full if output.size > 2 * FOR_USER else None,
        refused=refused if context.confined else (),
    )


async def _show_live(stream: ByteReceiveStream, show: Callable[[str], None]) -> AsyncGenerator[bytes]:
    """Yield the chunks of the output, and pass it to ``show`` every ``_LIVE_INTERVAL`` seconds, at most the last
    ``_LIVE_CHARS`` characters at a time."""
    decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
    pending, shown_at = "", -math.inf
    try:
        while True:
            timeout = _LIVE_INTERVAL if pending else math.inf
            chunk: bytes | None = None
            with anyio.move_on_after(timeout):
                chunk = await stream.receive()
            if chunk is not None:
                yield chunk
                pending = (pending + decode(chunk))[-_LIVE_CHARS:]
            if pending and (chunk is None or anyio.current_time() - shown_at >= _LIVE_INTERVAL):
                show(clean(pending))
                pending, shown_at = "", anyio.current_time()
    except anyio.EndOfStream:
        pass
    finally:
        if pending:
            show(clean(pending))


def _exit_note(code: int) -> str:
    if code >= 0:
        return f"exit code {code}" if code else ""
    return f"ended by signal {signal_name(-code)}"


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"
