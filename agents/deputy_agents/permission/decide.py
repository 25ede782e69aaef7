"""The permission gate: ``decide(policy, request)`` is pure and returns allow, ask or deny, for every agent and tool.

Order of precedence: a denial by a rule or by the mode, then ask rules, then allow rules; if no rule matches, the
permission mode decides. Changes of Deputy's own configuration are never allowed without asking. The policy of a child
is combined with that of its parent, so that a child is never allowed more than its parent.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import SESSION, AccessRequest, Action, DecisionKind, Rule
from deputy_agents.permission.rule_patterns import Match, matches, rule_text
from deputy_agents.text import visible


@dataclass(frozen=True, slots=True)
class Policy:
    """What an agent may do. Nothing is allowed that ``parent``, the policy of the parent agent, does not allow."""

    mode: PermissionMode
    rules: Sequence[Rule] = ()
    parent: "Policy | None" = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of the gate. ``reason`` is a sentence for the user and the model; ``rule`` is the rule that decided,
    if any."""

    kind: DecisionKind
    reason: str
    rule: Rule | None = None


_ALLOW, _ASK, _DENY = DecisionKind.ALLOW, DecisionKind.ASK, DecisionKind.DENY
_STRICTNESS = {_ALLOW: 0, _ASK: 1, _DENY: 2}

_BY_MODE: Mapping[Action, tuple[DecisionKind, DecisionKind, DecisionKind, DecisionKind]] = {
    #                       plan    default accept  bypass
    Action.SESSION:         (_ALLOW, _ALLOW, _ALLOW, _ALLOW),
    Action.READ:            (_ALLOW, _ALLOW, _ALLOW, _ALLOW),
    Action.READ_SECRET:     (_ASK,   _ASK,   _ASK,   _ALLOW),
    Action.EDIT:            (_DENY,  _ASK,   _ALLOW, _ALLOW),
    Action.EDIT_PROTECTED:  (_DENY,  _ASK,   _ASK,   _ALLOW),
    Action.CONFIGURE:       (_DENY,  _ASK,   _ASK,   _ASK),
    Action.OUTSIDE:         (_DENY,  _ASK,   _ASK,   _ALLOW),
    Action.EXECUTE:         (_DENY,  _ASK,   _ASK,   _ALLOW),
    Action.READ_COMMAND:    (_DENY,  _ALLOW, _ALLOW, _ALLOW),
    Action.FETCH:           (_ASK,   _ASK,   _ASK,   _ALLOW),
    Action.CONNECT:         (_ASK,   _ASK,   _ASK,   _ALLOW),
    Action.CALL:            (_DENY,  _ASK,   _ASK,   _ALLOW),
    Action.SPAWN:           (_DENY,  _ALLOW, _ALLOW, _ALLOW),
    Action.SPAWN_READ_ONLY: (_ALLOW, _ALLOW, _ALLOW, _ALLOW),
}  # fmt: skip

_DESCRIPTIONS = {
    Action.SESSION: "affects only the session",
    Action.READ: "reads inside the workspace",
    Action.READ_SECRET: "reads a file that may hold secrets",
    Action.EDIT: "changes a file",
    Action.EDIT_PROTECTED: "changes a file that configures other programs",
    Action.CONFIGURE: "changes Deputy's own configuration",
    Action.OUTSIDE: "uses a file outside the workspace or one that is known only when the command runs",
    Action.EXECUTE: "runs a command",
    Action.READ_COMMAND: "runs a command that only reads",
    Action.FETCH: "reads from the web",
    Action.CONNECT: "starts a program that provides tools to agents",
    Action.CALL: "is a tool of an MCP server and can do anything",
    Action.SPAWN: "starts a sub-agent that can make changes",
    Action.SPAWN_READ_ONLY: "starts a read-only sub-agent",
}
_GRAVEST_FIRST = (Action.CONFIGURE, Action.READ_SECRET, Action.OUTSIDE, Action.EDIT_PROTECTED)
"""The actions that decide the reason of a permission request about several actions."""
_ASKED = {
    Action.READ_SECRET: "It may hold secrets, so the mode {mode} asks; a rule for {tool} allows it.",
    Action.EDIT: "The mode {mode} asks before it changes files; accept_edits does not.",
    Action.EDIT_PROTECTED: "Other programs obey this file, so the mode {mode} asks; a rule that names it allows it.",
    Action.CONFIGURE: "It is Deputy's own configuration: every mode asks, and no rule allows it.",
    Action.OUTSIDE: "It may be outside the workspace, so the mode {mode} asks; a rule for {tool} allows it.",
    Action.EXECUTE: "The mode {mode} asks before commands; a rule for {tool} allows them.",
    Action.FETCH: "The mode {mode} asks before it reads the web; a rule for {tool} allows it.",
    Action.CONNECT: "The mode {mode} asks before it starts MCP servers; a rule for {tool} allows them.",
    Action.CALL: "The mode {mode} asks before it uses tools of MCP servers; a rule for {tool} allows it.",
}
"""Why a mode asks, and what changes that."""
_CONFINABLE = frozenset({Action.EXECUTE, Action.EDIT})
"""Actions of a command that the sandbox confines. It hides secrets and does not let protected files be changed, so a
command that is known to need one of them asks."""
_CONFINED = "It runs in the sandbox, which the setting shell.autoApproveSandboxed allows."
_BY_RULE = {_ALLOW: "allows it", _DENY: "denies it"}
_BY_MODE_TEXT = {_ALLOW: "which the mode {} allows", _DENY: "which the mode {} denies"}


def decide(policy: Policy, request: AccessRequest) -> Decision:
    """Whether an agent with ``policy`` may do what is described by ``request``."""
    if request.action is Action.SESSION:
        return _by_mode(policy.mode, request)
    own = _by_own_policy(policy, request)
    return own if policy.parent is None else _strictest((own, decide(policy.parent, request)))


def decide_all(policy: Policy, requests: Iterable[AccessRequest]) -> Decision:
    """The strictest decision about ``requests``; among equally strict ones that of the gravest action, then the first.
    Without requests the decision is deny: a call that does not declare its access cannot be decided about."""
    decisions = [decide(policy, request) for request in sorted(requests, key=_gravity_rank)]
    return _strictest(decisions) if decisions else Decision(_DENY, "The call does not declare the access it needs.")


def _gravity_rank(request: AccessRequest) -> int:
    return _GRAVEST_FIRST.index(request.action) if request.action in _GRAVEST_FIRST else len(_GRAVEST_FIRST)


def allows(policy: Policy, request: AccessRequest) -> bool:
    """Whether an agent with ``policy`` may do without asking what is described by ``request``."""
    return decide(policy, request).kind is _ALLOW


def child_policy(child: Policy, parent: Policy) -> Policy:
    """The policy of a child: the stricter mode, the rules of both (a lasting answer given for the parent applies to the
    child), and never more than ``parent`` allows."""
    return Policy(child.mode.lower_of(parent.mode), (*parent.rules, *child.rules), parent)


def _by_own_policy(policy: Policy, request: AccessRequest) -> Decision:
    by_mode = _by_mode(policy.mode, request)
    if by_mode.kind is _DENY:
        return by_mode
    by_rules = [decision for rule in policy.rules if (decision := _by_rule(rule, request))]
    return _strictest(by_rules) if by_rules else by_mode


def confined(requests: Iterable[AccessRequest]) -> Sequence[AccessRequest]:
    """``requests`` of a command as they are if it runs in the sandbox."""
    return [replace(one, confined=True) if one.action in _CONFINABLE else one for one in requests]


def _by_mode(mode: PermissionMode, request: AccessRequest) -> Decision:
    kind = _BY_MODE[request.action][mode.rank]
    if kind is _ASK and request.confined:
        return Decision(_ALLOW, _CONFINED)
    if kind is _ASK:
        return Decision(_ASK, _ASKED[request.action].format(mode=mode.value, tool=request.tool))
    description = f"{request.tool} {_DESCRIPTIONS[request.action]}"
    return Decision(kind, f"{description}, {_BY_MODE_TEXT[kind].format(mode.value)}.")


def _by_rule(rule: Rule, request: AccessRequest) -> Decision | None:
    subject = f"The rule {visible(rule_text(rule))}"
    match matches(rule, request):
        case Match.YES if rule.decision is _ASK:
            return Decision(_ASK, f"{subject} asks; change it in {_place(rule)}.", rule)
        case Match.YES:
            return Decision(rule.decision, f"{subject} {_BY_RULE[rule.decision]}.", rule)
        case Match.MAYBE:
            return Decision(_ASK, f"{subject} may apply when the command runs; change it in {_place(rule)}.", rule)
        case Match.NO:
            return None


def _place(rule: Rule) -> str:
    """Where the user finds ``rule``."""
    places = {SESSION: "the rules of this session", "settings": "your editor's settings"}
    return places.get(rule.source) or visible(rule.source)


def _strictest(decisions: Sequence[Decision]) -> Decision:
    return max(decisions, key=lambda decision: _STRICTNESS[decision.kind])
