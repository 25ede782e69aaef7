"""Tools that find files and text with ripgrep: ``glob`` and ``grep``. Files that the agent may not read are omitted."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import Location, ToolKind
from deputy_agents.files.disk import TooLarge
from deputy_agents.files.place import PathKind, Place
from deputy_agents.files.spelling import unescaped
from deputy_agents.permission.file_access import READ_FILE, folder_access, read_access
from deputy_agents.text import cut, visible, well_formed
from deputy_agents.tool.args import ArgsTool, PathArgs
from deputy_agents.tool.base import Prepared, ToolContext, ToolOutput
from deputy_agents.tool.match import matcher, name_globs
from deputy_agents.tool.ripgrep import LINES, NAMES, search

MAX_FILES = 500
MAX_MATCHES = 200
MAX_CHARS = 40_000
MAX_COLUMNS = 400
MAX_LOCATIONS = 50

_GREP = (
    "--line-number",
    "--with-filename",
    "--no-heading",
    "--crlf",
    f"--max-columns={MAX_COLUMNS}",
    "--max-columns-preview",
    "--max-filesize=10M",
)


class GlobArgs(PathArgs):
    pattern: Annotated[
        str,
        Field(
            min_length=1,
            max_length=1000,
            description="Glob such as src/**/*.py. Without a slash it matches at any depth. "
            "[ab] is one of these characters, and also matches a name with these brackets.",
        ),
    ]
    path: Annotated[str, Field(description="Folder to search.")] = "."


class GrepArgs(PathArgs):
    pattern: Annotated[
        str, Field(min_length=1, max_length=1000, description="Regular expression (ripgrep syntax), matched per line.")
    ]
    path: Annotated[str, Field(description="Folder or file to search.")] = "."
    glob: Annotated[str, Field(max_length=1000, description="Only files that match this glob, such as *.{ts,tsx}.")] = (
        ""
    )


class Glob(ArgsTool[GlobArgs]):
    """Lists paths of files, sorted."""

    def __init__(self) -> None:
        super().__init__(
            "glob",
            ToolKind.SEARCH,
            GlobArgs,
            "Lists the files whose path matches a glob, sorted. Files excluded by .gitignore are omitted.",
        )

    async def prepare(self, args: GlobArgs, context: ToolContext) -> Prepared:
        place = await args.locate(context)
        await _check_exists(place, context)
        if place.kind is not PathKind.FOLDER:
            raise ToolError(f"path: {context.workspace.shown(place, context.cwd)} is not a folder.")
        access = folder_access(self.name, place)
        return Prepared(_target(args.pattern, place, context), access, (Location(str(place.path)),))

    async def run(self, args: GlobArgs, context: ToolContext) -> ToolOutput:
        place = await args.relocate(context)
        results = _Results(MAX_FILES)
        included = _path_filter(unescaped(args.pattern), place, context)

        def take(record: re.Match[bytes]) -> bool:
            path = _path(record[1])
            return not included(path) or results.add(_shown(path, place, context))

        async with context.workspace.working_directory(place) as cwd:
            complete = await search(["--files"], [], NAMES, take, cwd=cwd, source=None)
        nothing = f"No files match.{_absolute_glob_note(args.pattern)}"
        return ToolOutput(results.text(complete, nothing, "more files match; narrow the pattern or path"))


class Grep(ArgsTool[GrepArgs]):
    """Lists lines that match a regular expression, as ``path:line:text``."""

    def __init__(self) -> None:
        super().__init__(
            "grep",
            ToolKind.SEARCH,
            GrepArgs,
            "Finds lines that match a regular expression and returns path:line:text, files with unsaved changes first. "
            "Files excluded by .gitignore, binary files, files larger than 10 MB and files that may hold secrets are "
            "omitted. A file given as path is searched regardless of its size.",
        )

    async def prepare(self, args: GrepArgs, context: ToolContext) -> Prepared:
        place = await args.locate(context)
        await _check_exists(place, context)
        access = folder_access if place.kind is PathKind.FOLDER else read_access
        location = Location(str(place.path))
        return Prepared(_target(args.pattern, place, context), access(self.name, place), (location,))

    async def run(self, args: GrepArgs, context: ToolContext) -> ToolOutput:
        place = await args.relocate(context)
        results = _Results(MAX_MATCHES)
        if place.kind is PathKind.FOLDER:
            complete = await self._search_folder(args, place, context, results)
        else:
            complete = await self._search_file(args, place, context, results)
        nothing = f"No matches.{_absolute_glob_note(args.glob)}"
        return ToolOutput(
            results.text(complete, nothing, "more matches; narrow the pattern, path or glob"),
            locations=tuple(results.locations),
        )

    async def _search_folder(self, args: GrepArgs, place: Place, context: ToolContext, results: "_Results") -> bool:
        glob = unescaped(args.glob)
        included = _path_filter(glob or "**", place, context)
        names = name_globs(glob)
        options = [*_GREP, *(f"--type-add=deputy:{name}" for name in names), *(["--type=deputy"] if names else [])]

        unsaved = await context.workspace.unsaved(place)
        for path in filter(included, unsaved):
            shown = _shown(path, place, context)
            if not await _search_text(args.pattern, unsaved[path], place.path / path, shown, results):
                return False

        def take(record: re.Match[bytes]) -> bool:
            path = _path(record[1])
            if path in unsaved or not included(path):
                return True
            return results.match(place.path / path, _shown(path, place, context), record)

        async with context.workspace.working_directory(place) as cwd:
            return await search(options, [args.pattern, "./"], LINES, take, cwd=cwd, source=None)

    async def _search_file(self, args: GrepArgs, place: Place, context: ToolContext, results: "_Results") -> bool:
        """Search one file through the workspace, which prefers open documents and follows no links."""
        shown = context.workspace.shown(place, context.cwd)
        try:
            file = await context.workspace.read(place)
        except TooLarge:
            async with context.workspace.opened(place) as descriptor:
                return await _search_source(args.pattern, descriptor, place.path, shown, results)
        if file is None:
            raise ToolError(f"There is no file {shown}.")
        return await _search_text(args.pattern, file.text, place.path, shown, results)


async def _search_text(pattern: str, text: str, path: Path, shown: str, results: "_Results") -> bool:
    return await _search_source(pattern, well_formed(text).encode(), path, shown, results)


async def _search_source(pattern: str, source: bytes | int, path: Path, shown: str, results: "_Results") -> bool:
    """Search the content of the file at ``path`` in the same way as ripgrep searches files."""

    def take(record: re.Match[bytes]) -> bool:
        return results.match(path, shown, record)

    return await search(_GREP, [pattern, "-"], LINES, take, cwd=path.anchor, source=source)


@dataclass(slots=True)
class _Results:
    """Result lines, limited in number and in characters."""

    limit: int
    lines: list[str] = field(default_factory=list[str])
    locations: list[Location] = field(default_factory=list[Location])
    room: int = MAX_CHARS

    def add(self, line: str) -> bool:
        """Add ``line``; false if it exceeds a limit."""
        self.room -= len(line) + 1
        if len(self.lines) >= self.limit or self.room < 0:
            return False
        self.lines.append(line)
        return True

    def match(self, path: Path, shown: str, record: re.Match[bytes]) -> bool:
        """Add a matching line; false if it exceeds a limit."""
        number, text = int(record[2]), record[3].decode(errors="replace").rstrip()
        if len(self.locations) < MAX_LOCATIONS:
            self.locations.append(Location(str(path), number, number))
        return self.add(f"{shown}:{number}:{text}")

    def text(self, complete: bool, nothing: str, more: str) -> str:
        if complete:
            return "\n".join(self.lines) or nothing
        return "\n".join([*self.lines, f"[cut here: {more}]"])


def _path_filter(glob: str, place: Place, context: ToolContext) -> Callable[[str], bool]:
    """A predicate for paths, relative to ``place``, that match ``glob`` and that the agent may read. An absolute glob
    may start with the path of ``place``.

    Raises:
        ToolError: the glob is invalid or leads out of ``place``.
    """
    if ".." in glob.split("/"):
        raise ToolError(
            f"The glob {visible(glob)} leads out of the searched folder. Pass the other folder as path. "
            "Files outside the workspace cannot be searched."
        )
    matched = matcher(glob.replace(f"{place.path}/", "/", 1) if glob.startswith(f"{place.path}/") else glob)

    return lambda path: matched(path) and is_readable(path, place, context)


def is_readable(path: str, place: Place, context: ToolContext) -> bool:
    """Whether searches show the file at ``path`` below ``place``."""
    file = place.below(path)
    return not file.secret and all(map(context.may_read, read_access(READ_FILE, file)))


def _absolute_glob_note(glob: str) -> str:
    """A note for a glob without matches if it looks like an absolute path."""
    if not glob.startswith("/"):
        return ""
    return " A glob is relative to the searched folder; files outside the workspace cannot be searched."


async def _check_exists(place: Place, context: ToolContext) -> None:
    if not await context.workspace.has(place):
        raise ToolError(f"path: {context.workspace.shown(place, context.cwd)} does not exist.")


def _path(record: bytes) -> str:
    return os.fsdecode(record.removeprefix(b"./")).replace(os.sep, "/")


def _shown(path: str, place: Place, context: ToolContext) -> str:
    whole = place.path / path
    return visible(str(whole.relative_to(context.cwd) if whole.is_relative_to(context.cwd) else whole))


def _target(pattern: str, place: Place, context: ToolContext) -> str:
    shown = context.workspace.shown(place, context.cwd)
    short = cut(visible(pattern), 100)
    return short if shown == "." else f"{short} in {shown}"
