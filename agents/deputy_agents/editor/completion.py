"""Completion of prompts: commands after ``/``, files and folders after ``@``."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from anyio import to_thread
from anyio.abc import TaskGroup

from deputy_agents.domain.errors import ToolError
from deputy_agents.editor.mention import DIAGNOSTICS, Mention, mentions
from deputy_agents.editor.workspace_paths import paths_below
from deputy_agents.guidance.items import SlashCommand
from deputy_agents.ports.editor import Ability
from deputy_agents.tool.base import ToolContext
from deputy_agents.tool.search import is_readable

MAX_ITEMS = 50
MAX_TRIED = 2000
"""Paths that are looked at to find those that the agent may read."""
_COMMAND = re.compile(r"\s*(/[\w:.-]*)")
_PATH = re.compile(r'(?<![\w@./-])@(?P<path>"[^"\n]*|[^\s@"]*)$')


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


async def complete(
    text: str, commands: Mapping[str, SlashCommand], context: ToolContext, tasks: TaskGroup
) -> Completions:
    """The completions of ``text``, a prompt up to the cursor. ``tasks`` owns work that outlives the call."""
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
        return Completions(mention[0], (*_context_items(prefix, context), *await _paths(prefix, context, tasks)))
    return Completions("")


def _context_items(prefix: str, context: ToolContext) -> tuple[Completion, ...]:
    if not (DIAGNOSTICS.startswith(prefix.lower()) and context.editors.supports(Ability.DIAGNOSTICS)):
        return ()
    return (Completion(f"@{DIAGNOSTICS}", "context", "problems shown in the editor"),)


async def _paths(prefix: str, context: ToolContext, tasks: TaskGroup) -> tuple[Completion, ...]:
    """Files and folders below the working directory whose name contains the last part of ``prefix``; names that begin
    with it come first."""
    prefix = prefix.removeprefix(f"{context.cwd}/")
    while prefix.startswith("./"):
        prefix = prefix.removeprefix("./")
    folder, slash, name = prefix.rpartition("/")
    try:
        place = await context.workspace.locate(".", context.cwd)
    except ToolError:
        return ()
    if (index := await paths_below(place, context.workspace, tasks)) is None:
        return ()
    found = islice(index.find(folder + slash, name), MAX_TRIED)
    items: list[Completion] = []
    while len(items) < MAX_ITEMS and (some := await to_thread.run_sync(list, islice(found, MAX_ITEMS))):
        for path in some:
            shown = index.files_below(path) if path.endswith("/") else (path,)
            mention = _mention_of(path)
            if mention is not None and any(is_readable(file, place, context) for file in shown):
                items.append(Completion(mention, "folder" if path.endswith("/") else "file"))
    return tuple(items[:MAX_ITEMS])


def _mention_of(path: str) -> str | None:
    """The text that mentions ``path`` in a prompt; ``None`` if no text does."""
    for text in (f"@{path}", f'@"{path}"'):
        if list(mentions(text)) == [Mention(path)]:
            return text
    return None


def _detail(command: SlashCommand) -> str:
    return " ".join(filter(None, (command.argument_hint, command.description)))
