"""Finds the definitions that there are for a workspace: built in, in the user's home, and in the workspace.

The nearest wins: workspace over home over built-in, and on one level ``.deputy`` over ``.claude``, then the earlier
root. In a workspace that is not trusted only home and built-in count.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from anyio import to_thread

from deputy_agents.definition.definition import FOLDERS, Definition
from deputy_agents.definition.folder import Listing, MarkdownFile, Unreadable, list_markdown, read_markdown
from deputy_agents.definition.loader import Parsed, built_in, parse_definition
from deputy_agents.domain.problem import Problem
from deputy_agents.files.paths import home_folder


@dataclass(frozen=True, slots=True)
class _Place:
    """A folder of definitions; ``within`` is the workspace root that it must not leave, ``None`` at home."""

    path: Path
    within: Path | None = None


@dataclass(frozen=True, slots=True)
class _Question:
    """What a state is the answer to: nothing is read again while it stays the same."""

    places: tuple[tuple[_Place, Listing], ...]
    known_tools: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class _State:
    question: _Question
    definitions: Mapping[str, Definition]
    problems: tuple[Problem, ...]
    parsed: Mapping[MarkdownFile, Parsed]
    typed: Mapping[MarkdownFile, str | None]
    """The names of those that are tools of their own."""


class Catalogue:
    """The definitions of one workspace. ``roots``, ``trusted`` and ``known_tools`` may be set at any time and count
    from the next load; until the first one there are the built-in definitions. ``home`` is the user's home folder,
    ``known_tools`` the tools that there are (``None``: do not look)."""

    def __init__(
        self,
        roots: Sequence[Path],
        *,
        trusted: bool,
        known_tools: Collection[str] | None = None,
        home: Path | None = None,
    ) -> None:
        self.roots = tuple(roots)
        self.trusted = trusted
        self.known_tools = known_tools
        self._home = home
        self._state: _State | None = None

    @property
    def definitions(self) -> Mapping[str, Definition]:
        """By name: the built-in ones first, then the others by their names."""
        return self._state.definitions if self._state else built_in()

    @property
    def problems(self) -> Sequence[Problem]:
        """What the user has to know about files, in the order in which they were found."""
        return self._state.problems if self._state else ()

    def subagents(self) -> tuple[Definition, ...]:
        """Those that a child may be of."""
        return tuple(definition for definition in self.definitions.values() if definition.is_subagent)

    def typed(self) -> tuple[Definition, ...]:
        """Those that are a tool of the primary's own."""
        return tuple(definition for definition in self.subagents() if definition.input_schema is not None)

    async def refresh(self) -> bool:
        """:meth:`load` in a worker thread, which a cancelled caller leaves to itself: a disk may be slow."""
        return await to_thread.run_sync(self.load, abandon_on_cancel=True)

    def load(self) -> bool:
        """Looks at the folders, and reads what is new in them. Blocks. Returns whether anything is different now."""
        before = self._state
        places = tuple(self._places())
        known = None if self.known_tools is None else frozenset(self.known_tools)
        question = _Question(tuple((place, list_markdown(place.path, place.within)) for place in places), known)
        if before is not None and before.question == question:
            return False
        self._state = state = _answer(question, before)
        return before is None or (before.definitions, before.problems) != (state.definitions, state.problems)

    def _places(self) -> Iterator[_Place]:
        home = self._home or home_folder()
        at_home = [] if home is None else [home / folder for folder in FOLDERS]
        if self.trusted:
            for folder in FOLDERS:
                yield from (_Place(root / folder, root) for root in self.roots if root / folder not in at_home)
        yield from map(_Place, at_home)


def _answer(question: _Question, before: _State | None) -> _State:
    typed = _typed(question, before)
    names = _names(typed)
    kept = dict[MarkdownFile, Parsed]()
    if before and (before.question.known_tools, _names(before.typed)) == (question.known_tools, names):
        kept.update(before.parsed)
    parsed: dict[MarkdownFile, Parsed] = {}
    problems: list[Problem] = []
    found: dict[str, Definition] = {}
    for place, listing in question.places:
        problems += (Problem(file, 1, reason, fatal=True) for file, reason in listing.refused)
        here: dict[str, Definition] = {}
        real: dict[str, str] = {}
        for file in listing.files:
            parsed[file] = one = kept.get(file) or _read(file, question.known_tools, names)
            problems += one.problems
            if one.definition is not None and real.get(one.definition.name) != file.real:  # else a link to it
                definition = replace(one.definition, own=place.within is None)
                real.setdefault(definition.name, file.real)
                problems += _clash(definition, here, found, workspace=not definition.own)
                here.setdefault(definition.name, definition)
        found = here | found
    own = {name: found.get(name, definition) for name, definition in built_in().items()}
    definitions = own | {name: found[name] for name in sorted(found)}
    return _State(question, definitions, tuple(problems), parsed, typed)


def _names(typed: Mapping[MarkdownFile, str | None]) -> frozenset[str]:
    """All agents that are tools of their own, the built-in ones included."""
    of_files = (name for name in typed.values() if name)
    return frozenset((*of_files, *(one.name for one in built_in().values() if one.input_schema)))


def _typed(question: _Question, before: _State | None) -> Mapping[MarkdownFile, str | None]:
    """What has to be known of all files before one can be read: its tools may be agents of the others."""
    kept = before.typed if before else dict[MarkdownFile, str | None]()
    files = (file for _, listing in question.places for file in listing.files)
    return {file: kept[file] if file in kept else _typed_name(file) for file in files}


def _typed_name(file: MarkdownFile) -> str | None:
    try:
        text = read_markdown(file)
    except Unreadable:
        return None
    if "schema" not in text.lower():  # reading one takes milliseconds, and few have any
        return None
    found = parse_definition(file.path, text).definition
    return found.name if found and found.input_schema else None


def _read(file: MarkdownFile, known_tools: frozenset[str] | None, typed: frozenset[str]) -> Parsed:
    parse = partial(parse_definition, source=file.path, known_tools=known_tools, replaces=built_in(), typed=typed)
    try:
        return parse(file.path, read_markdown(file))
    except Unreadable as error:
        return Parsed(None, (Problem(file.path, 1, str(error), fatal=True),))


def _clash(
    definition: Definition, here: Mapping[str, Definition], found: Mapping[str, Definition], *, workspace: bool
) -> Iterator[Problem]:
    name = definition.name
    if name in here:
        yield Problem(definition.source, 1, f"{here[name].source} defines {name!r} too and is used.", fatal=True)
    elif workspace and name in built_in() and name not in found:
        yield Problem(definition.source, 1, f"It replaces the built-in agent {name!r} in this workspace.")
