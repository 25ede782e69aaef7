"""The permission gate as one agent meets it: prepares each call of a model reply, decides about it, and asks the user
where the decision is to ask."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import Batch, Option, OptionKind, PermissionRequest, ResolvedBy
from deputy_agents.domain.file_change import Approval
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import ToolUse
from deputy_agents.domain.preview import DiffPreview
from deputy_agents.domain.rule import AccessRequest, Action, DecisionKind, Rule, RuleScope
from deputy_agents.permission.decide import Decision, confined, decide, decide_all
from deputy_agents.permission.inbox import PermissionOutcome
from deputy_agents.permission.rule_patterns import can_allow, lasting_rules, rule_text
from deputy_agents.run.agent import Agent, AnyTool
from deputy_agents.run.effect import CallAllowed, CallDecision, CallDenied, CallNeedsApproval
from deputy_agents.run.hook_runner import HookRunner
from deputy_agents.run.host import Host
from deputy_agents.run.state import Note
from deputy_agents.run.tool_calls import ToolCalls
from deputy_agents.text import cut, visible
from deputy_agents.tool.base import Prepared

logger = logging.getLogger(__name__)

_NOT_ANSWERED = {
    ResolvedBy.DISMISSED: "Not run: the approval prompt was dismissed without an answer, which is not consent.",
    ResolvedBy.UNREACHABLE: "Not run: this needs approval, and there is nobody to ask. The user's rules or permission "
    "mode can allow it; in an editor or at a terminal, Deputy asks.",
    ResolvedBy.CANCELLED: "Not run: the permission request was withdrawn.",
    ResolvedBy.USER: "Denied by the user.",
}
HOOKS_AT_ONCE = 8
"""Calls of one reply whose hooks run at the same time."""
_MAX_CHANGES = 8000
"""Characters of a changed input that the model reads."""
_LASTING = (
    (OptionKind.ALLOW_ALWAYS, RuleScope.SESSION, "Allow in this session"),
    (OptionKind.ALLOW_ALWAYS, RuleScope.PROJECT, "Allow in this project"),
    (OptionKind.ALLOW_ALWAYS, RuleScope.USER, "Always allow"),
    (OptionKind.REJECT_ALWAYS, RuleScope.SESSION, "Deny in this session"),
)
"""The answers that add rules, in the order in which they are offered, with their names."""


@dataclass(slots=True)
class _Pending:
    """A permission request that is open or about to be."""

    request: PermissionRequest
    needs: tuple[AccessRequest, ...]
    asked: tuple[AccessRequest, ...]
    """The part of ``needs`` that the gate asks about: a lasting answer covers it and no more."""
    complete: DiffPreview | None
    by_hook: bool = False
    """Whether a hook, and no rule or mode, wants the user to be asked."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """A call that was let through: its tool, the very input that was decided about, and what approved it."""

    tool: AnyTool
    args: Any
    approved: Approval = Approval.NONE


@dataclass(slots=True)
class Gate:
    """Decides about the calls of one agent. Nothing runs that it has not let through. ``notify`` runs the hooks for a
    notification of the user in the background."""

    agent: Agent
    host: Host
    calls: ToolCalls
    hooks: HookRunner
    notify: Callable[[str, str], None]
    _pending: dict[str, _Pending] = field(default_factory=dict[str, _Pending])
    _cleared: dict[str, Cleared] = field(default_factory=dict[str, Cleared])
    _prepared: dict[str, Prepared] = field(default_factory=dict[str, Prepared])
    """The calls of the reply that is being decided about, as far as they are not denied."""
    _confined: dict[str, _Pending] = field(default_factory=dict[str, _Pending])
    """The permission requests for calls that the sandbox confines, which are asked if they fail because of it."""

    async def decide(self, uses: Sequence[ToolUse]) -> Mapping[str, CallDecision]:
        """A decision for every call, in order, before any of them runs. Each preview assumes those before it."""
        self._pending.clear()
        self._cleared.clear()
        self._prepared.clear()
        self._confined.clear()
        proposed: dict[Path, str] = {}
        decisions = {use.id: await self._decide(use, proposed) for use in uses}
        await self._apply_all_hooks(uses, decisions)
        self._number_batch([use.id for use in uses if isinstance(decisions[use.id], CallNeedsApproval)])
        return decisions

    async def ask(self, use: ToolUse) -> CallAllowed | CallDenied:
        """Asks the user about a call for which :meth:`decide` returned ``CallNeedsApproval``, and waits for the
        answer."""
        return await self._ask(use, self._pending.pop(use.id))

    async def ask_outside(self, use: ToolUse, call: Cleared, refused: Sequence[str]) -> CallAllowed | CallDenied:
        """Asks the user whether a call that failed because of the sandbox runs again, outside it. ``refused`` is what
        the sandbox did not allow, as words that follow "to"."""
        pending = self._confined.pop(use.id)
        first, more = refused[0], len(refused) - 1
        and_more = f" (and {more} more)" if more else ""
        reason = f"The sandbox did not allow it to {visible(first)}{and_more}. Approve to run it again without sandbox."
        pending.request = replace(pending.request, reason=reason)
        self._cleared[use.id] = call
        return await self._ask(use, pending)

    async def _ask(self, use: ToolUse, pending: _Pending) -> CallAllowed | CallDenied:
        answer = await self.hooks.permission(use)
        if answer.blocks:
            return CallDenied(answer.reason)
        if answer.decision is DecisionKind.ALLOW and self._hook_may_allow(pending):
            self._approve(use, Approval.RULE)
            return CallAllowed()
        self.notify("permission_prompt", f"Deputy needs your permission: {pending.request.title}")
        outcome = await self.host.inbox.ask(
            pending.request,
            self.agent.run,
            lambda: self._decide_by_rule(pending),
            pending.complete,
            only_edits=self._only_edits(pending),
        )
        return await self._decision_of(use, pending, outcome)

    def take(self, use: ToolUse) -> Cleared:
        """A call that was let through. Once for each call."""
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
        policy = self.host.policy(self.agent)
        asked = decision = decide_all(policy, prepared.access)
        if asked.kind is DecisionKind.ASK and prepared.confinable:
            decision = decide_all(policy, confined(prepared.access))
        self.calls.announce(use, prepared, decision)
        if decision.kind is DecisionKind.DENY:
            return CallDenied(f"Denied: {decision.reason}")
        if (complete := prepared.complete) is not None and complete.new_text is not None:
            proposed[Path(complete.path)] = complete.new_text
        self._prepared[use.id] = prepared
        if decision.kind is DecisionKind.ALLOW and asked.kind is DecisionKind.ASK:
            self._confined[use.id] = self._request(use, prepared, asked)
            self._approve(use, Approval.SANDBOX)
            return CallAllowed()
        if decision.kind is DecisionKind.ALLOW:
            self._approve(use, Approval.RULE if decision.rule else Approval.MODE)
            return CallAllowed()
        self._pending[use.id] = self._request(use, prepared, decision)
        return CallNeedsApproval()

    async def _apply_all_hooks(self, uses: Sequence[ToolUse], decisions: dict[str, CallDecision]) -> None:
        limiter = anyio.CapacityLimiter(HOOKS_AT_ONCE)

        async def apply(use: ToolUse) -> None:
            async with limiter:
                await self._apply_hooks(use, decisions)

        async with anyio.create_task_group() as tasks:
            for use in uses:
                if not isinstance(decisions[use.id], CallDenied):
                    tasks.start_soon(apply, use)
        self._prepared.clear()

    async def _apply_hooks(self, use: ToolUse, decisions: dict[str, CallDecision]) -> None:
        """Changes the decision about a call to that of the hooks before it, as far as they may decide."""
        answer = await self.hooks.before(use)
        pending = self._pending.get(use.id)
        match answer.decision:
            case DecisionKind.DENY:
                self._pending.pop(use.id, None)
                decisions[use.id] = CallDenied(answer.reason)
            case DecisionKind.ASK if pending is None:
                request = self._request(use, self._prepared[use.id], Decision(DecisionKind.ASK, answer.reason))
                self._pending[use.id] = replace(request, by_hook=True)
                decisions[use.id] = CallNeedsApproval()
            case DecisionKind.ALLOW if pending is not None and self._hook_may_allow(pending):
                del self._pending[use.id]
                self._approve(use, Approval.RULE)
                decisions[use.id] = CallAllowed()
            case _:
                pass
        if answer.context and isinstance(decision := decisions[use.id], CallAllowed):
            decisions[use.id] = replace(decision, notes=(*decision.notes, Note(answer.context)))

    def _hook_may_allow(self, pending: _Pending) -> bool:
        """Whether a hook may answer in place of the user: where the mode asks, and not where a rule does."""
        decision = decide_all(self.host.policy(self.agent), pending.needs)
        asks = decision.kind is not DecisionKind.DENY and self._asks_by_mode(pending)
        return asks and all(map(can_allow, pending.asked))

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
        self._cleared[use.id] = Cleared(tool, args)
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
            kind=self._cleared[use.id].tool.kind,
            input=use.input,
            locations=prepared.locations,
            options=_options(asked),
            preview=prepared.preview,
            reason=decision.reason,
        )
        return _Pending(request, tuple(prepared.access), asked, prepared.complete)

    def _number_batch(self, ids: Sequence[str]) -> None:
        batch = new_id()
        for index, use_id in enumerate(ids):
            pending = self._pending[use_id]
            pending.request = replace(pending.request, batch=Batch(batch, index, len(ids)))

    # -- outcomes --------------------------------------------------------------------------------------------------

    def _decide_by_rule(self, pending: _Pending) -> PermissionOutcome | None:
        """What the rules that are in force by now decide; ``None`` while they still ask."""
        decision = decide_all(self.host.policy(self.agent), pending.needs)
        if pending.by_hook and decision.kind is DecisionKind.ALLOW:
            return None
        return PermissionOutcome.by_rule(decision)

    def _only_edits(self, pending: _Pending) -> bool:
        """Whether it asks about edits of usual files alone, because of the mode and not of a rule."""
        edits = all(need.action is Action.EDIT for need in pending.asked)
        return bool(pending.asked) and edits and self._asks_by_mode(pending)

    def _asks_by_mode(self, pending: _Pending) -> bool:
        """Whether neither a rule nor a hook wants the user to be asked."""
        policy = self.host.policy(self.agent)
        return not pending.by_hook and all(decide(policy, need).rule is None for need in pending.asked)

    async def _decision_of(
        self, use: ToolUse, pending: _Pending, outcome: PermissionOutcome
    ) -> CallAllowed | CallDenied:
        option = outcome.option
        if outcome.allowed:
            self._approve(use, Approval.RULE)
            return CallAllowed()
        if option is None:
            return CallDenied(f"Denied: {outcome.reason}" if outcome.reason else _NOT_ANSWERED[outcome.by])
        if not option.kind.allows:
            await self._remember(pending, option)
            comment = f" Their comment: {outcome.feedback}" if outcome.feedback else ""
            return CallDenied(f"Denied by the user.{comment}")
        notes = (Note(outcome.feedback, shown=True),) if outcome.feedback else ()
        self._approve(use, Approval.USER)
        if outcome.input is None or outcome.input == use.input:
            await self._remember(pending, option)
            return CallAllowed(notes=notes)
        # A lasting answer is about the call that was asked about, and another one runs: it is not remembered.
        return await self._allow_edited(use, outcome.input, notes)

    def _approve(self, use: ToolUse, approved: Approval) -> None:
        self._cleared[use.id] = replace(self._cleared[use.id], approved=approved)

    async def _remember(self, pending: _Pending, option: Option) -> None:
        if option.scope is RuleScope.SESSION:
            self.host.remember(_rules(pending.asked, option.kind))
        elif option.scope is not RuleScope.ONCE:
            await self.host.save(_rules(pending.asked, option.kind), option.scope)

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
        answer = await self.hooks.before(replace(use, input=input))
        if answer.blocks:
            return CallDenied(answer.reason)
        self._approve(use, Approval.USER)
        return CallAllowed(input, (Note(_changes(use, input)), *notes))


def _changes(use: ToolUse, input: Mapping[str, object]) -> str:
    """Tells the model that a call ran with another input than its own."""
    changed = {name: input.get(name) for name in (*use.input, *input) if use.input.get(name) != input.get(name)}
    text = cut(json.dumps(changed, ensure_ascii=False), _MAX_CHANGES)
    return f"Before approving the call {use.name}, the user changed it, and it ran as changed: {text}"


def _rules(needs: Sequence[AccessRequest], kind: OptionKind) -> tuple[Rule, ...]:
    decision = DecisionKind.ALLOW if kind.allows else DecisionKind.DENY
    return lasting_rules(needs, decision)


def _rule_texts(needs: Sequence[AccessRequest], kind: OptionKind) -> tuple[str, ...]:
    return tuple(visible(rule_text(rule)) for rule in _rules(needs, kind))


def _options(needs: Sequence[AccessRequest]) -> tuple[Option, ...]:
    """Approve or deny, once or lastingly; a lasting option spells out the rules that it adds, and where."""
    lasting: list[Option] = []
    for kind, scope, name in _LASTING:
        rules = _rule_texts(needs, kind)
        verb = "allow" if kind.allows else "reject"
        lasting.append(Option(f"{verb}_{scope}", f"{name}: {', '.join(rules)}", kind, rules, scope))
    return (
        Option(OptionKind.ALLOW_ONCE.value, "Approve", OptionKind.ALLOW_ONCE),
        *(option for option in lasting if option.rules and option.kind.allows and all(map(can_allow, needs))),
        Option(OptionKind.REJECT_ONCE.value, "Deny", OptionKind.REJECT_ONCE),
        *(option for option in lasting if option.rules and not option.kind.allows),
    )
