"""Finds the agent definitions of a workspace: built-in ones, those in the user's home, and those in the workspace.

Of several definitions with one name, the nearest is used: workspace before home before built-in, then ``.deputy``
before ``.claude``, then the earlier root. In an untrusted workspace, only built-in definitions and those at home are
used.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from anyio import to_thread

from deputy_agents.definition.definition import FOLDERS, Definition
from deputy_agents.definition.folder import Listing, MarkdownFile, Unreadable, list_markdown, read_markdown
from deputy_agents.definition.loader import Parsed, built_in, parse_definition
from deputy_agents.definition.search_folders import SearchFolder, search_folders
from deputy_agents.domain.problem import Problem
from deputy_agents.files.paths import home_folder


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Everything that determines a state: while it is unchanged, nothing is read again."""

    listings: tuple[tuple[SearchFolder, Listing], ...]
    known_tools: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class _State:
    inputs: _Inputs
    definitions: Mapping[str, Definition]
    problems: tuple[Problem, ...]
    parsed: Mapping[MarkdownFile, Parsed]
    typed: Mapping[MarkdownFile, str | None]
    """The name of each typed definition, ``None`` for other files."""


class Catalogue:
    """The definitions of one workspace: the built-in ones until the first load. ``roots``, ``trusted`` and
    ``known_tools`` can be set at any time and take effect at the next load. ``known_tools`` are the available tools;
    ``None`` disables the check of tool names. ``home`` is the user's home folder."""

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
        """By name. The built-in ones come first, the others are sorted by name."""
        return self._state.definitions if self._state else built_in()

    @property
    def problems(self) -> Sequence[Problem]:
        """Problems in definition files, in the order in which they were found."""
        return self._state.problems if self._state else ()

    def subagents(self) -> tuple[Definition, ...]:
        """The definitions of sub-agents."""
        return tuple(definition for definition in self.definitions.values() if definition.is_subagent)

    def typed(self) -> tuple[Definition, ...]:
        """The sub-agents that the primary agent calls as tools of their name."""
        return tuple(definition for definition in self.subagents() if definition.input_schema is not None)

    async def refresh(self) -> bool:
        """Run :meth:`load` in a worker thread. If the caller is cancelled, the thread is abandoned: a disk may be
        slow."""
        return await to_thread.run_sync(self.load, abandon_on_cancel=True)

    def load(self) -> bool:
        """List the folders and read new and changed files. Return whether anything has changed. Blocks."""
        before = self._state
        folders = search_folders(self.roots, self._home or home_folder(), self.trusted, FOLDERS)
        known = None if self.known_tools is None else frozenset(self.known_tools)
        inputs = _Inputs(tuple((folder, list_markdown(folder.path, folder.within)) for folder in folders), known)
        if before is not None and before.inputs == inputs:
            return False
        self._state = state = _load_state(inputs, before)
        return before is None or (before.definitions, before.problems) != (state.definitions, state.problems)


def _load_state(inputs: _Inputs, before: _State | None) -> _State:
    typed = _typed_names(inputs, before)
    names = _all_typed(typed)
    cached = dict[MarkdownFile, Parsed]()
    if before and (before.inputs.known_tools, _all_typed(before.typed)) == (inputs.known_tools, names):
        cached.update(before.parsed)
    parsed: dict[MarkdownFile, Parsed] = {}
    problems: list[Problem] = []
    found: dict[str, Definition] = {}
    for folder, listing in inputs.listings:
        problems += (Problem(file, 1, reason, fatal=True) for file, reason in listing.rejected)
        here: dict[str, Definition] = {}
        real: dict[str, str] = {}
        for file in listing.files:
            parsed[file] = one = cached.get(file) or _read(file, inputs.known_tools, names)
            problems += one.problems
            if one.definition is not None and real.get(one.definition.name) != file.real:  # else a link to it
                definition = replace(one.definition, from_home=folder.within is None)
                real.setdefault(definition.name, file.real)
                problems += _name_conflicts(definition, here, found)
                here.setdefault(definition.name, definition)
        found = here | found
    first = {name: found.get(name, definition) for name, definition in built_in().items()}
    definitions = first | {name: found[name] for name in sorted(found)}
    return _State(inputs, definitions, tuple(problems), parsed, typed)


def _all_typed(typed: Mapping[MarkdownFile, str | None]) -> frozenset[str]:
    """The names of all typed definitions, including the built-in ones."""
    of_files = (name for name in typed.values() if name)
    return frozenset((*of_files, *(one.name for one in built_in().values() if one.input_schema)))


def _typed_names(inputs: _Inputs, before: _State | None) -> Mapping[MarkdownFile, str | None]:
    """The typed definitions of all files. They must be known before any file is read, because its tools may include
    them."""
    cached = before.typed if before else dict[MarkdownFile, str | None]()
    files = (file for _, listing in inputs.listings for file in listing.files)
    return {file: cached[file] if file in cached else _typed_name(file) for file in files}


def _typed_name(file: MarkdownFile) -> str | None:
    try:
        text = read_markdown(file)
    except Unreadable:
        return None
    if "schema" not in text.lower():  # parsing takes milliseconds, and few files have a schema
        return None
    found = parse_definition(file.path, text).definition
    return found.name if found and found.input_schema else None


def _read(file: MarkdownFile, known_tools: frozenset[str] | None, typed: frozenset[str]) -> Parsed:
    parse = partial(parse_definition, source=file.path, known_tools=known_tools, replaces=built_in(), typed=typed)
    try:
        return parse(file.path, read_markdown(file))
    except Unreadable as error:
        return Parsed(None, (Problem(file.path, 1, str(error), fatal=True),))


def _name_conflicts(
    definition: Definition, here: Mapping[str, Definition], found: Mapping[str, Definition]
) -> Iterator[Problem]:
    name = definition.name
    if name in here:
        yield Problem(
            definition.source, 1, f"{here[name].source} also defines {name!r} and is used instead.", fatal=True
        )
    elif not definition.from_home and name in built_in() and name not in found:
        yield Problem(definition.source, 1, f"This file replaces the built-in agent {name!r} in this workspace.")
