"""What ``deputy run`` was told, checked before anything starts."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import BinaryIO

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import DecisionKind
from deputy_agents.permission.rule_patterns import parse_rule
from deputy_protocol import session
from deputy_protocol.base import overlaid
from deputy_protocol.rule import RuleAction
from deputy_protocol.settings import RuleSetting, Settings

MOST = 4 * 1024 * 1024
"""Bytes of a prompt from standard input."""


class Exit(IntEnum):
    """The exit codes of ``deputy run``."""

    DONE = 0
    FAILED = 1
    """The turn ended early: the model failed, refused or was cut, or a limit was reached."""
    USAGE = 2
    DENIED = 3
    """The turn ended, and something that an agent asked for was not permitted."""
    CANCELLED = 130


@dataclass(frozen=True, slots=True)
class RunOptions:
    """``latest`` goes on with the newest session of the folder, ``session`` with a certain one."""

    prompt: str
    json: bool = False
    latest: bool = False
    session: str | None = None
    agent: str | None = None
    model: str | None = None
    mode: PermissionMode | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_turns: int | None = None
    budget: float | None = None

    @property
    def fresh(self) -> bool:
        """A new session is begun."""
        return self.session is None and not self.latest

    def settings(self, base: Settings) -> Settings:
        """``base`` with what the options say.

        Raises:
            InvalidRequest: a rule cannot be read.
        """
        rules = (
            *base.permissions.rules,
            *_rules(self.deny, DecisionKind.DENY),
            *_rules(self.allow, DecisionKind.ALLOW),
        )
        tree = overlaid(base.budgets.tree, cost=self.budget)
        return overlaid(
            base,
            model=self.model,
            permission_mode=self.mode and session.PermissionMode(self.mode.value),
            limits=overlaid(base.limits, turn_iterations=self.max_turns),
            budgets=overlaid(base.budgets, tree=tree),
            permissions=overlaid(base.permissions, rules=rules),
        )


def _rules(texts: Iterable[str], effect: DecisionKind) -> Iterator[RuleSetting]:
    for text in texts:
        rule = parse_rule(text, effect)
        yield RuleSetting(tool=rule.tool, pattern=rule.pattern, action=RuleAction(effect.value))


def prompt_of(argument: str, source: BinaryIO) -> str:
    """The prompt that the command line gives, or says that ``source`` gives.

    Raises:
        InvalidRequest: it is empty, too long, or no text.
    """
    if argument == "-":
        return _read_prompt(source)
    if not argument.strip():
        raise InvalidRequest("The prompt is empty; give it as an argument, or '-' to read it from standard input.")
    # Where the locale knows no other letters than ASCII, Python keeps the bytes of an argument in surrogates.
    return os.fsencode(argument).decode(errors="replace")


def _read_prompt(source: BinaryIO) -> str:
    data = source.read(MOST + 1)
    if len(data) > MOST:
        raise InvalidRequest(f"The prompt on standard input is longer than {MOST:,} bytes; name a file in it instead.")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"The prompt on standard input is no UTF-8 text (byte {error.start}).") from None
    if not text.strip():
        raise InvalidRequest("The prompt on standard input is empty.")
    return text
