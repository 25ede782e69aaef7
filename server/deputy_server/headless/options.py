"""The options of ``deputy run``, validated before anything starts."""

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import BinaryIO

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.model_card import Effort
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import DecisionKind
from deputy_agents.guidance.builtin_commands import BUILTIN_COMMANDS
from deputy_agents.guidance.commands import parse_call
from deputy_agents.permission.rule_patterns import parse_rule
from deputy_protocol import model, session
from deputy_protocol.base import overlaid
from deputy_protocol.rule import RuleAction
from deputy_protocol.settings import RuleSetting, Settings

_ASK_FOR_PROMPT = (
    f"Type the prompt. End it with {'Ctrl-Z and Enter' if os.name == 'nt' else 'Ctrl-D'} on a line of its own. "
    "Ctrl-C cancels.\n"
)
MAX_PROMPT = 4 * 1024 * 1024
"""Bytes of a prompt from standard input."""


class Exit(IntEnum):
    """The exit codes of ``deputy run``."""

    DONE = 0
    FAILED = 1
    """The turn ended early: the model failed, refused or was cut off, or a limit was reached."""
    USAGE = 2
    DENIED = 3
    """The turn ended, but a permission request was denied."""
    EDIT_FAILED = 4
    """The turn ended, but an edit could not be made, and no later edit of the file was."""
    CANCELLED = 130


@dataclass(frozen=True, slots=True)
class RunOptions:
    """``latest`` continues the newest session of the folder, ``session`` the one with this id."""

    prompt: str
    json: bool = False
    latest: bool = False
    session: str | None = None
    agent: str | None = None
    model: str | None = None
    effort: Effort | None = None
    mode: PermissionMode | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_turns: int | None = None
    budget: float | None = None
    trust: bool = False

    @property
    def fresh(self) -> bool:
        """Whether the run starts a new session."""
        return self.session is None and not self.latest

    def settings(self, base: Settings) -> Settings:
        """``base`` with the options applied.

        Raises:
            InvalidRequest: a rule is invalid.
        """
        rules = (
            *base.permissions.rules,
            *_rules(self.deny, DecisionKind.DENY),
            *_rules(self.allow, DecisionKind.ALLOW),
        )
        base = overlaid(base, trusted=self.trust or None)
        tree = overlaid(base.budgets.tree, cost=self.budget)
        return overlaid(
            base,
            model=self.model,
            effort=self.effort and model.Effort(self.effort.value),
            permission_mode=self.mode and session.PermissionMode(self.mode.value),
            limits=overlaid(base.limits, turn_iterations=self.max_turns),
            budgets=overlaid(base.budgets, tree=tree),
            permissions=overlaid(base.permissions, rules=rules),
        )


def _rules(texts: Iterable[str], decision: DecisionKind) -> Iterator[RuleSetting]:
    for text in texts:
        rule = parse_rule(text, decision)
        yield RuleSetting(tool=rule.tool, pattern=rule.pattern, action=RuleAction(decision.value))


def prompt_of(argument: str, source: BinaryIO) -> str:
    """The prompt: ``argument``, or the content of ``source`` if that is ``-``.

    Raises:
        InvalidRequest: it is empty, too long, or not text, or a pipe brings a command of Deputy.
    """
    if argument == "-":
        if source.isatty():
            sys.stderr.write(_ASK_FOR_PROMPT)
            sys.stderr.flush()
        text = _read_prompt(source)
        if not source.isatty() and (call := parse_call(text)) is not None and call[0] in BUILTIN_COMMANDS:
            # What a pipe brings was written by someone else, and must not change the permission mode or the session.
            raise InvalidRequest(f"/{call[0]} is a command of Deputy. Pass it as an argument.")
        return text
    if not argument.strip():
        raise InvalidRequest("The prompt is empty. Pass it as an argument, or '-' to read it from standard input.")
    # In an ASCII locale, Python stores the bytes of an argument as surrogates.
    return os.fsencode(argument).decode(errors="replace")


def _read_prompt(source: BinaryIO) -> str:
    data = source.read(MAX_PROMPT + 1)
    if len(data) > MAX_PROMPT:
        raise InvalidRequest(
            f"The prompt on standard input is longer than {MAX_PROMPT:,} bytes. Name a file in the prompt instead."
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"The prompt on standard input is not UTF-8 text (byte {error.start}).") from None
    if not text.strip():
        raise InvalidRequest("The prompt on standard input is empty.")
    return text
