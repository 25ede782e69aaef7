"""The tool calls of one agent: runs them, and publishes what clients see of each."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from deputy_agents.concurrency.off_loop import off_loop
from deputy_agents.domain.errors import DeputyError
from deputy_agents.domain.event import (
    Activity,
    CallStatus,
    InputRequest,
    Location,
    ToolCallStarted,
    ToolCallUpdated,
    ToolKind,
    ToolOutputDelta,
)
from deputy_agents.domain.file_change import Approval
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import Reply, ToolUse
from deputy_agents.domain.preview import EditDiff
from deputy_agents.domain.rule import AccessRequest, DecisionKind
from deputy_agents.domain.user_input import InputForm
from deputy_agents.permission.decide import Decision, decide
from deputy_agents.permission.inbox import InputOutcome
from deputy_agents.ports.store import OutputRecord
from deputy_agents.run.agent import Agent
from deputy_agents.run.effect import ReportCall
from deputy_agents.run.hook_runner import HookRunner
from deputy_agents.run.host import Host, emit
from deputy_agents.text import clean, cut, visible
from deputy_agents.tool.ask import ASK_USER
from deputy_agents.tool.base import CommandContext, Prepared, Tool, ToolContext, ToolOutput
from deputy_agents.tool.delegate import DelegationTool, SpawnSpec
from deputy_agents.tool.hook_change import adopt_hook_change

_CLOSED = (CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.CANCELLED)
_OUTPUT_TAIL = 8000
"""Characters of the latest output that the model reads when a call is stopped."""
_TARGETS = ("path", "pattern", "command", "url", "query", "name", "description", "instructions")
"""Input fields that name what a call is about, the most specific first."""
_MAX_TARGET = 200


@dataclass(slots=True)
class _Call:
    """A call that was announced to clients and has not ended."""

    output: str = ""
    """The tail of the output so far."""
    shown: str | None = None
    """What clients see in place of the result that the model reads."""
    locations: tuple[Location, ...] | None = None
    truncated: bool = False
    """The store keeps more output than the events."""
    diff: EditDiff | None = None
    """What an edit has changed."""


@dataclass(slots=True)
class ToolCalls:
    """Runs calls that the gate has let through. ``search`` is the web search of the agent's provider;
    ``waits_for_user`` wraps the waits of running calls for the user; ``notify`` runs the hooks for a notification in
    the background."""

    agent: Agent
    host: Host
    search: Callable[[str], Awaitable[Reply]]
    hooks: HookRunner
    waits_for_user: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    notify: Callable[[str, str], None] = lambda _kind, _message: None
    asking: set[str] = field(default_factory=set[str])
    """Running calls that wait for the user."""
    _announced: set[str] = field(default_factory=set[str])
    _open: dict[str, _Call] = field(default_factory=dict[str, _Call])

    def context(
        self, call_id: str = "", proposed: Mapping[Path, str] | None = None, approved: Approval = Approval.NONE
    ) -> ToolContext:
        """What a tool may use in the call ``call_id``, which ``approved`` has approved. ``proposed`` has texts that
        earlier calls of the reply propose."""
        agent, host = self.agent, self.host
        return ToolContext(
            workspace=host.workspace,
            cwd=agent.cwd,
            session_folder=_primary(agent).cwd,
            label=agent.info.label,
            marks=agent.marks,
            session=host.session_view(agent),
            proposed=dict(proposed or {}),
            record_change=partial(host.changing, agent, call_id, approved),
            search_web=self.search,
            may_read=self.allows,
            commands=CommandContext(
                agent.id,
                host.settings.shell,
                host.background_processes,
                all_agents=not agent.is_child,
                reading=host.settings.permissions.reading_commands,
                private_hosts=host.settings.web.allow_private,
            ),
            editors=host.editors,
            show_output=partial(self._show, call_id),
            approved=approved is Approval.USER,
            confined=approved is Approval.SANDBOX,
            cover=partial(host.covering, agent, call_id, approved),
            ask_input=partial(self._ask_input, call_id),
        )

    def allows(self, request: AccessRequest) -> bool:
        """Whether the agent may do this without asking."""
        return decide(self.host.policy(self.agent), request).kind is DecisionKind.ALLOW

    async def run(self, use: ToolUse, tool: Tool, args: Any, *, approved: Approval) -> ToolOutput:
        """Runs a call, which ``approved`` has approved, and the hooks after it. Errors of the tool become its
        output."""
        call = self._call(use.id)
        try:
            output = await tool.run(args, self.context(use.id, approved=approved))
        except DeputyError as error:
            output = ToolOutput(str(error), is_error=True)
        else:
            call.output = ""  # all of it is in the result
        if output.full is not None:
            call.truncated = True
            full = await off_loop(len(output.full), partial(clean, output.full))
            self.host.log.add_record(OutputRecord(self.agent.id, use.id, full))
        remarks = await self.hooks.after(use, output) if self.hooks.run_after(use.name) else ""
        if output.written is not None and self.hooks.run_after(use.name):
            remarks += await adopt_hook_change(output.written, self.context(use.id, approved=approved))
        if output.locations is not None:
            call.locations = output.locations
        if output.shown is not None:
            call.shown = output.shown + remarks
        call.diff = output.diff
        return replace(output, content=(output.content or "(nothing)") + remarks)

    def children(self, use: ToolUse, tool: DelegationTool, args: Any) -> tuple[SpawnSpec, ...] | ToolOutput:
        """The sub-agents that a delegation tool asks for, or the error that keeps it from starting any."""
        try:
            return tool.children(args, self.context(use.id))
        except DeputyError as error:
            return ToolOutput(str(error), is_error=True)

    async def _ask_input(self, call_id: str, form: InputForm) -> InputOutcome:
        """Asks the user for input that a running call needs."""
        agent = self.agent
        title = agent.title(f"{form.server or ASK_USER}({visible(form.about)})")
        request = InputRequest(new_id(), agent.ref, title, form, call_id)
        self.notify("elicitation_dialog", f"Deputy needs your input: {title}")
        async with self.asks_user(call_id):
            return await self.host.inbox.ask_input(request, agent.run)

    @asynccontextmanager
    async def asks_user(self, call_id: str) -> AsyncGenerator[None]:
        """Wraps the wait of a running call for the user."""
        self.asking.add(call_id)
        async with self.waits_for_user():
            try:
                yield
            finally:
                self.asking.discard(call_id)

    def output_so_far(self, call_id: str) -> str:
        """The tail of what a call that is stopped has shown of its output."""
        call = self._open.get(call_id)
        return call.output if call else ""

    # -- what clients see ------------------------------------------------------------------------------------------

    def title(self, use: ToolUse, prepared: Prepared | None = None) -> str:
        """``[label] tool(target)``."""
        target = prepared.target if prepared else _target(use.input)
        return self.agent.title(f"{use.name}({visible(target)})")

    def announce(self, use: ToolUse, prepared: Prepared | None = None, decision: Decision | None = None) -> None:
        """Emits the start of a call, once and before any other event of it."""
        if use.id in self._announced:
            return
        self._announced.add(use.id)
        self.agent.tool_calls += 1
        tool = self.agent.tools.get(use.name)
        started = ToolCallStarted(
            tool_call_id=use.id,
            tool=use.name,
            title=self.title(use, prepared),
            kind=tool.kind if tool else ToolKind.OTHER,
            status=CallStatus.PENDING,
            input=use.input,
            locations=prepared.locations if prepared else (),
            reason=decision.reason if decision and decision.rule else None,
        )
        emit(self.host, self.agent, started)

    def report(self, report: ReportCall) -> None:
        """Emits the new status of a call."""
        use = report.use
        self.announce(use)
        closed = report.status in _CLOSED
        call = (self._open.pop(use.id, None) if closed else None) or _Call()
        content = call.shown if call.shown is not None else report.content
        shown = None if content is None else clean(content)
        update = ToolCallUpdated(use.id, report.status, shown, call.locations, call.truncated, call.diff)
        emit(self.host, self.agent, update)
        if not closed:
            emit(self.host, self.agent, Activity(_activity(use), self.agent.tool_calls))

    def _show(self, call_id: str, text: str) -> None:
        if (call := self._open.get(call_id)) is not None:  # one that was ended by force shows nothing any more
            call.output = (call.output + text)[-_OUTPUT_TAIL:]
            emit(self.host, self.agent, ToolOutputDelta(call_id, text))

    def _call(self, call_id: str) -> _Call:
        return self._open.setdefault(call_id, _Call())


def _primary(agent: Agent) -> Agent:
    return agent if agent.parent is None else _primary(agent.parent)


def _target(input: Mapping[str, object]) -> str:
    """What a call that cannot be prepared is about, as far as its input names it."""
    named = next((value for key in _TARGETS if isinstance(value := input.get(key), str) and value.strip()), "")
    return cut(" ".join(named.split()), _MAX_TARGET)


def _activity(use: ToolUse) -> str:
    """``grep retry``: the tool and the first text of its input."""
    target = next((value for value in use.input.values() if isinstance(value, str)), "")
    return clean(f"{use.name} {' '.join(target.split())[:80]}".strip())
