"""Completion of prompts: commands after ``/``, files and folders after ``@``."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath
from typing import Literal

from deputy_agents.domain.errors import ToolError
from deputy_agents.editor.mention import DIAGNOSTICS, Mention, mentions
from deputy_agents.guidance.items import SlashCommand
from deputy_agents.ports.editor import Ability
from deputy_agents.tool.base import ToolContext
from deputy_agents.tool.search import Glob

MAX_ITEMS = 50
_COMMAND = re.compile(r"\s*(/[\w:.-]*)")
_PATH = re.compile(r'(?<![\w@./-])@(?P<path>"[^"\n]*|[^\s@"]*)$')
_NOTE_PREFIXES = ("[cut here: ", "No files match.")


@dataclass(frozen=True, slots=True)
class Completion:
    """One item; ``text`` is the text to insert."""

    text: str
    kind: Literal["command", "file", "folder", "context"]
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Completions:
    """``replace`` is the end of the prompt that an item replaces."""

    replace: str
    items: tuple[Completion, ...] = ()


async def complete(text: str, commands: Mapping[str, SlashCommand], context: ToolContext) -> Completions:
    """The completions of ``text``, a prompt up to the cursor."""
    if (call := _COMMAND.fullmatch(text)) is not None:
        prefix = call[1]
        items = [
            Completion(f"/{command.name}", "command", _detail(command))
            for command in commands.values()
            if command.name.lower().startswith(prefix[1:].lower())
        ]
        return Completions(prefix, tuple(items[:MAX_ITEMS]))
    if (mention := _PATH.search(text)) is not None:
        prefix = mention["path"].lstrip('"')
        return Completions(mention[0], (*_context_items(prefix, context), *await _paths(prefix, context)))
    return Completions("")


def _context_items(prefix: str, context: ToolContext) -> tuple[Completion, ...]:
    if not (DIAGNOSTICS.startswith(prefix.lower()) and context.editors.supports(Ability.DIAGNOSTICS)):
        return ()
    return (Completion(f"@{DIAGNOSTICS}", "context", "problems shown in the editor"),)


async def _paths(prefix: str, context: ToolContext) -> tuple[Completion, ...]:
    """Files and folders below the working directory whose name contains the last part of ``prefix``; names that begin
    with it come first."""
    glob = Glob()
    folder, slash, name = prefix.rpartition("/")
    try:
        args = glob.parse({"pattern": f"{folder}{slash}**/*{_either_case(name)}*"})
        await glob.prepare(args, context)
        found = (await glob.run(args, context)).content.splitlines()
    except ToolError:
        return ()
    # A backslash may be an escaped control character, so the name is ambiguous.
    files = [path for path in found if "\\" not in path and not path.startswith(_NOTE_PREFIXES)]
    folders = {f"{folder}/" for path in files for folder in map(str, PurePosixPath(path).parents) if folder != "."}

    def base_name(path: str) -> str:
        return path.rstrip("/").rpartition("/")[2].lower()

    def rank(path: str) -> tuple[bool, int, str]:
        return not base_name(path).startswith(name.lower()), path.count("/"), path

    paths = sorted((path for path in (*folders, *files) if name.lower() in base_name(path)), key=rank)
    items = (
        Completion(mention, "folder" if path.endswith("/") else "file")
        for path in paths
        if (mention := _mention_of(path)) is not None
    )
    return tuple(islice(items, MAX_ITEMS))


def _mention_of(path: str) -> str | None:
    """The text that mentions ``path`` in a prompt; ``None`` if no text does."""
    for text in (f"@{path}", f'@"{path}"'):
        if list(mentions(text)) == [Mention(path)]:
            return text
    return None


def _detail(command: SlashCommand) -> str:
    return " ".join(filter(None, (command.argument_hint, command.description)))


def _either_case(text: str) -> str:
    """A case-insensitive glob for ``text``."""
    return "".join(
        f"[{char.lower()}{char.upper()}]" if char.isalpha() else f"\\{char}" if char in "*?[{" else char
        for char in text
    )
