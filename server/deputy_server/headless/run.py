"""``deputy run``: one prompt, without an editor, in this process."""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.message import Text
from deputy_agents.domain.rule import DecisionKind
from deputy_agents.model.offline.model import OFFLINE
from deputy_agents.permission.rule_patterns import parse_rule
from deputy_agents.ports.store import SessionQuery
from deputy_agents.session.builder import TOOL_NAMES
from deputy_agents.session.runtime import Runtime
from deputy_agents.session.session import Session
from deputy_protocol.settings import Settings
from deputy_server.app import App
from deputy_server.headless.options import Exit, RunOptions
from deputy_server.headless.progress import Asker, Drawn, JsonLines, Progress, Unwritten, write
from deputy_server.headless.run_outcome import RunOutcome
from deputy_server.storage import whole_id
from deputy_server.terminal import draw
from deputy_server.terminal.output import Output, discard
from deputy_server.terminal.screen import LiveScreen, PlainScreen


def run(options: RunOptions, settings: Settings, folder: Path) -> int:
    """Runs one prompt in ``folder``; the exit code. Whatever it started has ended when it returns.

    Raises:
        DeputyError: something in ``options`` cannot be done; nothing has happened.
    """
    return anyio.run(_Run(options, settings, folder).main)


class _Run:
    def __init__(self, options: RunOptions, settings: Settings, folder: Path) -> None:
        self._options = options
        self._settings = settings
        self._folder = folder
        self._interrupted = False
        self._told: set[str] = set()
        self._output = Output(stderr=True, highlight=False)

    async def main(self) -> int:
        code = Exit.FAILED
        async with await to_thread.run_sync(App) as app:
            app.configure(self._settings)
            session = await _open(app.runtime, self._options, self._folder)
            async with anyio.create_task_group() as tasks:
                notices = (app.store_notice, app.notice, self._unknown_price(session), self._unknown_tools(session))
                code = await self._play(session, notices, tasks)
                tasks.cancel_scope.cancel()
            if code is Exit.USAGE and self._options.fresh:
                await app.runtime.delete(session.id)  # nothing has been said in it
        return Exit.CANCELLED if self._interrupted else code

    async def _play(self, session: Session, notices: Sequence[str | None], tasks: TaskGroup) -> Exit:
        outcome = RunOutcome(session.primary_id)
        with anyio.CancelScope() as unread:
            self._output.on_unread = unread.cancel
            asking = anyio.CancelScope()
            tasks.start_soon(self._watch_signals, session, asking, unread, tasks)
            live = self._live(session, tasks)
            progress = self._progress(live)
            with live.running() if live else nullcontext():
                for notice in filter(None, notices):
                    progress.note(notice)
                if live:
                    session.attach(Asker(session.id, live))
                    tasks.start_soon(live.run)
                try:
                    await self._follow(session, progress, outcome, asking if live else None)
                except Unwritten as lost:
                    return _forget_output(lost)
                except InvalidRequest as error:  # of the prompt; nothing has happened
                    progress.note(str(error))
                    return Exit.USAGE
            if session.store_problem:
                progress.note(session.store_problem)
            self._sum_up(progress, outcome)
            try:
                return self._answered(outcome)
            except Unwritten as lost:
                return _forget_output(lost)
        return Exit.FAILED

    def _unknown_price(self, session: Session) -> str | None:
        """What the user has to know of a budget that bounds nothing."""
        model = session.record.model
        priced = session.settings.cards.card(model).price is not None
        if self._options.budget is None or priced or model == OFFLINE:
            return None
        return f"The price of {model} is not known, so --budget does not bound it; --max-turns does."

    def _unknown_tools(self, session: Session) -> str | None:
        """What the user has to know of rules that are about nothing."""
        known = {*TOOL_NAMES, *session.catalogue.definitions, "mcp"}
        named = (parse_rule(text, DecisionKind.DENY).tool for text in (*self._options.allow, *self._options.deny))
        odd = [tool for tool in named if not (tool in known or tool.startswith("mcp__") or tool.endswith("*"))]
        return f"There is no tool {' or '.join(odd)}: what --allow or --deny say of it is of no use." if odd else None

    def _live(self, session: Session, tasks: TaskGroup) -> LiveScreen | None:
        """The picture that moves, where there is a person to look at it and to ask."""
        person = os.name == "posix" and self._output.is_terminal and sys.stdin.isatty()
        if self._options.json or not person or self._output.is_dumb_terminal:
            return None
        return LiveScreen(self._output, lambda agent_id: tasks.start_soon(session.cancel_agent, agent_id), None)

    def _progress(self, live: LiveScreen | None) -> Progress:
        if self._options.json:
            return JsonLines()
        return Drawn(live or PlainScreen(self._output, auto=lambda _: None, answers=not self._answers_there))

    async def _follow(
        self, session: Session, progress: Progress, outcome: RunOutcome, asking: anyio.CancelScope | None
    ) -> None:
        """Says the prompt, and shows what happens until nothing more does. Where there is a person, it first asks about
        MCP servers, in ``asking``: an answer that comes after the only prompt would be of no use."""
        events = session.subscribe(0 if self._options.fresh else None)
        since = session.cancels
        try:
            await session.refresh()
            self._tell_problems(session, progress)
            if asking is not None:
                with asking:
                    await session.ask_about_servers()
            turn = await session.prompt((Text(self._options.prompt),), since=since)
            self._tell_problems(session, progress)
            async for event in events:
                outcome.take(event)
                await progress.event(event)
                if outcome.quiet and not session.busy:
                    await turn.result()  # hooks at its end may begin another
                    if not session.busy:
                        return
        finally:
            events.close()

    def _tell_problems(self, session: Session, progress: Progress) -> None:
        """Each once."""
        for text in map(str, session.problems):
            if text not in self._told:
                self._told.add(text)
                progress.note(text)

    def _sum_up(self, progress: Progress, outcome: RunOutcome) -> None:
        for title in outcome.refused:
            progress.note(f"Not permitted: {draw.one_line(title)}")
        if outcome.unasked:
            progress.note("Nobody could be asked here. Permit it beforehand, as in --allow 'edit_file(docs/**)'.")
        for name in outcome.unstarted:
            progress.note(f"The MCP server {name} was not started; `deputy mcp approve {name}` lets it run here.")
        if outcome.error is not None:
            progress.note(draw.one_line(" ".join(filter(None, (outcome.error.message, outcome.error.action)))))
        elif outcome.code is Exit.FAILED:
            progress.note(f"The turn ended early: {outcome.reason.replace('_', ' ')}.")

    def _answered(self, outcome: RunOutcome) -> Exit:
        if outcome.answer and self._answers_there:
            write(outcome.answer)
        return outcome.code

    @property
    def _answers_there(self) -> bool:
        """The answer goes to standard output by itself, where a script may want it."""
        return not self._options.json and not sys.stdout.isatty()

    async def _watch_signals(
        self, session: Session, asking: anyio.CancelScope, everything: anyio.CancelScope, tasks: TaskGroup
    ) -> None:
        """The first signal cancels the session in good order, a second one ends the run at once."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                if self._interrupted:
                    everything.cancel()
                    return
                self._interrupted = True
                asking.cancel()
                tasks.start_soon(session.cancel)


async def _open(runtime: Runtime, options: RunOptions, folder: Path) -> Session:
    """The session to work in: a new one, or one of before."""
    session_id = options.session
    if options.latest:
        page = await runtime.sessions(SessionQuery(cwd=str(folder), limit=1))
        if not page.records:
            raise InvalidRequest("--continue: there is no session of this folder yet; leave it out to begin one.")
        session_id = page.records[0].session_id
    if session_id is None:
        return await runtime.new_session(cwd=folder, roots=(folder,), agent=options.agent)
    session_id = whole_id((await runtime.sessions(SessionQuery())).records, session_id)
    session = await runtime.load(session_id, roots=(folder,))
    if options.model is not None:
        session.set_model(options.model)
    if options.mode is not None:
        session.permission_mode = options.mode
    return session


def _forget_output(lost: Unwritten) -> Exit:
    """Nothing can be written to standard output any more. Of a reader that has had enough nothing is said, as
    everywhere."""
    discard(sys.stdout.fileno())
    if lost.reason:
        sys.stderr.write(f"Standard output cannot be written: {lost.reason}.\n")
    return Exit.FAILED
