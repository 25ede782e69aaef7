"""Finding files and text with ripgrep: ``glob`` and ``grep``. What the agent may not read is left out."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import Field

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import Location, ToolKind
from deputy_agents.domain.rule import AccessRequest, Action
from deputy_agents.files.disk import TooLarge
from deputy_agents.files.workspace import PathKind, Place, is_secret
from deputy_agents.text import cut, readable, visible
from deputy_agents.tool.args import ArgsTool, PathArgs
from deputy_agents.tool.base import Prepared, ToolContext, ToolOutput
from deputy_agents.tool.match import last_part, matcher
from deputy_agents.tool.read import folder_request, read_request
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
            description="Glob such as src/**/*.py; without a slash it matches at any depth.",
        ),
    ]
    path: Annotated[str, Field(description="Folder to search.")] = "."


class GrepArgs(PathArgs):
    pattern: Annotated[
        str, Field(min_length=1, max_length=1000, description="Regular expression (ripgrep's), matched line by line.")
    ]
    path: Annotated[str, Field(description="Folder or file to search.")] = "."
    glob: Annotated[str, Field(max_length=1000, description="Only files that match this glob, such as *.{ts,tsx}.")] = (
        ""
    )


class Glob(ArgsTool[GlobArgs]):
    """Paths of files, sorted."""

    def __init__(self) -> None:
        super().__init__(
            "glob",
            ToolKind.SEARCH,
            GlobArgs,
            "Lists files whose path matches a glob, sorted. What .gitignore excludes is left out.",
        )

    async def prepare(self, args: GlobArgs, context: ToolContext) -> Prepared:
        place = await args.look(context)
        await _must_exist(place, context)
        if place.kind is not PathKind.FOLDER:
            raise ToolError(f"path: {context.workspace.shown(place, context.cwd)} is no folder.")
        request = folder_request(self.name, place)
        return Prepared(_target(args.pattern, place, context), [request], (Location(str(place.path)),))

    async def run(self, args: GlobArgs, context: ToolContext) -> ToolOutput:
        place = await args.use(context)
        found = _Found(MAX_FILES)
        wanted = _wanted(args.pattern, place, context)

        def take(record: re.Match[bytes]) -> bool:
            path = _path(record[1])
            return not wanted(path) or found.add(_shown(path, place, context))

        async with context.workspace.working_directory(place) as cwd:
            whole = await search(["--files"], [], NAMES, take, cwd=cwd, source=None)
        nothing = f"No files match.{_start(args.pattern)}"
        return ToolOutput(found.text(whole, nothing, "more files match; narrow the pattern or path"))


class Grep(ArgsTool[GrepArgs]):
    """Lines of files that match a regular expression, as ``path:line:text``."""

    def __init__(self) -> None:
        super().__init__(
            "grep",
            ToolKind.SEARCH,
            GrepArgs,
            "Finds lines that match a regular expression; answers path:line:text, files with unsaved changes first. "
            "What .gitignore excludes, binary files, files of more than 10 MB and files that may hold secrets are left "
            "out; one that is named as path is searched whatever its size.",
        )

    async def prepare(self, args: GrepArgs, context: ToolContext) -> Prepared:
        place = await args.look(context)
        await _must_exist(place, context)
        request = read_request(self.name, place) if place.kind is PathKind.FILE else folder_request(self.name, place)
        return Prepared(_target(args.pattern, place, context), [request], (Location(str(place.path)),))

    async def run(self, args: GrepArgs, context: ToolContext) -> ToolOutput:
        place = await args.use(context)
        found = _Found(MAX_MATCHES)
        if place.kind is PathKind.FOLDER:
            whole = await self._in_folder(args, place, context, found)
        else:
            whole = await self._in_file(args, place, context, found)
        return ToolOutput(
            found.text(whole, f"No matches.{_start(args.glob)}", "more matches; narrow the pattern, path or glob"),
            locations=tuple(found.locations),
        )

    async def _in_folder(self, args: GrepArgs, place: Place, context: ToolContext, found: "_Found") -> bool:
        wanted = _wanted(args.glob or "**", place, context)
        sieve = last_part(args.glob)
        options = [*_GREP, f"--type-add=deputy:{sieve}", "--type=deputy"] if sieve else _GREP

        unsaved = await context.workspace.unsaved(place)
        for path in filter(wanted, unsaved):
            if not await _in_text(args.pattern, unsaved[path], place.path / path, _shown(path, place, context), found):
                return False

        def take(record: re.Match[bytes]) -> bool:
            path = _path(record[1])
            if path in unsaved or not wanted(path):
                return True
            return found.match(place.path / path, _shown(path, place, context), record)

        async with context.workspace.working_directory(place) as cwd:
            return await search(options, [args.pattern, "./"], LINES, take, cwd=cwd, source=None)

    async def _in_file(self, args: GrepArgs, place: Place, context: ToolContext, found: "_Found") -> bool:
        """One file goes through the workspace, which looks at open documents first and follows no link."""
        shown = context.workspace.shown(place, context.cwd)
        try:
            file = await context.workspace.read(place)
        except TooLarge:
            async with context.workspace.opened(place) as descriptor:
                return await _in_source(args.pattern, descriptor, place.path, shown, found)
        if file is None:
            raise ToolError(f"There is no file {shown}.")
        return await _in_text(args.pattern, file.text, place.path, shown, found)


async def _in_text(pattern: str, text: str, path: Path, shown: str, found: "_Found") -> bool:
    return await _in_source(pattern, readable(text).encode(), path, shown, found)


async def _in_source(pattern: str, source: bytes | int, path: Path, shown: str, found: "_Found") -> bool:
    """Searches what the file at ``path`` holds, just as ripgrep searches files."""

    def take(record: re.Match[bytes]) -> bool:
        return found.match(path, shown, record)

    return await search(_GREP, [pattern, "-"], LINES, take, cwd=path.anchor, source=source)


@dataclass(slots=True)
class _Found:
    """Result lines, bounded in number and in characters."""

    limit: int
    lines: list[str] = field(default_factory=list[str])
    locations: list[Location] = field(default_factory=list[Location])
    room: int = MAX_CHARS

    def add(self, line: str) -> bool:
        """Whether there was room for ``line``."""
        self.room -= len(line) + 1
        if len(self.lines) >= self.limit or self.room < 0:
            return False
        self.lines.append(line)
        return True

    def match(self, path: Path, shown: str, record: re.Match[bytes]) -> bool:
        """Adds a matching line; false when there was no room."""
        number, text = int(record[2]), record[3].decode(errors="replace").rstrip()
        if len(self.locations) < MAX_LOCATIONS:
            self.locations.append(Location(str(path), number, number))
        return self.add(f"{shown}:{number}:{text}")

    def text(self, whole: bool, nothing: str, more: str) -> str:
        if whole:
            return "\n".join(self.lines) or nothing
        return "\n".join([*self.lines, f"[cut here: {more}]"])


def _wanted(glob: str, place: Place, context: ToolContext) -> Callable[[str], bool]:
    """Which paths, relative to ``place``, belong to the answer. An absolute glob may lead there.

    Raises:
        ToolError: the glob is malformed or leads elsewhere.
    """
    if ".." in glob.split("/"):
        raise ToolError(
            f"The glob {visible(glob)} leads out of the folder that is searched: give that folder as path. "
            "What is outside the workspace cannot be searched."
        )
    matched = matcher(glob.replace(f"{place.path}/", "/", 1) if glob.startswith(f"{place.path}/") else glob)

    def wanted(path: str) -> bool:
        below = str(PurePosixPath(*place.parts, path))
        whole = place.whole and f"{place.whole}/{path}"
        return (
            matched(path)
            and not is_secret(below)
            and context.may_read(AccessRequest("read_file", Action.READ, below, whole))
        )

    return wanted


def _start(glob: str) -> str:
    """What to know of a glob that found nothing, if it looks like an absolute path."""
    if not glob.startswith("/"):
        return ""
    return " A glob starts at the folder that is searched; what is outside the workspace cannot be searched."


async def _must_exist(place: Place, context: ToolContext) -> None:
    if not await context.workspace.has(place):
        raise ToolError(f"path: there is no {context.workspace.shown(place, context.cwd)}.")


def _path(record: bytes) -> str:
    return os.fsdecode(record.removeprefix(b"./")).replace(os.sep, "/")


def _shown(path: str, place: Place, context: ToolContext) -> str:
    whole = place.path / path
    return visible(str(whole.relative_to(context.cwd) if whole.is_relative_to(context.cwd) else whole))


def _target(pattern: str, place: Place, context: ToolContext) -> str:
    shown = context.workspace.shown(place, context.cwd)
    short = cut(visible(pattern), 100)
    return short if shown == "." else f"{short} in {shown}"
