"""How a prompt that is being written can go on: commands after a ``/``, files and folders after an ``@``."""

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
_NO_NAME = ("[cut here: ", "No files match.")


@dataclass(frozen=True, slots=True)
class Completion:
    """``text`` stands in the place of what is replaced."""

    text: str
    kind: Literal["command", "file", "folder", "context"]
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Completions:
    """``replace`` is the end of the prompt that an item takes the place of."""

    replace: str
    items: tuple[Completion, ...] = ()


async def complete(text: str, commands: Mapping[str, SlashCommand], context: ToolContext) -> Completions:
    """What ``text``, a prompt up to the cursor, can become."""
    if (call := _COMMAND.fullmatch(text)) is not None:
        begun = call[1]
        items = [
            Completion(f"/{command.name}", "command", _told(command))
            for command in commands.values()
            if command.name.lower().startswith(begun[1:].lower())
        ]
        return Completions(begun, tuple(items[:MAX_ITEMS]))
    if (mention := _PATH.search(text)) is not None:
        begun = mention["path"].lstrip('"')
        return Completions(mention[0], (*_of_editor(begun, context), *await _paths(begun, context)))
    return Completions("")


def _of_editor(begun: str, context: ToolContext) -> tuple[Completion, ...]:
    if not (DIAGNOSTICS.startswith(begun.lower()) and context.editors.can(Ability.DIAGNOSTICS)):
        return ()
    return (Completion(f"@{DIAGNOSTICS}", "context", "problems that the editor shows"),)


async def _paths(begun: str, context: ToolContext) -> tuple[Completion, ...]:
    """Files and folders below the current one whose name holds the last part of ``begun``, those that begin with it
    first."""
    glob = Glob()
    above, slash, name = begun.rpartition("/")
    try:
        args = glob.parse({"pattern": f"{above}{slash}**/*{_either_case(name)}*"})
        await glob.prepare(args, context)
        found = (await glob.run(args, context)).content.splitlines()
    except ToolError:
        return ()
    # A backslash may stand for a character that cannot be shown: nobody knows which name is meant.
    files = [path for path in found if "\\" not in path and not path.startswith(_NO_NAME)]
    folders = {f"{folder}/" for path in files for folder in map(str, PurePosixPath(path).parents) if folder != "."}

    def own(path: str) -> str:
        return path.rstrip("/").rpartition("/")[2].lower()

    def rank(path: str) -> tuple[bool, int, str]:
        return not own(path).startswith(name.lower()), path.count("/"), path

    names = sorted((path for path in (*folders, *files) if name.lower() in own(path)), key=rank)
    items = (
        Completion(written, "folder" if path.endswith("/") else "file")
        for path in names
        if (written := _written(path)) is not None
    )
    return tuple(islice(items, MAX_ITEMS))


def _written(path: str) -> str | None:
    """How a prompt mentions ``path`` so that it is read back as that; ``None``: it cannot."""
    for written in (f"@{path}", f'@"{path}"'):
        if list(mentions(written)) == [Mention(path)]:
            return written
    return None


def _told(command: SlashCommand) -> str:
    return " ".join(filter(None, (command.argument_hint, command.description)))


def _either_case(text: str) -> str:
    """A glob for ``text`` in upper or lower case."""
    return "".join(
        f"[{char.lower()}{char.upper()}]" if char.isalpha() else f"\\{char}" if char in "*?[{" else char
        for char in text
    )
