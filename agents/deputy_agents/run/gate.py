"""Decides about the calls of one model reply: validates, looks at what each would do, asks the gate, words the
questions, and turns answers into verdicts."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import (
    Batch,
    CallStatus,
    DiffPreview,
    Option,
    OptionKind,
    PermissionRequest,
    ResolvedBy,
    ToolCallStarted,
    ToolKind,
    ToolOutputDelta,
)
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import Reply, ToolUse
from deputy_agents.domain.rule import AccessRequest, DecisionKind, Rule
from deputy_agents.permission.decide import Decision, decide, decide_all
from deputy_agents.permission.inbox import PermissionOutcome
from deputy_agents.permission.rule_patterns import lasting_rule, rule_text
from deputy_agents.run.agent import Agent, AnyTool, Host, say
from deputy_agents.run.effect import CallAllowed, CallDecision, CallDenied, CallNeedsApproval
from deputy_agents.run.state import Note
from deputy_agents.text import cut, visible
from deputy_agents.tool.base import Commands, Prepared, ToolContext

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Asked:
    permission_request: PermissionRequest
    needs: tuple[AccessRequest, ...]
    access: tuple[AccessRequest, ...]
    """The parts of the call that the gate asks about: what a lasting answer is about."""


@dataclass(slots=True)
class Gate:
    """The gate as one agent meets it."""

    agent: Agent
    host: Host
    search: Callable[[str], Awaitable[Reply]]
    """The web search of the agent's provider."""
    _asked: dict[str, _Asked] = field(default_factory=dict[str, _Asked])
    _cleared: dict[str, tuple[AnyTool, Any]] = field(default_factory=dict[str, tuple[AnyTool, Any]])
    _announced: set[str] = field(default_factory=set[str])
    _put_out: dict[str, str] = field(default_factory=dict[str, str])

    async def decide(self, calls: Sequence[ToolUse]) -> Mapping[str, CallDecision]:
        """A verdict for every call, in order, before any of them runs. Each preview assumes those before it."""
        self._asked.clear()
        self._cleared.clear()
        proposed: dict[Path, str] = {}
        decisions: dict[str, CallDecision] = {}
        for use in calls:
            decisions[use.id] = await self._judge(use, proposed)
        self._number_batch([use.id for use in calls if isinstance(decisions[use.id], CallNeedsApproval)])
        return decisions

    async def ask(self, use: ToolUse) -> CallAllowed | CallDenied:
        """Puts the question about ``use`` to the user and waits for the answer."""
        asked = self._asked.pop(use.id)
        resolution = await self.host.inbox.ask(asked.permission_request, self.agent.run, lambda: self._by_rule(asked))
        return await self._verdict(use, asked, resolution)

    def take(self, use: ToolUse) -> tuple[AnyTool, Any]:
        """The tool of a call that was let through, with the very input that the gate has looked at."""
        return self._cleared.pop(use.id)

    def context(self, call_id: str = "", proposed: Mapping[Path, str] | None = None) -> ToolContext:
        """What a tool of this agent may use, for the call of that id."""
        agent = self.agent
        return ToolContext(
            workspace=self.host.workspace,
            cwd=agent.cwd,
            label=agent.info.label,
            marks=agent.marks,
            session=self.host.session_view(agent),
            proposed=dict(proposed or {}),
            changing=partial(self.host.changing, agent, call_id),
            search=self.search,
            may_read=self.allows,
            commands=Commands(agent.id, self.host.settings.shell, self.host.commands, not agent.is_child),
            editors=self.host.editors,
            show=partial(self._show, call_id),
        )

    def put_out(self, call_id: str) -> str:
        """What a call has shown of its output until now, the last part of it; it is told once."""
        return self._put_out.pop(call_id, "")

    def _show(self, call_id: str, text: str) -> None:
        if call_id:
            self._put_out[call_id] = (self._put_out.get(call_id, "") + text)[-_PUT_OUT:]
            say(self.host, self.agent, ToolOutputDelta(call_id, text))

    # -- deciding --------------------------------------------------------------------------------------------------

    def allows(self, request: AccessRequest) -> bool:
        """Whether the agent may do this unasked."""
        return decide(self.host.policy(self.agent), request).kind is DecisionKind.ALLOW

    def _tool(self, use: ToolUse) -> AnyTool:
        tool = self.agent.tools.get(use.name)
        if tool is None:
            raise ToolError(f"There is no tool {use.name!r} here. Tools: {', '.join(sorted(self.agent.tools))}.")
        if use.error:
            raise ToolError(f"The input was no valid JSON object ({use.error}). Send the call again, complete.")
        return tool

    async def _prepare(self, use: ToolUse, tool: AnyTool, proposed: Mapping[Path, str] | None = None) -> Prepared:
        args = tool.parse(use.input)
        prepared = await tool.prepare(args, self.context(use.id, proposed))
        self._cleared[use.id] = tool, args
        return prepared

    async def _judge(self, use: ToolUse, proposed: dict[Path, str]) -> CallDecision:
        try:
            tool = self._tool(use)
            prepared = await self._prepare(use, tool, proposed)
        except ToolError as error:
            self.announce(use)
            return CallDenied(str(error))
        except Exception:
            logger.exception("agent %s: call %s cannot be judged", self.agent.id, use.id)
            self.announce(use)
            return CallDenied("Not run: an internal error kept the permission gate from deciding.")
        decision = decide_all(self.host.policy(self.agent), prepared.access)
        self.announce(use, prepared, decision)
        match decision.kind:
            case DecisionKind.DENY:
                return CallDenied(f"Denied: {decision.reason}")
            case DecisionKind.ASK:
                self._asked[use.id] = self._asking(use, tool, prepared, decision)
                verdict: CallDecision = CallNeedsApproval()
            case DecisionKind.ALLOW:
                verdict = CallAllowed()
        if isinstance(preview := prepared.preview, DiffPreview):
            proposed[Path(preview.path)] = preview.new_text
        return verdict

    def announce(self, use: ToolUse, prepared: Prepared | None = None, decision: Decision | None = None) -> None:
        """Tells people of a call, once and before anything else of it."""
        if use.id in self._announced:
            return
        self._announced.add(use.id)
        self.agent.tool_calls += 1
        tool = self.agent.tools.get(use.name)
        kind = tool.kind if tool else ToolKind.OTHER
        title = self.agent.title(_title(use, prepared))
        locations = prepared.locations if prepared else ()
        reason = decision.reason if decision and decision.rule else None
        started = ToolCallStarted(use.id, use.name, title, kind, CallStatus.PENDING, use.input, locations, reason)
        say(self.host, self.agent, started)

    def _asking(self, use: ToolUse, tool: AnyTool, prepared: Prepared, decision: Decision) -> _Asked:
        policy = self.host.policy(self.agent)
        access = tuple(part for part in prepared.access if decide(policy, part).kind is DecisionKind.ASK)
        permission_request = PermissionRequest(
            request_id=new_id(),
            agent=self.agent.ref,
            batch=Batch("", 0, 1),
            tool_call_id=use.id,
            title=self.agent.title(_title(use, prepared)),
            tool=use.name,
            kind=tool.kind,
            input=use.input,
            locations=prepared.locations,
            options=_options(access),
            preview=prepared.preview,
            reason=decision.reason,
        )
        return _Asked(permission_request, tuple(prepared.access), access)

    def _number_batch(self, ids: Sequence[str]) -> None:
        batch = new_id()
        for index, use_id in enumerate(ids):
            asked = self._asked[use_id]
            asked.permission_request = replace(asked.permission_request, batch=Batch(batch, index, len(ids)))

    # -- answers ---------------------------------------------------------------------------------------------------

    def _by_rule(self, asked: _Asked) -> PermissionOutcome | None:
        now = decide_all(self.host.policy(self.agent), asked.needs)
        if now.kind is DecisionKind.ASK:
            return None
        return PermissionOutcome(ResolvedBy.RULE, allowed=now.kind is DecisionKind.ALLOW, decision=now.reason)

    async def _verdict(self, use: ToolUse, asked: _Asked, resolution: PermissionOutcome) -> CallAllowed | CallDenied:
        option = resolution.option
        if resolution.allowed:
            return CallAllowed()
        if option is None:
            return CallDenied(f"Denied: {resolution.decision}" if resolution.decision else _NOT_ANSWERED[resolution.by])
        if not option.kind.allows:
            self._remember(asked, option)
            said = f" They say: {resolution.feedback}" if resolution.feedback else ""
            return CallDenied(f"Denied by the user.{said}")
        notes = (Note(resolution.feedback, shown=True),) if resolution.feedback else ()
        if resolution.input is None or resolution.input == use.input:
            self._remember(asked, option)
            return CallAllowed(notes=notes)
        # A lasting answer is about what was asked, and the call that runs is another one: it is not remembered.
        return await self._edited(use, resolution.input, notes)

    def _remember(self, asked: _Asked, option: Option) -> None:
        if option.kind in _LASTING:
            self.host.remember(_rules(asked.access, option.kind))

    async def _edited(
        self, use: ToolUse, input: Mapping[str, object], notes: tuple[Note, ...]
    ) -> CallAllowed | CallDenied:
        """The user changed the input: it is validated and decided again; what asks now counts as answered."""
        try:
            edited = replace(use, input=input)
            prepared = await self._prepare(edited, self._tool(edited))
        except ToolError as error:
            return CallDenied(f"Not run: the user approved it with a changed input that does not work: {error}")
        decision = decide_all(self.host.policy(self.agent), prepared.access)
        if decision.kind is DecisionKind.DENY:
            return CallDenied(f"Denied: {decision.reason}")
        return CallAllowed(input, (Note(_changes(use, input)), *notes))


_NOT_ANSWERED = {
    ResolvedBy.DISMISSED: "Not run: the question to the user was dismissed without an answer, which is no consent.",
    ResolvedBy.UNREACHABLE: "Not run: this needs the user's approval, and no connected client can ask for it.",
    ResolvedBy.CANCELLED: "Not run: the question to the user was withdrawn.",
    ResolvedBy.USER: "Denied by the user.",
}
_PUT_OUT = 8000
"""Characters of the output of a call that are told when it is stopped."""
_MAX_CHANGES = 8000
"""Characters of a changed input that the model is told."""
_TARGETS = ("path", "pattern", "command", "url", "query", "name", "description", "instructions")
"""Fields of inputs that name what a call is about, the most telling first."""
_MAX_TARGET = 200

_LASTING = (OptionKind.ALLOW_ALWAYS, OptionKind.REJECT_ALWAYS)


def _title(use: ToolUse, prepared: Prepared | None) -> str:
    return f"{use.name}({visible(prepared.target if prepared else _said_target(use.input))})"


def _said_target(input: Mapping[str, object]) -> str:
    """What a call that cannot be prepared was to be about, as far as its input says so."""
    said = next((value for key in _TARGETS if isinstance(value := input.get(key), str) and value.strip()), "")
    return cut(" ".join(said.split()), _MAX_TARGET)


def _changes(use: ToolUse, input: Mapping[str, object]) -> str:
    """What the model has to know of a call that ran with another input than its own."""
    changed = {name: input.get(name) for name in (*use.input, *input) if use.input.get(name) != input.get(name)}
    told = cut(json.dumps(changed, ensure_ascii=False), _MAX_CHANGES)
    return f"Before approving the call {use.name}, the user changed it, and it ran as changed: {told}"


def _rules(access: Sequence[AccessRequest], kind: OptionKind) -> tuple[Rule, ...]:
    effect = DecisionKind.ALLOW if kind.allows else DecisionKind.DENY
    return tuple(lasting_rule(part, effect) for part in access)


def _about(access: Sequence[AccessRequest], kind: OptionKind) -> str:
    return ", ".join(visible(rule_text(rule)) for rule in _rules(access, kind))


def _options(access: Sequence[AccessRequest]) -> tuple[Option, ...]:
    """Approve or deny, now or for the session; a lasting answer spells out the rule that it adds."""
    names = {
        OptionKind.ALLOW_ONCE: "Approve",
        OptionKind.ALLOW_ALWAYS: f"Always allow: {_about(access, OptionKind.ALLOW_ALWAYS)}",
        OptionKind.REJECT_ONCE: "Deny",
        OptionKind.REJECT_ALWAYS: f"Always deny: {_about(access, OptionKind.REJECT_ALWAYS)}",
    }
    return tuple(Option(kind.value, name, kind) for kind, name in names.items())
