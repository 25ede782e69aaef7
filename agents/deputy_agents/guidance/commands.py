"""Slash commands: prompts in Markdown files. Reading blocks; call it in a worker thread."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from deputy_agents.definition.folder import MAX_FILES, Unreadable, markdown_file
from deputy_agents.definition.frontmatter import FrontmatterError
from deputy_agents.definition.search_folders import SearchFolder
from deputy_agents.domain.problem import Problem
from deputy_agents.domain.rule import AccessRequest
from deputy_agents.guidance.builtin_commands import BUILTIN_COMMANDS
from deputy_agents.guidance.items import Command
from deputy_agents.guidance.markdown import first_line, read_file, split, word
from deputy_agents.text import clean, cut, split_words

FOLDERS = (".deputy/commands", ".claude/commands")
MAX_DEPTH = 3
"""Depth of subfolders. A command in a subfolder is called ``/folder:name``."""
DESCRIPTION_LENGTH = 120
_KNOWN = frozenset({"description", "argumenthint", "allowedtools", "model", "agent", "disablemodelinvocation"})
_NAME = re.compile(r"[\w:.-]+")
_CALL = re.compile(rf"\s*/(?P<name>{_NAME.pattern})(?:\s+(?P<arguments>.*))?\s*", re.DOTALL)
_PLACEHOLDER = re.compile(r"\$(?:(?P<all>ARGUMENTS)\b|(?P<one>[1-9])(?!\d))")


def commands_in(folder: SearchFolder) -> Iterator[Command | Problem]:
    """Read the commands in ``folder``, sorted by path, and the problems of invalid ones."""
    for path in _list_files(folder.path):
        try:
            file = markdown_file(path, folder.within)
            if file is not None:
                text, access = read_file(file, folder.within, main=folder.main)
                yield _read_command(path, folder.path, text, access)
        except Unreadable as error:
            yield Problem(str(path), 1, str(error), fatal=True)
        except FrontmatterError as error:
            yield Problem(str(path), error.line, f"{error}.", fatal=True)


def _list_files(top: Path) -> list[Path]:
    found: list[Path] = []
    for folder, folders, names in os.walk(top):
        depth = len(Path(folder).relative_to(top).parts)
        folders[:] = sorted(name for name in folders if depth < MAX_DEPTH and not name.startswith("."))
        found += (Path(folder) / name for name in sorted(names) if name.endswith(".md") and not name.startswith("."))
        if len(found) > MAX_FILES:
            break
    return found[:MAX_FILES]


def _read_command(path: Path, top: Path, text: str, access: tuple[AccessRequest, ...]) -> Command | Problem:
    front = split(text, _KNOWN)
    body = clean(front.body).strip()
    if not body:
        return Problem(str(path), front.body_line, "It contains no prompt.", fatal=True)
    name = ":".join(path.relative_to(top).with_suffix("").parts)
    if name in BUILTIN_COMMANDS:
        return Problem(str(path), 1, f"/{name} is a command of Deputy. Rename the file.", fatal=True)
    if not _NAME.fullmatch(name):
        return Problem(str(path), 1, "The name of a command can only contain letters, digits, dots and -.", fatal=True)
    return Command(
        name=name,
        description=cut(word(front, "description"), DESCRIPTION_LENGTH) or first_line(body, DESCRIPTION_LENGTH),
        body=body,
        source=str(path),
        argument_hint=word(front, "argument-hint") or None,
        access=access,
    )


def parse_call(text: str) -> tuple[str, str] | None:
    """The name and arguments if ``text`` has the form of a command call; ``None`` for other text, such as a path."""
    found = _CALL.fullmatch(text)
    return (found["name"], (found["arguments"] or "").strip()) if found else None


def fill_in(command: Command, arguments: str) -> str:
    """Insert ``arguments`` at the placeholders of the prompt, or append them if there are no placeholders. Placeholders
    in arguments are not expanded."""
    words = split_words(arguments)

    def value(placeholder: re.Match[str]) -> str:
        index = int(placeholder["one"] or 0) - 1
        return arguments if placeholder["all"] else (words[index] if index < len(words) else "")

    prompt, count = _PLACEHOLDER.subn(value, command.body)
    return prompt if count or not arguments else f"{prompt}\n\n{arguments}"
