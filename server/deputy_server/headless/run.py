"""``deputy run``: one prompt without an editor, in this process."""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from deputy_agents.domain.errors import InvalidRequest, StoreError
from deputy_agents.domain.message import Text
from deputy_agents.domain.outcome import CancelReason
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import DecisionKind
from deputy_agents.domain.turn import Turn
from deputy_agents.model.offline.model import OFFLINE
from deputy_agents.permission.rule_patterns import parse_rule
from deputy_agents.ports.store import SessionQuery
from deputy_agents.session.clients import ClientSettings
from deputy_agents.session.runtime import Runtime
from deputy_agents.session.session import Session
from deputy_agents.text import cut, visible
from deputy_protocol.settings import Settings
from deputy_server.app import App
from deputy_server.headless.options import Exit, RunOptions
from deputy_server.headless.progress import (
    JsonLines,
    OutputClosed,
    Progress,
    ScreenPermissionClient,
    ScreenProgress,
    write,
)
from deputy_server.headless.run_outcome import RunOutcome
from deputy_server.prompting import IncomingPrompt
from deputy_server.storage import resolve_id
from deputy_server.terminal import draw, keys
from deputy_server.terminal.output import Output, discard
from deputy_server.terminal.screen import LiveScreen, PlainScreen

_MODES = (PermissionMode.PLAN, PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS)
"""The modes that a key goes through."""


def run(options: RunOptions, settings: Settings, folder: Path) -> int:
    """Run one prompt in ``folder`` and return the exit code. Everything that was started has ended when it returns.

    Raises:
        DeputyError: ``options`` are invalid; nothing was started.
    """
    return anyio.run(_Runner(options, settings, folder).main)


class _Runner:
    def __init__(self, options: RunOptions, settings: Settings, folder: Path) -> None:
        self._options = options
        self._settings = settings
        self._folder = folder
        self._interrupted = False
        self._output = Output(stderr=True, highlight=False)

    async def main(self) -> int:
        code = Exit.FAILED
        async with await to_thread.run_sync(App) as app:
            client = app.connect(self._settings)
            if app.store_notice and (self._options.latest or self._options.session):
                raise StoreError(app.store_notice)
            session = await _open(app.runtime, client.settings, self._options, self._folder)
            try:
                await self._check_tools(session)
            except InvalidRequest:
                if self._options.fresh:
                    await app.runtime.delete(session.id)  # it is empty
                raise
            session.turns.holds_queue = True  # this run is for its own prompt
            async with anyio.create_task_group() as tasks:
                notices = (app.store_notice, client.notice, *client.unknown, self._unknown_price(session))
                code = await self._run(session, notices, tasks)
                tasks.cancel_scope.cancel()
            if code is Exit.USAGE and self._options.fresh:
                await app.runtime.delete(session.id)  # it is empty
        return Exit.CANCELLED if self._interrupted else code

    async def _run(self, session: Session, notices: Sequence[str | None], tasks: TaskGroup) -> Exit:
        outcome = RunOutcome(session.primary_id)
        with anyio.CancelScope() as run_scope:
            self._output.on_unread = run_scope.cancel
            server_approvals = anyio.CancelScope()
            tasks.start_soon(self._watch_signals, session, server_approvals, run_scope, tasks)
            live = self._live(session, tasks)
            progress = self._progress(live)
            with live.running() if live else nullcontext():
                for notice in filter(None, notices):
                    progress.note(notice)
                if live:
                    session.inbox.attach(ScreenPermissionClient(session.id, live))
                    tasks.start_soon(live.run)
                front_end = _FrontEnd(session, progress, server_approvals if live else None)
                try:
                    await self._follow(front_end, outcome)
                except OutputClosed as error:
                    return _discard_output(error)
                except InvalidRequest as error:  # the prompt was not accepted
                    progress.note(str(error))
                    return Exit.USAGE
            if session.keeper.store_problem:
                front_end.notice(session.keeper.store_problem, session.keeper.outage)
            self._summarize(progress, outcome)
            try:
                return self._write_answer(outcome)
            except OutputClosed as error:
                return _discard_output(error)
        return Exit.FAILED

    def _unknown_price(self, session: Session) -> str | None:
        """A note if the budget has no effect."""
        model = session.record.model
        priced = session.host.settings.cards.card(model).price is not None
        if self._options.budget is None or priced or model == OFFLINE:
            return None
        return f"--budget has no effect: the price of {model} is unknown. Use --max-turns instead."

    async def _check_tools(self, session: Session) -> None:
        """
        Raises:
            InvalidRequest: an option names a tool that does not exist: a misspelled denial would deny nothing.
        """
        await session.refresh()
        for option, texts in (("--deny", self._options.deny), ("--allow", self._options.allow)):
            for text in texts:
                tool = parse_rule(text, DecisionKind.DENY).tool
                if (reason := session.customizations.unknown_tool(tool)) is not None:
                    raise InvalidRequest(f"{option} {cut(visible(text), 100)}: {reason}")

    def _live(self, session: Session, tasks: TaskGroup) -> LiveScreen | None:
        """The live screen, if there is a terminal with a user."""
        interactive = os.name == "posix" and self._output.is_terminal and sys.stdin.isatty()
        if self._options.json or not interactive or self._output.is_dumb_terminal:
            return None

        def approve_edits(request_id: str) -> None:
            with suppress(InvalidRequest):  # it is about a protected file, for instance, and stays open
                session.inbox.approve_edits(request_id)

        def stop(agent_id: str) -> None:
            tasks.start_soon(session.cancel_agent, agent_id)

        def next_mode() -> str:
            """Never to the mode that asks for nothing: that takes an option."""
            at = _MODES.index(session.permissions.mode) if session.permissions.mode in _MODES else -1
            session.permissions.mode = mode = _MODES[(at + 1) % len(_MODES)]
            return mode.value

        return LiveScreen(self._output, stop, None, approve_edits, next_mode, keys.discard_typed)

    def _progress(self, live: LiveScreen | None) -> Progress:
        if self._options.json:
            return JsonLines()
        return ScreenProgress(
            live or PlainScreen(self._output, auto_approval=lambda _: None, answers=not self._prints_answer)
        )

    async def _follow(self, front_end: "_FrontEnd", outcome: RunOutcome) -> None:
        """Send the prompt, and show events until nothing runs any more."""
        session = front_end.session
        incoming = IncomingPrompt(session, front_end)
        events = session.log.subscribe(0 if self._options.fresh else None)
        turns: list[Turn] = []
        failed: list[InvalidRequest | OutputClosed] = []
        async with anyio.create_task_group() as accepting:

            async def accept() -> None:
                try:
                    turns.append(await incoming.accept((Text(self._options.prompt),)))
                except InvalidRequest as error:
                    failed.append(error)
                    accepting.cancel_scope.cancel()

            accepting.start_soon(accept)  # what it waits for is shown meanwhile
            try:
                async for event in events:
                    outcome.take(event)
                    await front_end.progress.event(event)
                    if turns and outcome.quiet and session.turns.running is None:
                        await turns[0].result()  # hooks at its end may start another turn
                        if session.turns.running is None:
                            break
            except OutputClosed as error:
                failed.append(error)
                accepting.cancel_scope.cancel()
            finally:
                events.close()
        if failed:
            raise failed[0]

    def _summarize(self, progress: Progress, outcome: RunOutcome) -> None:
        for title in outcome.denied:
            progress.note(f"Not approved: {draw.one_line(title)}")
        if outcome.unattended:
            progress.note(
                "There was no terminal to ask for approval. Run this at a terminal, allow some changes, as in --allow "
                "'edit_file(docs/**)', or all edits: --permission-mode accept_edits."
            )
        for title in outcome.failed_edits:
            progress.note(f"Not made: {draw.one_line(title)}")
        for name in outcome.unapproved_servers:
            progress.note(f"The MCP server {name} was not started. To approve it, run: deputy mcp approve {name}")
        if outcome.error is not None:
            progress.note(draw.one_line(" ".join(filter(None, (outcome.error.message, outcome.error.action)))))
        elif outcome.code is Exit.FAILED:
            progress.note(f"The turn ended early: {outcome.reason.replace('_', ' ')}.")

    def _write_answer(self, outcome: RunOutcome) -> Exit:
        if outcome.answer and self._prints_answer:
            write(outcome.answer)
        return outcome.code

    @property
    def _prints_answer(self) -> bool:
        """Whether standard output gets only the answer, for scripts."""
        return not self._options.json and not sys.stdout.isatty()

    async def _watch_signals(
        self, session: Session, server_approvals: anyio.CancelScope, run_scope: anyio.CancelScope, tasks: TaskGroup
    ) -> None:
        """Cancel the session on the first signal, and end the run immediately on the second."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                if self._interrupted:
                    run_scope.cancel()
                    return
                self._interrupted = True
                server_approvals.cancel()
                tasks.start_soon(session.cancel)


@dataclass(frozen=True, slots=True)
class _FrontEnd:
    """The :class:`~deputy_server.prompting.FrontEnd` of a run. With a user at the terminal, MCP servers are approved
    within ``server_approvals`` before the prompt: there is no later prompt that could use them."""

    session: Session
    progress: Progress
    server_approvals: anyio.CancelScope | None
    _shown: set[str] = field(default_factory=set[str])

    def report_problems(self) -> None:
        for problem in self.session.problems:
            self.notice(str(problem))

    async def before_refresh(self) -> None:
        pass

    async def before_prompt(self) -> None:
        if self.server_approvals is not None:
            with self.server_approvals:
                await self.session.start_mcp_servers()

    def cancel_reason(self) -> CancelReason:
        return CancelReason.USER

    async def flush(self) -> None:
        """Nothing: the run itself shows the events."""

    def notice(self, text: str, occasion: str = "") -> None:
        """Show ``text``, once for each ``occasion``."""
        if (key := occasion + text) not in self._shown:
            self._shown.add(key)
            self.progress.note(text)


async def _open(runtime: Runtime, client: ClientSettings, options: RunOptions, folder: Path) -> Session:
    """Open the session of the run: a new or a stored one."""
    session_id = options.session
    if options.latest:
        page = await runtime.sessions(SessionQuery(cwd=str(folder), limit=1))
        if not page.records:
            raise InvalidRequest("--continue: this folder has no session yet. Start one without --continue.")
        session_id = page.records[0].session_id
    if session_id is None:
        return await runtime.new_session(client, cwd=folder, roots=(folder,), agent=options.agent)
    session_id = resolve_id((await runtime.sessions(SessionQuery())).records, session_id)
    session = await runtime.load(client, session_id, roots=(folder,))
    if options.model is not None or options.effort is not None:
        session.model_choice.change(options.model, options.effort)
    if options.mode is not None:
        session.permissions.mode = options.mode
    return session


def _discard_output(error: OutputClosed) -> Exit:
    """Discard standard output, which cannot be written any more. A reader that has closed the pipe is not an error."""
    discard(sys.stdout.fileno())
    if error.reason:
        sys.stderr.write(f"Standard output cannot be written: {error.reason}.\n")
    return Exit.FAILED
