"""Tools that read files and folders: ``read_file`` and ``list_dir``."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from deputy_agents.concurrency.off_loop import off_loop
from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import Location, ToolKind
from deputy_agents.files.disk import Entry, TooLarge
from deputy_agents.files.encoding import is_exact
from deputy_agents.files.image import MAX_FILE, SUFFIXES, ImageFile
from deputy_agents.files.place import PathKind, Place
from deputy_agents.permission.file_access import folder_access, read_access
from deputy_agents.text import lines_without_ends, visible, well_formed
from deputy_agents.tool.args import ArgsTool, PathArgs
from deputy_agents.tool.base import Prepared, ToolContext, ToolOutput
from deputy_agents.tool.image_process import read_image

MAX_LINES = 2000
MAX_LINE_CHARS = 2000
MAX_CHARS = 60_000
MAX_ENTRIES = 500


class ReadFileArgs(PathArgs):
    path: Annotated[str, Field(description="File to read, relative to the root or absolute.")]
    offset: Annotated[int, Field(ge=1, description="First line to read, counted from 1.")] = 1
    limit: Annotated[int, Field(ge=1, le=MAX_LINES, description="Maximum number of lines to read.")] = MAX_LINES


class ListDirArgs(PathArgs):
    path: Annotated[str, Field(description="Folder to list, relative to the root or absolute.")]


class ReadFile(ArgsTool[ReadFileArgs]):
    """Reads numbered lines of a text file, as the user sees it, and records that the agent has read the file."""

    def __init__(self) -> None:
        super().__init__(
            "read_file",
            ToolKind.READ,
            ReadFileArgs,
            "Reads a text file or an image (PNG, JPEG, GIF, WebP). Text is returned as numbered lines. A long file is "
            "cut, with a note on how to read the rest. A file must be read before it can be changed.",
        )

    async def prepare(self, args: ReadFileArgs, context: ToolContext) -> Prepared:
        place = await args.locate(context)
        shown = context.workspace.shown(place, context.cwd)
        if not await context.workspace.has(place):
            raise ToolError(f"There is no file {shown}.")
        location = Location(str(place.path), args.offset if args.offset > 1 else None)
        return Prepared(shown, read_access(self.name, place), (location,))

    async def run(self, args: ReadFileArgs, context: ToolContext) -> ToolOutput:
        place = await args.located(context)
        shown = context.workspace.shown(place, context.cwd)
        if (image := await _image(place, context)) is not None:
            return ToolOutput(f"{shown}: {image}", images=(image.image,))
        try:
            file = await context.workspace.read(place)
        except TooLarge:
            return await self._part(args, context, place, shown)
        if file is None:
            raise ToolError(f"There is no file {shown}.")
        text = file.text
        content, last = await off_loop(len(text), lambda: _page(lines_without_ends(well_formed(text)), args, shown))
        await context.marks.record(place, text)
        note = "" if is_exact(text) else "[not UTF-8: invalid bytes are shown as \ufffd]\n"
        if file.disk_changed:
            note += "[these are unsaved changes in the editor; the file on disk has other changes]\n"
        return ToolOutput(note + content, locations=_read_lines(place, args, last))

    async def _part(self, args: ReadFileArgs, context: ToolContext, place: Place, shown: str) -> ToolOutput:
        """Lines of a file that is too large to be loaded, or changed, as a whole."""
        part = await context.workspace.read_lines(place, args.offset, args.limit)
        if not part.lines:
            raise ToolError(f"offset: beyond the end of {shown}.")
        page = _numbered([line.rstrip("\r\n") for line in part.lines], args.offset)
        last = args.offset + len(page) - 1
        if not part.last or len(page) < len(part.lines):
            page.append(f"[lines {args.offset} to {last} of a very large file; continue with offset {last + 1}]")
        return ToolOutput("\n".join(page), locations=_read_lines(place, args, last))


class ListDir(ArgsTool[ListDirArgs]):
    """Lists the names in one folder."""

    def __init__(self) -> None:
        super().__init__(
            "list_dir",
            ToolKind.READ,
            ListDirArgs,
            "Lists a folder, sorted by name: name/ is a folder, name@ is a link. Files excluded by .gitignore are "
            "omitted.",
        )

    async def prepare(self, args: ListDirArgs, context: ToolContext) -> Prepared:
        place = await args.locate(context)
        access = folder_access(self.name, place)
        return Prepared(context.workspace.shown(place, context.cwd), access, (Location(str(place.path)),))

    async def run(self, args: ListDirArgs, context: ToolContext) -> ToolOutput:
        place = await args.relocate(context)
        if place.kind is PathKind.FILE:
            raise ToolError(f"{context.workspace.shown(place, context.cwd)} is a file; use read_file.")
        return ToolOutput(_listing(await context.workspace.entries(place)))


def _page(lines: Sequence[str], args: ReadFileArgs, shown: str) -> tuple[str, int | None]:
    """The requested lines that fit, numbered, and the number of the last one."""
    if not lines:
        return f"[{shown} is empty]", None
    if args.offset > len(lines):
        raise ToolError(f"offset: {shown} has only {len(lines)} lines.")
    page = _numbered(lines[args.offset - 1 : args.offset - 1 + args.limit], args.offset)
    last = args.offset + len(page) - 1
    if last < len(lines):
        page.append(f"[lines {args.offset} to {last} of {len(lines)}; continue with offset {last + 1}]")
    return "\n".join(page), last


def _numbered(lines: Sequence[str], first: int) -> list[str]:
    """As many lines as fit into ``MAX_CHARS``, numbered from ``first``."""
    page: list[str] = []
    room = MAX_CHARS
    for number, line in enumerate(lines, first):
        entry = f"{number:>6}\t{_cut_line(line)}"
        room -= len(entry) + 1
        if room < 0:
            break
        page.append(entry)
    return page


def _read_lines(place: Place, args: ReadFileArgs, last: int | None) -> tuple[Location, ...] | None:
    return (Location(str(place.path), args.offset, last),) if last else None


async def _image(place: Place, context: ToolContext) -> ImageFile | None:
    """The image at ``place``; ``None`` unless both its name and its bytes are those of an image."""
    if place.path.suffix.lower() not in SUFFIXES or place.kind is not PathKind.FILE:
        return None
    try:
        return await read_image(await context.workspace.read_bytes(place, MAX_FILE))
    except ToolError as error:
        raise ToolError(f"{context.workspace.shown(place, context.cwd)}: {error}") from None


def _cut_line(line: str) -> str:
    return line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]} [cut: {len(line)} characters]"


def _listing(entries: Sequence[Entry]) -> str:
    if not entries:
        return "[empty folder]"
    names = [visible(entry.name) + entry.mark for entry in entries[:MAX_ENTRIES]]
    if len(entries) > MAX_ENTRIES:
        names.append(f"[{MAX_ENTRIES} of {len(entries)} names; use glob to find the rest]")
    return "\n".join(names)
