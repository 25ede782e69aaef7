"""The permission gate as one agent meets it: prepares each call of a model reply, decides about it, and asks the user
where the decision is to ask."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import Batch, DiffPreview, Option, OptionKind, PermissionRequest, ResolvedBy
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import ToolUse
from deputy_agents.domain.rule import AccessRequest, DecisionKind, Rule
from deputy_agents.permission.decide import Decision, decide, decide_all
from deputy_agents.permission.inbox import PermissionOutcome
from deputy_agents.permission.rule_patterns import lasting_rule, rule_text
from deputy_agents.run.agent import Agent, AnyTool
from deputy_agents.run.effect import CallAllowed, CallDecision, CallDenied, CallNeedsApproval
from deputy_agents.run.host import Host
from deputy_agents.run.state import Note
from deputy_agents.run.tool_calls import ToolCalls
from deputy_agents.text import cut, visible
from deputy_agents.tool.base import Prepared

logger = logging.getLogger(__name__)

_NOT_ANSWERED = {
    ResolvedBy.DISMISSED: "Not run: the approval prompt was dismissed without an answer, which is not consent.",
    ResolvedBy.UNREACHABLE: "Not run: this needs the user's approval, and no connected client can ask for it.",
    ResolvedBy.CANCELLED: "Not run: the permission request was withdrawn.",
    ResolvedBy.USER: "Denied by the user.",
}
_MAX_CHANGES = 8000
"""Characters of a changed input that the model reads."""
_LASTING = (OptionKind.ALLOW_ALWAYS, OptionKind.REJECT_ALWAYS)


@dataclass(slots=True)
class _Pending:
    """A permission request that is open or about to be."""

    request: PermissionRequest
    needs: tuple[AccessRequest, ...]
    asked: tuple[AccessRequest, ...]
    """The part of ``needs`` that the gate asks about: a lasting answer covers it and no more."""


@dataclass(slots=True)
class Gate:
    """Decides about the calls of one agent. Nothing runs that it has not let through."""

    agent: Agent
    host: Host
    calls: ToolCalls
    _pending: dict[str, _Pending] = field(default_factory=dict[str, _Pending])
    _cleared: dict[str, tuple[AnyTool, Any]] = field(default_factory=dict[str, tuple[AnyTool, Any]])

    async def decide(self, uses: Sequence[ToolUse]) -> Mapping[str, CallDecision]:
        """A decision for every call, in order, before any of them runs. Each preview assumes those before it."""
        self._pending.clear()
        self._cleared.clear()
        proposed: dict[Path, str] = {}
        decisions = {use.id: await self._decide(use, proposed) for use in uses}
        self._number_batch([use.id for use in uses if isinstance(decisions[use.id], CallNeedsApproval)])
        return decisions

    async def ask(self, use: ToolUse) -> CallAllowed | CallDenied:
        """Asks the user about a call for which :meth:`decide` returned ``CallNeedsApproval``, and waits for the
        answer."""
        pending = self._pending.pop(use.id)
        outcome = await self.host.inbox.ask(pending.request, self.agent.run, lambda: self._decide_by_rule(pending))
        return await self._decision_of(use, pending, outcome)

    def take(self, use: ToolUse) -> tuple[AnyTool, Any]:
        """The tool of a call that was let through, with the very input that was decided about. Once for each call."""
        return self._cleared.pop(use.id)

    # -- deciding --------------------------------------------------------------------------------------------------

    async def _decide(self, use: ToolUse, proposed: dict[Path, str]) -> CallDecision:
        try:
            prepared = await self._prepare(use, proposed)
        except ToolError as error:
            self.calls.announce(use)
            return CallDenied(str(error))
        except Exception:
            logger.exception("agent %s: the gate failed on call %s", self.agent.id, use.id)
            self.calls.announce(use)
            return CallDenied("Not run: an internal error kept the permission gate from deciding.")
        decision = decide_all(self.host.policy(self.agent), prepared.access)
        self.calls.announce(use, prepared, decision)
        if decision.kind is DecisionKind.DENY:
            return CallDenied(f"Denied: {decision.reason}")
        if isinstance(preview := prepared.preview, DiffPreview):
            proposed[Path(preview.path)] = preview.new_text
        if decision.kind is DecisionKind.ALLOW:
            return CallAllowed()
        self._pending[use.id] = self._request(use, prepared, decision)
        return CallNeedsApproval()

    async def _prepare(self, use: ToolUse, proposed: Mapping[Path, str] | None = None) -> Prepared:
        """
        Raises:
            ToolError: there is no such tool, its input is invalid, or the call cannot work.
        """
        tools = self.agent.tools
        if (tool := tools.get(use.name)) is None:
            raise ToolError(f"There is no tool {use.name!r} here. Tools: {', '.join(sorted(tools))}.")
        if use.error:
            raise ToolError(f"The input is not a valid JSON object ({use.error}). Send the complete call again.")
        args = tool.parse(use.input)
        prepared = await tool.prepare(args, self.calls.context(use.id, proposed))
        self._cleared[use.id] = tool, args
        return prepared

    def _request(self, use: ToolUse, prepared: Prepared, decision: Decision) -> _Pending:
        policy = self.host.policy(self.agent)
        asked = tuple(need for need in prepared.access if decide(policy, need).kind is DecisionKind.ASK)
        request = PermissionRequest(
            request_id=new_id(),
            agent=self.agent.ref,
            batch=Batch("", 0, 1),
            tool_call_id=use.id,
            title=self.calls.title(use, prepared),
            tool=use.name,
            kind=self._cleared[use.id][0].kind,
            input=use.input,
            locations=prepared.locations,
            options=_options(asked),
            preview=prepared.preview,
            reason=decision.reason,
        )
        return _Pending(request, tuple(prepared.access), asked)

    def _number_batch(self, ids: Sequence[str]) -> None:
        batch = new_id()
        for index, use_id in enumerate(ids):
            pending = self._pending[use_id]
            pending.request = replace(pending.request, batch=Batch(batch, index, len(ids)))

    # -- outcomes --------------------------------------------------------------------------------------------------

    def _decide_by_rule(self, pending: _Pending) -> PermissionOutcome | None:
        """What the rules that are in force by now decide; ``None`` while they still ask."""
        return PermissionOutcome.by_rule(decide_all(self.host.policy(self.agent), pending.needs))

    async def _decision_of(
        self, use: ToolUse, pending: _Pending, outcome: PermissionOutcome
    ) -> CallAllowed | CallDenied:
        option = outcome.option
        if outcome.allowed:
            return CallAllowed()
        if option is None:
            return CallDenied(f"Denied: {outcome.reason}" if outcome.reason else _NOT_ANSWERED[outcome.by])
        if not option.kind.allows:
            self._remember(pending, option)
            comment = f" Their comment: {outcome.feedback}" if outcome.feedback else ""
            return CallDenied(f"Denied by the user.{comment}")
        notes = (Note(outcome.feedback, shown=True),) if outcome.feedback else ()
        if outcome.input is None or outcome.input == use.input:
            self._remember(pending, option)
            return CallAllowed(notes=notes)
        # A lasting answer is about the call that was asked about, and another one runs: it is not remembered.
        return await self._allow_edited(use, outcome.input, notes)

    def _remember(self, pending: _Pending, option: Option) -> None:
        if option.kind in _LASTING:
            self.host.remember(_rules(pending.asked, option.kind))

    async def _allow_edited(
        self, use: ToolUse, input: Mapping[str, object], notes: tuple[Note, ...]
    ) -> CallAllowed | CallDenied:
        """The user approved the call with a changed ``input``: it is validated and decided again. What would ask counts
        as approved, as the user has written it."""
        try:
            prepared = await self._prepare(replace(use, input=input))
        except ToolError as error:
            return CallDenied(f"Not run: the user approved it with a changed input that does not work: {error}")
        decision = decide_all(self.host.policy(self.agent), prepared.access)
        if decision.kind is DecisionKind.DENY:
            return CallDenied(f"Denied: {decision.reason}")
        return CallAllowed(input, (Note(_changes(use, input)), *notes))


def _changes(use: ToolUse, input: Mapping[str, object]) -> str:
    """Tells the model that a call ran with another input than its own."""
    changed = {name: input.get(name) for name in (*use.input, *input) if use.input.get(name) != input.get(name)}
    text = cut(json.dumps(changed, ensure_ascii=False), _MAX_CHANGES)
    return f"Before approving the call {use.name}, the user changed it, and it ran as changed: {text}"


def _rules(needs: Sequence[AccessRequest], kind: OptionKind) -> tuple[Rule, ...]:
    decision = DecisionKind.ALLOW if kind.allows else DecisionKind.DENY
    return tuple(lasting_rule(need, decision) for need in needs)


def _rule_texts(needs: Sequence[AccessRequest], kind: OptionKind) -> str:
    return ", ".join(visible(rule_text(rule)) for rule in _rules(needs, kind))


def _options(needs: Sequence[AccessRequest]) -> tuple[Option, ...]:
    """Approve or deny, once or for the session; a lasting option spells out the rules that it adds."""
    names = {
        OptionKind.ALLOW_ONCE: "Approve",
        OptionKind.ALLOW_ALWAYS: f"Always allow: {_rule_texts(needs, OptionKind.ALLOW_ALWAYS)}",
        OptionKind.REJECT_ONCE: "Deny",
        OptionKind.REJECT_ALWAYS: f"Always deny: {_rule_texts(needs, OptionKind.REJECT_ALWAYS)}",
    }
    return tuple(Option(kind.value, name, kind) for kind, name in names.items())
