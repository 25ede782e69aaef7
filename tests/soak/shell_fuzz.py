"""A differential fuzzer of the gate: what it allows, real bash runs, and that must do nothing that was not allowed."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import AccessRequest, DecisionKind, Rule
from deputy_agents.permission.decide import Policy, decide, decide_all
from deputy_agents.permission.rule_patterns import lasting_rules
from deputy_agents.shell.word import Word
from deputy_agents.tool.registry import Registry, command_tools
from tests.soak.shell_arena import Arena, Run, Trace
from tests.soak.shell_lines import CONSTRUCTS, LineGenerator, RandomLine, shrunk
from tests.support.files import hands_on

_NAMES: Final = """
    ok1 ok2 : true false echo printf test [ [[ cd pwd read export declare typeset local readonly set shopt exec eval
    trap alias unset let mapfile readarray getopts wait hash enable command builtin time env nice timeout nohup setsid
    xargs find sh bash cat source . pushd coproc jobs compgen complete bind fc umask shift exit break
    x=* y=* i=* a=* PATH=* FOO=* IFS=* HOME=* BASH_ENV=*
""".split()  # noqa: SIM905 - as a list it would fill a page
ALLOWED: Final = (
    *(name if name.endswith("=*") else f"{name} *" for name in _NAMES),
    "exact a b",
    "FOO=1 ok1 *",
)
"""Commands that are allowed with any words, so that only the gate's reading of a line keeps another from running. The
broad rules are an attacker's: most would be unwise."""
DENIED: Final = ("deny1 *", "deny2 x *")
_RULES: Final = [
    *(Rule(pattern, "shell", DecisionKind.ALLOW, pattern) for pattern in ALLOWED),
    Rule("out", "write_file", DecisionKind.ALLOW, "out/**"),
]
_DENIALS: Final = [Rule(pattern, "shell", DecisionKind.DENY, pattern) for pattern in DENIED]


class Mode(StrEnum):
    RULES = "allow rules"
    BYPASS = "deny rules in the mode bypass"
    LASTING = "lasting answers"


_NEVER_BY_RULES: Final = frozenset(
    {"function", "coproc", "arithmetic command", "arithmetic loop", "arithmetic expansion", "expansion", "substitution"}
    | {"process substitution", "brace expansion", "ansi quotes", "assigning builtin", "trap", "unknown wrapper"}
    | {"declaration"}
)
"""Constructs that rules about commands never cover, because something in them is only known when they run."""
_NEVER_IN_BYPASS: Final = frozenset({"function", "coproc", "arithmetic command", "arithmetic loop"})
"""Constructs that ask where there is a deny rule."""
MUST_RUN: Final = {
    Mode.RULES: CONSTRUCTS - _NEVER_BY_RULES,
    Mode.BYPASS: CONSTRUCTS - _NEVER_IN_BYPASS,
    Mode.LASTING: CONSTRUCTS,
}
"""Constructs of which allowed lines must have run: if they never do, the fuzzer checks nothing of them."""


@dataclass
class Report:
    """What was tried, by mode: the number of lines, and of those with a construct."""

    seed: int
    lines: Counter[Mode] = field(default_factory=Counter[Mode])
    allowed: Counter[Mode] = field(default_factory=Counter[Mode])
    generated: Counter[tuple[Mode, str]] = field(default_factory=Counter[tuple[Mode, str]])
    ran: Counter[tuple[Mode, str]] = field(default_factory=Counter[tuple[Mode, str]])
    bypasses: list[str] = field(default_factory=list[str])

    @property
    def never_ran(self) -> list[tuple[Mode, str]]:
        return sorted((mode, one) for mode in Mode for one in MUST_RUN[mode] if not self.ran[mode, one])

    def __str__(self) -> str:
        total, allowed = self.lines.total(), self.allowed.total()
        summary = f"{total} lines, {allowed} allowed, {allowed} run, {len(self.bypasses)} bypasses (seed {self.seed})"
        return "\n".join((summary, *self.bypasses, *map(self._shares, Mode)))

    def _shares(self, mode: Mode) -> str:
        shares = (f"{one} {self.ran[mode, one]}/{self.generated[mode, one]}" for one in sorted(CONSTRUCTS))
        return f"{mode}: {self.allowed[mode]} of {self.lines[mode]} lines run; by construct: {', '.join(shares)}"


class Fuzzer:
    """Asks the gate about random lines under broad allow rules, under deny rules in the mode bypass, and after lasting
    answers about another line."""

    def __init__(self, folder: Path, seed: int, seconds_to_shrink: float = 10) -> None:
        self._seconds_to_shrink = seconds_to_shrink
        self._arena = Arena(folder / "arena")
        self._generator = LineGenerator(seed)
        self._hands = hands_on(self._arena.workspace)
        self._hands.tools = Registry(command_tools())
        self._loop = asyncio.Runner()
        self.report = Report(seed)

    def close(self) -> None:
        self._loop.close()

    def run(
        self, rounds: int, until: float = float("inf"), modes: Sequence[Mode] = tuple(Mode), most_bypasses: int = 5
    ) -> None:
        """Try a line in each of ``modes`` in each of ``rounds``, until the time ``until`` or ``most_bypasses``."""
        attempts = {Mode.RULES: self._try_rules, Mode.BYPASS: self._try_bypass_mode, Mode.LASTING: self._try_answers}
        for _ in range(rounds):
            for mode in modes:
                if time.monotonic() > until or len(self.report.bypasses) >= most_bypasses:
                    return
                attempts[mode]()

    def _needs(self, line: str) -> Sequence[AccessRequest]:
        """The access that ``line`` needs; none if it is rejected."""
        try:
            return self._loop.run(self._hands.access("shell", command=line))
        except (ToolError, ValidationError):
            return ()

    def _try_rules(self) -> None:
        line = self._generator.line(avoided=_NEVER_BY_RULES)
        policy = Policy(PermissionMode.DEFAULT, _RULES)
        self._try(line, Mode.RULES, lambda text: self._run_if(policy, text), _violations)

    def _try_bypass_mode(self) -> None:
        line = self._generator.line(avoided=_NEVER_IN_BYPASS)
        policy = Policy(PermissionMode.BYPASS, _DENIALS)
        self._try(line, Mode.BYPASS, lambda text: self._run_if(policy, text), _denied)

    def _try_answers(self) -> None:
        line = self._generator.line()
        needs = self._needs(line.text)
        policy = Policy(PermissionMode.DEFAULT, _RULES)
        asked = [need for need in needs if decide(policy, need).kind is DecisionKind.ASK]
        policy = Policy(PermissionMode.DEFAULT, [*_RULES, *lasting_rules(asked, DecisionKind.ALLOW)])
        if not asked or decide_all(policy, needs).kind is not DecisionKind.ALLOW:
            return
        approved = self._arena.run(line.text)
        subjects = {(need.part_of or need).subject for need in asked}
        # What find inserts is known to the user, and covered.
        inserted = [
            re.compile(".*".join(map(re.escape, one.split("{}"))), re.DOTALL) for one in subjects if "{}" in one
        ]

        def violations(trace: Trace) -> Iterator[str]:
            for run in trace.runs:
                text = _text(run)
                known = text in subjects or any(pattern.fullmatch(text) for pattern in inserted)
                if run not in approved.runs and not (known and _is_usual(run)):
                    yield from _violations(Trace((run,), frozenset()))
            yield from _violations(Trace((), trace.written - approved.written))

        self._count(line, Mode.LASTING, ran=True)
        for _ in range(3):
            variation = RandomLine(self._generator.variation(line.text), frozenset())
            self._try(variation, Mode.LASTING, lambda text: self._run_if(policy, text), violations, line.text)

    def _run_if(self, policy: Policy, line: str) -> Trace | None:
        """What bash does with ``line``; ``None`` if the gate does not allow it."""
        if decide_all(policy, self._needs(line)).kind is not DecisionKind.ALLOW:
            return None
        return self._arena.run(line)

    def _try(
        self,
        line: RandomLine,
        mode: Mode,
        run: Callable[[str], Trace | None],
        violations: Callable[[Trace], Iterator[str]],
        approved: str = "",
    ) -> None:
        trace = run(line.text)
        self._count(line, mode, ran=trace is not None)
        if trace is None or not any(violations(trace)):
            return

        def fails(text: str) -> bool:
            trace = run(text)
            return trace is not None and any(violations(trace))

        short = shrunk(line.text, fails, self._seconds_to_shrink)
        again = run(short)
        found = list(violations(again if again is not None else trace))
        about = f" about {approved!r}" if approved else ""
        self.report.bypasses.append(f"{short!r} with {mode}{about}: {'; '.join(found)} (from {line.text!r})")

    def _count(self, line: RandomLine, mode: Mode, ran: bool) -> None:
        self.report.lines[mode] += 1
        self.report.allowed[mode] += ran
        constructs = [(mode, construct) for construct in line.constructs]
        self.report.generated.update(constructs)
        self.report.ran.update(constructs if ran else ())


def _text(run: Run) -> str:
    return " ".join(Word(word, word).shown for word in (run.name, *run.args))


def _is_usual(run: Run) -> bool:
    return run.program.endswith(f"/programs/{run.name}") and not run.env


def _violations(trace: Trace) -> Iterator[str]:
    """What ``ALLOWED`` does not cover. This knows nothing of how the gate reads lines."""
    for run in trace.runs:
        usual = _is_usual(run) or (run.name == "ok1" and run.env == (("FOO", "1"),) and "/programs/" in run.program)
        covered = run.name in ("ok1", "ok2") or (run.name == "exact" and run.args == ("a", "b"))
        if not usual or not covered:
            yield f"ran {run}"
    for name in trace.written:
        if not name.startswith("workspace/out/"):
            yield f"wrote {name}"


def _denied(trace: Trace) -> Iterator[str]:
    for run in trace.runs:
        if run.name == "deny1" or (run.name == "deny2" and run.args[:1] == ("x",)):
            yield f"ran {run}"
