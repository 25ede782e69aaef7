"""Runs the demo: starts a server process, a client and a screen, and stops them."""

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
from deputy_protocol.version import VERSION
from deputy_server.demo import sample, tour
from deputy_server.demo.client import Client, ClientError, ServerEnded, connect
from deputy_server.demo.session import Sessions, initialize_params, stop_agent
from deputy_server.documentation import page
from deputy_server.icons import FAILED
from deputy_server.terminal import draw, keys
from deputy_server.terminal.output import Output, command_name
from deputy_server.terminal.screen import AutoApproval, LiveScreen, PlainScreen, Screen, in_folder
from deputy_server.terminal.view import View

INTERRUPTED = 130
TURN_TIMEOUT = 900.0
"""Seconds for a turn that needs no answer from a user."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """``approve`` approves all permission requests; ``ask`` allows asking the user."""

    prompt: str | None = None
    model: str | None = None
    approve: bool = False
    ask: bool = True


def run(options: DemoOptions, workspace: Path) -> int:
    """Run the demo and return the exit code. All its files are in a temporary folder that is removed afterwards."""
    with TemporaryDirectory(prefix="deputy-demo-") as folder:
        sample_folder = Path(folder).resolve() / "sample"
        sample.write(sample_folder)
        env = {**os.environ, "DEPUTY_STATE": str(Path(folder) / "state")}
        return anyio.run(_Demo(options, workspace.resolve(), sample_folder, env).run)


class _Demo:
    def __init__(self, options: DemoOptions, workspace: Path, sample_folder: Path, env: dict[str, str]) -> None:
        self._options = options
        self._workspace = workspace
        self._sample = sample_folder
        self._env = env
        self._console = Output(highlight=False)
        self._client: Client | None = None
        self._interrupted = False

    async def run(self) -> int:
        started, code = monotonic(), INTERRUPTED
        async with anyio.create_task_group() as tasks:
            scope = anyio.CancelScope()
            self._console.on_unread = scope.cancel
            tasks.start_soon(self._watch_signals, scope)
            with scope:
                code = await self._run(started)
            tasks.cancel_scope.cancel()
        if self._console.quiet:
            return 1
        if self._interrupted:
            self._console.print("Stopped. The server and all of its agents have ended.")
            return INTERRUPTED
        return code

    async def _watch_signals(self, scope: anyio.CancelScope) -> None:
        """The first signal stops the demo in order, the second one immediately."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                if self._interrupted and self._client is not None:
                    self._client.kill()
                self._interrupted = True
                scope.cancel()

    async def _run(self, started: float) -> int:
        failures: list[str] = []
        async with anyio.create_task_group() as tasks:
            screen = self._screen(lambda agent_id: tasks.start_soon(self._stop, agent_id))
            self._sessions = Sessions(screen)
            live = screen.running() if isinstance(screen, LiveScreen) else nullcontext()
            with live:
                if isinstance(screen, LiveScreen):
                    tasks.start_soon(screen.run)
                await self._run_with_server(screen, failures)
            tasks.cancel_scope.cancel()
        self._print_summary(failures, monotonic() - started)
        return 1 if failures else 0

    def _screen(self, stop_soon: Callable[[str], object]) -> Screen:
        if keys.available():
            asks = self._options.ask and not self._options.approve
            return LiveScreen(self._console, stop_soon, None if asks else self._auto_approval())
        match self._options:
            case DemoOptions(approve=True):
                policy = "everything is approved (--yes)"
            case DemoOptions(prompt=None):
                policy = "edits in the sample project are approved, nothing else"
            case _:
                policy = "nothing is approved; add --yes to approve everything"
        self._console.print(f"No terminal for approvals: {policy}.", soft_wrap=True)
        return PlainScreen(self._console, self._auto_approval())

    def _auto_approval(self) -> AutoApproval:
        if self._options.approve:
            return lambda _: "by --yes"
        return in_folder(self._sample)

    async def _run_with_server(self, screen: Screen, failures: list[str]) -> None:
        """Start the server, run the tour or the prompt, and stop the server. Adds to ``failures`` what went wrong."""
        prompted = self._options.prompt is not None
        folders = {self._workspace.name or "workspace": self._workspace}
        if not prompted:
            folders["sample"] = self._sample
        try:
            async with connect(
                # -P: the server runs in the user's folder, whose modules must not be imported instead of ours.
                [sys.executable, "-P", "-m", "deputy_server", "serve", "--stdio"],
                cwd=self._workspace,
                env=self._env,
                handlers={"deputy/permission/request": self._sessions.permission},
                on_notification=self._sessions.on_notification,
            ) as client:
                self._client = client
                await client.request("initialize", initialize_params(folders, self._options.model, VERSION))
                await client.notify("initialized")
                asks = isinstance(screen, LiveScreen) and self._options.ask
                timeout = None if asks else TURN_TIMEOUT
                context = tour.DemoContext(client, self._sessions, screen, timeout, failures)
                screen.show(Text.assemble(("Deputy ", "bold"), f"{VERSION} in {self._workspace}"))
                await self._tour_or_prompt(context)
        except (ClientError, TimeoutError) as error:
            failure = str(error) or "the server did not respond in time"
            if self._client is not None and self._client.log and not isinstance(error, ServerEnded):
                failure += f"; its log ends with:\n{self._client.log}"
            failures.append("\n".join(draw.lines_of(failure)))

    def _tour_or_prompt(self, context: tour.DemoContext) -> Awaitable[None]:
        if self._options.prompt is not None:
            return tour.run_prompt(context, self._workspace, self._options.prompt)
        return tour.run_tour(context, self._workspace, self._sample)

    async def _stop(self, agent_id: str) -> None:
        """Stop a sub-agent when the user presses its key."""
        session_id = next((id for id, view in self._sessions.views.items() if view.block_of(agent_id)), None)
        if self._client is not None and session_id is not None:
            try:
                await stop_agent(self._client, session_id, agent_id)
            except (ClientError, TimeoutError) as error:
                self._console.print(Text(draw.one_line(str(error)), style="red"))

    def _print_summary(self, failures: list[str], seconds: float) -> None:
        views = list(self._sessions.views.values())
        lines = [*summary(views, self._sessions, seconds), *(f"{FAILED} {failure}" for failure in failures)]
        hints = [f"See {page('troubleshooting')}"] if failures else next_steps(self._options, views)
        self._console.print(Text("\n".join(["", *lines, "", *hints])), soft_wrap=True)


def summary(views: list[View], sessions: Sessions, seconds: float) -> list[str]:
    """The totals of the demo."""
    blocks = [block for view in views for block in view.blocks]
    ends = Counter(block.status for block in blocks)
    statuses = (AgentStatus.COMPLETED, AgentStatus.CANCELLED, AgentStatus.FAILED)
    ended = ", ".join(f"{ends[status]} {status.value}" for status in statuses if ends[status])
    used = sum(view.tokens for view in views) + sum(block.tokens for block in blocks)
    calls = sum(block.call_count for block in blocks)
    answers = sessions.answers
    unanswered = f", {answers.unanswered} without an answer" if answers.unanswered else ""
    agents = f"{len(blocks)}{ended and f' ({ended})'}"
    return [
        f"Sub-agents: {agents} · {calls} tool calls · {draw.tokens(used)} tokens · {seconds:.0f} s",
        f"Approvals:  {answers.approved} approved, {answers.denied} denied{unanswered}",
    ]


def next_steps(options: DemoOptions, views: list[View]) -> list[str]:
    """Suggestions for a new user."""
    steps = [(f'{command_name()} demo "where are the settings read?"', "ask about the current folder")]
    if options.model is None and any(view.model == "offline" for view in views):
        steps.append(("export ANTHROPIC_API_KEY=...", "use a language model"))
    editors = [("VS Code", page("vscode")), ("Neovim", page("neovim")), ("other editors", page("any-editor"))]
    return [*_table("Next:", steps), "", *_table("Now in your editor:", editors)]


def _table(title: str, rows: list[tuple[str, str]]) -> list[str]:
    width = max(len(first) for first, _ in rows)
    return [title, *(f"  {first:<{width}}   {second}" for first, second in rows)]
