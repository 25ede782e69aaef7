"""The demo as a whole: a real server in a process of its own, a client, a screen, and an end."""

import os
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import anyio
from rich.text import Text

from deputy_protocol.agent import AgentStatus
from deputy_server.demo import sample, story
from deputy_server.demo.client import Client, ClientError, ServerGone, connect
from deputy_server.demo.session import Sessions, initialize_params, stop_agent
from deputy_server.icons import FAILED
from deputy_server.terminal import draw, keys
from deputy_server.terminal.output import Output, command_name
from deputy_server.terminal.screen import Auto, LiveScreen, PlainScreen, Screen, in_folder
from deputy_server.terminal.view import View
from deputy_server.version import VERSION

INTERRUPTED = 130
TURN_TIMEOUT = 900.0
"""Seconds for a turn in which no person takes part."""


@dataclass(frozen=True, slots=True)
class Options:
    """``approve`` answers every question with yes; ``ask`` is false where nobody is to be asked."""

    prompt: str | None = None
    model: str | None = None
    approve: bool = False
    ask: bool = True


def run(options: Options, workspace: Path) -> int:
    """Plays the demo; the exit code. Everything it makes is in a temporary folder that is gone afterwards."""
    with TemporaryDirectory(prefix="deputy-demo-") as folder:
        sample_folder = Path(folder).resolve() / "sample"
        sample.write(sample_folder)
        env = {**os.environ, "DEPUTY_STATE": str(Path(folder) / "state")}
        return anyio.run(_Demo(options, workspace.resolve(), sample_folder, env).play)


class _Demo:
    def __init__(self, options: Options, workspace: Path, sample_folder: Path, env: dict[str, str]) -> None:
        self._options = options
        self._workspace = workspace
        self._sample = sample_folder
        self._env = env
        self._console = Output(highlight=False)
        self._client: Client | None = None
        self._interrupted = False

    async def play(self) -> int:
        started, code = monotonic(), INTERRUPTED
        async with anyio.create_task_group() as tasks:
            scope = anyio.CancelScope()
            self._console.on_unread = scope.cancel
            tasks.start_soon(self._watch_signals, scope)
            with scope:
                code = await self._play(started)
            tasks.cancel_scope.cancel()
        if self._console.quiet:
            return 1
        if self._interrupted:
            self._console.print("Stopped; the server and all of its agents have ended.")
            return INTERRUPTED
        return code

    async def _watch_signals(self, scope: anyio.CancelScope) -> None:
        """The first signal ends the demo in good order, a second one at once."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                if self._interrupted and self._client is not None:
                    self._client.kill()
                self._interrupted = True
                scope.cancel()

    async def _play(self, started: float) -> int:
        missed: list[str] = []
        async with anyio.create_task_group() as tasks:
            screen = self._screen(lambda agent_id: tasks.start_soon(self._stop, agent_id))
            self._sessions = Sessions(screen)
            live = screen.running() if isinstance(screen, LiveScreen) else nullcontext()
            with live:
                if isinstance(screen, LiveScreen):
                    tasks.start_soon(screen.run)
                await self._perform(screen, missed)
            tasks.cancel_scope.cancel()
        self._sum_up(missed, monotonic() - started)
        return 1 if missed else 0

    def _screen(self, stop_soon: Callable[[str], object]) -> Screen:
        if keys.available():
            auto = None if self._options.ask and not self._options.approve else self._auto()
            return LiveScreen(self._console, stop_soon, auto)
        match self._options:
            case Options(approve=True):
                told = "everything is approved, as --yes says"
            case Options(prompt=None):
                told = "changes of the demo's own sample are approved, all others are refused"
            case _:
                told = "what needs your approval is shown, and refused"
        self._console.print(f"No terminal to ask at: {told}.", soft_wrap=True)
        return PlainScreen(self._console, self._auto())

    def _auto(self) -> Auto:
        if self._options.approve:
            return lambda _: "as --yes says"
        return in_folder(self._sample)

    async def _perform(self, screen: Screen, missed: list[str]) -> None:
        """Starts the server, plays, ends the server; adds to ``missed``, in words, what was not seen."""
        prompted = self._options.prompt is not None
        folders = {self._workspace.name or "workspace": self._workspace}
        if not prompted:
            folders["sample"] = self._sample
        try:
            async with connect(
                # -P: the server runs in the user's folder, whose modules must not be imported in place of our own.
                [sys.executable, "-P", "-m", "deputy_server", "serve", "--stdio"],
                cwd=self._workspace,
                env=self._env,
                handlers={"deputy/permission/request": self._sessions.permission},
                listen=self._sessions.hear,
            ) as client:
                self._client = client
                await client.request("initialize", initialize_params(folders, self._options.model, VERSION))
                await client.notify("initialized")
                asks = isinstance(screen, LiveScreen) and self._options.ask
                stage = story.Stage(client, self._sessions, screen, None if asks else TURN_TIMEOUT, missed)
                screen.show(Text.assemble(("Deputy ", "bold"), f"{VERSION} in {self._workspace}"))
                await self._story(stage)
        except (ClientError, TimeoutError) as error:
            told = str(error) or "the server did not answer in time"
            if self._client is not None and self._client.log and not isinstance(error, ServerGone):
                told += f"; its log ends with:\n{self._client.log}"
            missed.append("\n".join(draw.lines_of(told)))

    def _story(self, stage: story.Stage) -> Awaitable[None]:
        if self._options.prompt is not None:
            return story.one_turn(stage, self._workspace, self._options.prompt)
        return story.three_acts(stage, self._workspace, self._sample)

    async def _stop(self, agent_id: str) -> None:
        """Stops a child at the user's key."""
        session_id = next((id for id, view in self._sessions.views.items() if view.block_of(agent_id)), None)
        if self._client is not None and session_id is not None:
            try:
                await stop_agent(self._client, session_id, agent_id)
            except (ClientError, TimeoutError) as error:
                self._console.print(Text(draw.one_line(str(error)), style="red"))

    def _sum_up(self, missed: list[str], seconds: float) -> None:
        views = list(self._sessions.views.values())
        lines = [*summary(views, self._sessions, seconds), *(f"{FAILED} {line}" for line in missed)]
        hints = ["docs/troubleshooting.md may help."] if missed else next_steps(self._options, views)
        self._console.print(Text("\n".join(["", *lines, "", *hints])), soft_wrap=True)


def summary(views: list[View], sessions: Sessions, seconds: float) -> list[str]:
    """What happened, in figures."""
    blocks = [block for view in views for block in view.blocks]
    ends = Counter(block.status for block in blocks)
    kinds = (AgentStatus.COMPLETED, AgentStatus.CANCELLED, AgentStatus.FAILED)
    ended = ", ".join(f"{ends[status]} {status.value}" for status in kinds if ends[status])
    used = sum(view.tokens for view in views) + sum(block.tokens for block in blocks)
    calls = sum(block.call_count for block in blocks)
    unanswered = f", {sessions.tally.unanswered} without an answer" if sessions.tally.unanswered else ""
    children = f"{len(blocks)}{ended and f' ({ended})'}"
    return [
        f"Sub-agents: {children} · {calls} tool calls · {draw.tokens(used)} tokens · {seconds:.0f} s",
        f"Questions:  {sessions.tally.approved} approved, {sessions.tally.denied} denied{unanswered}",
    ]


def next_steps(options: Options, views: list[View]) -> list[str]:
    """What a newcomer may want to do now."""
    steps = [(f'{command_name()} demo "where are the settings read?"', "your own question, on the folder you are in")]
    if options.model is None and any(view.model == "offline" for view in views):
        steps.append(("export ANTHROPIC_API_KEY=...", "then agents use a real model"))
    steps.append(("docs/protocol.md", "how an editor speaks with the server"))
    width = max(len(step) for step, _ in steps)
    return ["Next:", *(f"  {step:<{width}}   {purpose}" for step, purpose in steps)]
