"""The one gate: ``decide(policy, request)`` is pure and answers allow, ask or deny for every agent and tool.

A denial wins wherever it stands, in a rule or in the mode; then ask rules, then allow rules; where no rule speaks, the
permission mode decides. A child's policy is its own met with its parent's: it is never allowed more than its parent.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import AccessRequest, Action, DecisionKind, Rule
from deputy_agents.permission.rule_patterns import Match, matches, rule_text
from deputy_agents.text import visible


@dataclass(frozen=True, slots=True)
class Policy:
    """What an agent may do. ``above`` bounds it: nothing is allowed that ``above`` does not allow."""

    mode: PermissionMode
    rules: Sequence[Rule] = ()
    above: "Policy | None" = None


@dataclass(frozen=True, slots=True)
class Decision:
    """``rule`` is the one that decided, if one did; ``reason`` is a sentence for the user and the model."""

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
    Action.OUTSIDE:         (_DENY,  _ASK,   _ASK,   _ALLOW),
    Action.EXECUTE:         (_DENY,  _ASK,   _ASK,   _ALLOW),
    Action.FETCH:           (_ASK,   _ASK,   _ASK,   _ALLOW),
    Action.CONNECT:         (_ASK,   _ASK,   _ASK,   _ALLOW),
    Action.CALL:            (_DENY,  _ASK,   _ASK,   _ALLOW),
    Action.SPAWN:           (_DENY,  _ALLOW, _ALLOW, _ALLOW),
    Action.SPAWN_READ_ONLY: (_ALLOW, _ALLOW, _ALLOW, _ALLOW),
}  # fmt: skip

_DOES = {
    Action.SESSION: "touches only the session",
    Action.READ: "reads inside the workspace",
    Action.READ_SECRET: "reads a file that may hold secrets",
    Action.EDIT: "changes a file",
    Action.EDIT_PROTECTED: "changes a file that other programs obey",
    Action.OUTSIDE: "uses a file outside the workspace, or one that is only known when the command runs",
    Action.EXECUTE: "runs a command",
    Action.FETCH: "reads from the web",
    Action.CONNECT: "starts a program that gives agents tools",
    Action.CALL: "is a tool of an MCP server and may do anything",
    Action.SPAWN: "starts a child that may change things",
    Action.SPAWN_READ_ONLY: "starts a child that only reads",
}
_GRAVITY = (Action.READ_SECRET, Action.OUTSIDE, Action.EDIT_PROTECTED)
"""What a user who is asked about several things at once is to be told first."""
_BY_RULE = {_ALLOW: "allows it", _ASK: "asks about it", _DENY: "denies it"}
_IN_MODE = {_ALLOW: "the mode {} allows that", _ASK: "that needs a yes in this mode", _DENY: "the mode {} denies that"}
"""Where a mode asks it is not named: people know it by the name that their editor gives it."""


def decide(policy: Policy, request: AccessRequest) -> Decision:
    """Whether an agent under ``policy`` may do what ``request`` says."""
    if request.action is Action.SESSION:
        return _by_mode(policy.mode, request)
    own = _by_itself(policy, request)
    return own if policy.above is None else _strictest((own, decide(policy.above, request)))


def decide_all(policy: Policy, requests: Iterable[AccessRequest]) -> Decision:
    """The strictest decision about ``requests``; of several the gravest, then the first. Asking for nothing is denied:
    a call that does not say what it needs has not been decided about."""
    decisions = [decide(policy, request) for request in sorted(requests, key=_gravity)]
    return _strictest(decisions) if decisions else Decision(_DENY, "The call does not say what it needs.")


def _gravity(request: AccessRequest) -> int:
    return _GRAVITY.index(request.action) if request.action in _GRAVITY else len(_GRAVITY)


def meet(child: Policy, parent: Policy) -> Policy:
    """The policy of a child: the lower mode, the rules of both (an answer remembered above counts below), and never
    more than ``parent`` allows."""
    return Policy(child.mode.met_with(parent.mode), (*parent.rules, *child.rules), parent)


def _by_itself(policy: Policy, request: AccessRequest) -> Decision:
    by_mode = _by_mode(policy.mode, request)
    if by_mode.kind is _DENY:
        return by_mode
    spoken = [said for rule in policy.rules if (said := _by_rule(rule, request))]
    return _strictest(spoken) if spoken else by_mode


def _by_mode(mode: PermissionMode, request: AccessRequest) -> Decision:
    effect = _BY_MODE[request.action][mode.rank]
    return Decision(effect, f"{request.tool} {_DOES[request.action]}; {_IN_MODE[effect].format(mode.value)}.")


def _by_rule(rule: Rule, request: AccessRequest) -> Decision | None:
    named = f"The rule {visible(rule_text(rule))}"
    match matches(rule, request):
        case Match.YES:
            return Decision(rule.decision, f"{named} {_BY_RULE[rule.decision]}.", rule)
        case Match.MAYBE:
            return Decision(_ASK, f"{named} may be about what it becomes when it runs.", rule)
        case Match.NO:
            return None


def _strictest(decisions: Sequence[Decision]) -> Decision:
    return max(decisions, key=lambda decision: _STRICTNESS[decision.kind])
