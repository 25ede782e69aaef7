"""Tools that query the language servers of the editor: ``diagnostics`` and ``lookup``. They are offered only while a
connected editor supports them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import Location, ToolKind
from deputy_agents.files.place import PathKind, Place
from deputy_agents.permission.file_access import READ_FILE, folder_access, read_access
from deputy_agents.ports.editor import Ability, Diagnostic, Spot, Symbol
from deputy_agents.text import clean, cut, cut_bytes, lines_without_ends, visible, well_formed
from deputy_agents.tool.args import ArgsTool, PathArgs
from deputy_agents.tool.base import Prepared, ToolContext, ToolOutput
from deputy_agents.tool.feedback import describe

REQUIRED_ABILITIES: Final[Mapping[str, Ability]] = {"diagnostics": Ability.DIAGNOSTICS, "lookup": Ability.NAVIGATION}
"""The editor ability that each tool requires."""

MAX_PROBLEMS = 200
MAX_SPOTS = 100
MAX_SYMBOLS = 300
MAX_HOVER = 8 * 1024
MAX_LINE = 300
MAX_CHARS = 40_000
MAX_FILES = 40
"""Files whose lines are included next to the locations in them."""
MAX_LOCATIONS = 50
_NONE_FOUND = "The editor found none."


class DiagnosticsArgs(PathArgs):
    path: Annotated[str, Field(description="File or folder to report on.")] = "."


class Diagnostics(ArgsTool[DiagnosticsArgs]):
    """Lists the problems that the editor shows."""

    def __init__(self) -> None:
        super().__init__(
            "diagnostics",
            ToolKind.READ,
            DiagnosticsArgs,
            "Lists the errors and warnings that the user's editor currently shows (from its language servers and "
            "linters) as path:line: severity: message, most severe first. Most editors report only on open files.",
        )

    async def prepare(self, args: DiagnosticsArgs, context: ToolContext) -> Prepared:
        context.editors.editor_for(Ability.DIAGNOSTICS)
        place = await args.locate(context)
        return _prepared(self.name, place, context.workspace.shown(place, context.cwd))

    async def run(self, args: DiagnosticsArgs, context: ToolContext) -> ToolOutput:
        place = await args.located(context)
        paths = [place.path] if place.kind is PathKind.FILE else None
        found = await context.editors.editor_for(Ability.DIAGNOSTICS).diagnostics(paths)
        names = _names(await _readable((problem.path for problem in found), place, context), context)
        here = sorted((problem for problem in found if problem.path in names), key=_order)
        lines = [f"{names[problem.path]}:{problem.line}: {describe(problem)}" for problem in here]
        where = "" if place.path == context.cwd else f" in {context.workspace.shown(place, context.cwd)}"
        return ToolOutput(
            _listing(lines, MAX_PROBLEMS, "problems") or f"The editor shows no problems{where}.",
            locations=tuple(Location(str(one.path), one.line, one.line) for one in here[:MAX_LOCATIONS]),
        )


class LookupArgs(PathArgs):
    find: Annotated[
        Literal["definition", "references", "hover", "symbols"],
        Field(description="definition, references or hover of a symbol in a file; or the symbols of a file."),
    ]
    path: Annotated[
        str, Field(description="File that contains the symbol; for symbols also a folder, to search the workspace.")
    ] = "."
    symbol: Annotated[
        str, Field(max_length=500, description="The symbol as written in the file; for symbols of a folder, a query.")
    ] = ""
    line: Annotated[int | None, Field(ge=1, description="Line of the symbol, counted from 1.")] = None


class Lookup(ArgsTool[LookupArgs]):
    """Finds definitions, references, types and symbols."""

    def __init__(self) -> None:
        super().__init__(
            "lookup",
            ToolKind.SEARCH,
            LookupArgs,
            "Queries the language servers of the user's editor about code: where a symbol is defined, where it is "
            "used, what it is (hover: type and documentation), or which symbols a file or the workspace has. It is "
            "exact where grep is approximate; use grep if it finds nothing.",
        )

    async def prepare(self, args: LookupArgs, context: ToolContext) -> Prepared:
        context.editors.editor_for(Ability.NAVIGATION)
        place = await args.locate(context)
        shown = context.workspace.shown(place, context.cwd)
        if not await context.workspace.has(place):
            raise ToolError(f"path: {shown} does not exist.")
        if place.kind is PathKind.FOLDER and args.find != "symbols":
            raise ToolError(f"path: {args.find} needs the file that contains the symbol, but {shown} is a folder.")
        if not args.symbol.strip() and (place.kind is PathKind.FOLDER or args.find != "symbols"):
            raise ToolError("symbol: required here.")
        where = shown if args.line is None else f"{shown}:{args.line}"
        symbol = f"{cut(visible(args.symbol), 100)} in " if args.symbol else ""
        return _prepared(self.name, place, f"{args.find} of {symbol}{where}")

    async def run(self, args: LookupArgs, context: ToolContext) -> ToolOutput:
        editor = context.editors.editor_for(Ability.NAVIGATION)
        place = await args.located(context)
        if place.kind is PathKind.FOLDER:
            return await _symbols_output(await editor.workspace_symbols(args.symbol), context)
        if args.find == "symbols":
            return _outline(await editor.symbols(place.path), args.symbol)
        spot = await _spot(args, place, context)
        if args.find == "hover":
            text = clean(await editor.hover(spot)).strip()
            return ToolOutput(cut_bytes(text, MAX_HOVER, "\n[cut]") or "The editor has no information about it.")
        found = await (editor.definition(spot) if args.find == "definition" else editor.references(spot))
        return await _locations_output(found, context)


def _prepared(tool: str, place: Place, target: str) -> Prepared:
    access = folder_access(tool, place) if place.kind is PathKind.FOLDER else read_access(tool, place)
    return Prepared(target, access, (Location(str(place.path)),))


async def _spot(args: LookupArgs, place: Place, context: ToolContext) -> Spot:
    """The position of the symbol; for ``a.b``, the position of ``b``."""
    shown = context.workspace.shown(place, context.cwd)
    file = await context.workspace.read(place)
    lines = lines_without_ends(file.text) if file else []
    word = re.compile(rf"(?<!\w){re.escape(args.symbol)}(?!\w)")
    numbers = range(1, len(lines) + 1) if args.line is None else [args.line]
    for number in numbers:
        if number <= len(lines) and (match := word.search(lines[number - 1])):
            start = match.start() + max(args.symbol.rfind("."), args.symbol.rfind(":")) + 1
            return Spot(place.path, number, lines[number - 1][:start])
    where = f"on line {args.line} of {shown}" if args.line else f"in {shown}"
    raise ToolError(f"symbol: {cut(visible(args.symbol), 100)} does not occur {where}.")


async def _locations_output(found: Sequence[Location], context: ToolContext) -> ToolOutput:
    """Locations with their lines, as ``path:line: text``."""
    locations = list(dict.fromkeys(found))
    if not locations:
        return ToolOutput(_NONE_FOUND)
    readable_places = await _readable((Path(one.path) for one in locations), None, context)
    names = _names(readable_places, context)
    texts = await _texts(readable_places, context)
    lines: list[str] = []
    for one in locations:
        path = Path(one.path)
        text = _line(texts.get(path, ()), one.start or 1)
        lines.append(f"{names.get(path) or visible(str(path))}:{one.start}:{f' {text}' if text else ''}")
    inside = tuple(one for one in locations if Path(one.path) in names)
    return ToolOutput(_listing(lines, MAX_SPOTS, "places"), locations=inside[:MAX_LOCATIONS])


async def _symbols_output(found: Sequence[Symbol], context: ToolContext) -> ToolOutput:
    paths = list(dict.fromkeys(Path(one.location.path) for one in found))
    names = _names(await _readable(paths, None, context), context)
    closed = await _unreadable((path for path in paths if path not in names), context)
    lines = [
        f"{names.get(path) or visible(str(path))}:{one.location.start}: {_symbol_text(one)}"
        for one in found
        if (path := Path(one.location.path)) not in closed
    ]
    note = f"\n[left out: {len(closed)} files that need approval to read]" if closed else ""
    return ToolOutput((_listing(lines, MAX_SYMBOLS, "symbols") or _NONE_FOUND) + note)


def _outline(found: Sequence[Symbol], symbol: str) -> ToolOutput:
    lines = [f"{one.location.start}: {_symbol_text(one)}" for one in found if symbol.lower() in one.name.lower()]
    return ToolOutput(_listing(lines, MAX_SYMBOLS, "symbols") or _NONE_FOUND)


def _symbol_text(symbol: Symbol) -> str:
    container = f" (in {cut(visible(symbol.container), 100)})" if symbol.container else ""
    return f"{symbol.kind} {cut(visible(symbol.name), 200)}{container}".strip()


async def _readable(paths: Iterable[Path], below: Place | None, context: ToolContext) -> Mapping[Path, Place]:
    """The places of those ``paths`` that the agent may read without asking, below ``below`` or anywhere in the
    roots."""
    found: dict[Path, Place] = {}
    for path in dict.fromkeys(paths):
        try:
            place = await context.workspace.locate(str(path), context.cwd)
        except ToolError:
            continue
        in_scope = below is None or place.path == below.path or below.path in place.path.parents
        requested = below is not None and place.path == below.path
        if in_scope and (requested or all(map(context.may_read, read_access(READ_FILE, place)))):
            found[path] = place
    return found


async def _unreadable(paths: Iterable[Path], context: ToolContext) -> set[Path]:
    """Those of ``paths`` in the roots, none of which the agent may read without asking. Others belong to libraries."""
    found: set[Path] = set()
    for path in paths:
        with suppress(ToolError):
            await context.workspace.locate(str(path), context.cwd)
            found.add(path)
    return found


def _names(places: Mapping[Path, Place], context: ToolContext) -> Mapping[Path, str]:
    """The paths as shown to the model."""
    return {path: context.workspace.shown(place, context.cwd) for path, place in places.items()}


async def _texts(places: Mapping[Path, Place], context: ToolContext) -> Mapping[Path, Sequence[str]]:
    """The lines of the first ``MAX_FILES`` files."""
    texts: dict[Path, Sequence[str]] = {}
    for path, place in islice(places.items(), MAX_FILES):
        with suppress(ToolError):
            if file := await context.workspace.read(place):
                texts[path] = lines_without_ends(well_formed(file.text))
    return texts


def _line(lines: Sequence[str], number: int) -> str:
    return cut(lines[number - 1].strip(), MAX_LINE) if number <= len(lines) else ""


def _order(problem: Diagnostic) -> tuple[int, Path, int]:
    return problem.severity, problem.path, problem.line


def _listing(lines: Sequence[str], limit: int, what: str) -> str:
    """At most ``limit`` lines and ``MAX_CHARS`` characters, and the number of omitted lines."""
    listed: list[str] = []
    room = MAX_CHARS
    for line in lines[:limit]:
        room -= len(line) + 1
        if room < 0:
            break
        listed.append(line)
    more = [f"[{len(lines) - len(listed)} more {what}]"] if len(listed) < len(lines) else []
    return "\n".join([*listed, *more])
