"""Random lines of bash from a grammar, with the constructs that each contains."""

import random
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FILE: Final = Path(__file__).with_name("shell_grammar.txt")
DEPTH: Final = 5
_HOSTILITY: Final = 0.25
"""How often a hostile production is chosen, as long as the line may have one more. Most lines have at most one, because
the gate asks about a line with a hostile part that it knows, and then says nothing about the others."""
_HOLE: Final = re.compile("«(q:)?([a-z]+)»")
TOKEN: Final = re.compile(
    r"""'[^']*' | "(?:\\.|[^"\\])*" | \$\(\( | \)\) | \$\{[^{}]*\} | \$\( | \$\w+ | <<-?'?E'? | [<>]&? | &&|\|\|? | ;;?
    | [(){}`"'!&=\n] | [^\S\n]+ | [^\s;&|<>(){}`"'=]+ | .""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Production:
    """``text`` has holes such as «word» for other symbols; «q:list» is quoted as one word. ``construct`` names what the
    fuzzer counts. ``hostile`` productions are in few places of a line, so that most lines are nearly harmless."""

    text: str
    construct: str = ""
    hostile: bool = False
    leaf: bool = False


def _read_grammar() -> dict[str, list[Production]]:
    grammar: dict[str, list[Production]] = {}
    symbol = ""
    for line in _FILE.read_text("utf-8").splitlines():
        if line.startswith("= "):
            symbol = line.removeprefix("= ")
            grammar[symbol] = []
        elif symbol and line:
            kind, construct, text = line[0], *line[2:].split(" :: ", 1)
            text = text.replace("⏎", "\n").replace("⇥", "\t")
            grammar[symbol].append(Production(text, construct.strip("-"), kind == "!", kind == "."))
    return grammar


GRAMMAR: Final[Mapping[str, Sequence[Production]]] = _read_grammar()
CONSTRUCTS: Final = frozenset(
    production.construct for productions in GRAMMAR.values() for production in productions if production.construct
)


@dataclass(frozen=True, slots=True)
class RandomLine:
    text: str
    constructs: frozenset[str]


class LineGenerator:
    """Generates lines. The same seed gives the same lines."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._constructs: set[str] = set()
        self._avoided: frozenset[str] = frozenset()
        self._hostile_left = 0

    def line(self, avoided: frozenset[str] = frozenset()) -> RandomLine:
        """A line in which the constructs ``avoided`` are rare."""
        self._constructs = set()
        self._avoided = avoided if self.random.random() < 0.7 else frozenset()
        self._hostile_left = self.random.choice((0, 1, 1, 1, 2, 100))
        text = self._expand("line", 0)
        return RandomLine(text, frozenset(self._constructs))

    def variation(self, line: str) -> str:
        """``line`` with a few words replaced, inserted or left out."""
        tokens = TOKEN.findall(line)
        self._hostile_left = 100
        self._avoided = frozenset()
        for _ in range(self.random.randint(1, 3)):
            at = self.random.randrange(len(tokens) + 1)
            match self.random.randrange(5):
                case 0:
                    del tokens[at : at + 1]
                case 1:
                    tokens[at : at + 1] = [self._expand("word", 3)]
                case 2:
                    tokens.insert(at, f" {self._expand('word', 3)} ")
                case 3:
                    symbol = self.random.choice(("cmd", "effect", "effect"))
                    tokens = [self._expand(symbol, 3), self.random.choice(("; ", "\n", " && ")), *tokens]
                case _:
                    tokens += [self.random.choice(("; ", "\n", " && ", " | ")), self._expand("cmd", 3)]
        return "".join(tokens)

    def _expand(self, symbol: str, depth: int) -> str:
        productions = GRAMMAR[symbol]
        if depth >= DEPTH and any(production.leaf for production in productions):
            productions = [production for production in productions if production.leaf]
        productions = [production for production in productions if production.construct not in self._avoided]
        hostile = self._hostile_left > 0 and self.random.random() < _HOSTILITY
        chosen = [production for production in productions if production.hostile is hostile] or productions
        production = self.random.choice(chosen)
        self._hostile_left -= production.hostile
        if production.construct:
            self._constructs.add(production.construct)

        def filled(hole: re.Match[str]) -> str:
            text = self._expand(hole[2], depth + 1)
            return shlex.quote(text) if hole[1] else text

        return _HOLE.sub(filled, production.text)


def shrunk(line: str, fails: Callable[[str], bool], seconds: float = 10) -> str:
    """A short line that still fails: words are left out as long as possible, for at most ``seconds``."""
    tokens, until = TOKEN.findall(line), time.monotonic() + seconds
    size = max(1, len(tokens) // 2)
    while size:
        at = 0
        while at < len(tokens) and time.monotonic() < until:
            candidate = tokens[:at] + tokens[at + size :]
            if candidate and fails("".join(candidate)):
                tokens = candidate
            else:
                at += size
        size //= 2
    return "".join(tokens)
