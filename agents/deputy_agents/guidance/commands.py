"""Prompts from Markdown files, called as ``/name arguments``. Reading blocks; use a thread."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from deputy_agents.definition.folder import MAX_FILES, Unreadable, markdown_file, read_markdown
from deputy_agents.definition.frontmatter import FrontmatterError
from deputy_agents.domain.problem import Problem
from deputy_agents.guidance.items import Command
from deputy_agents.guidance.markdown import first_line, split, word
from deputy_agents.guidance.places import Place
from deputy_agents.text import clean, cut, split_words

FOLDERS = (".deputy/commands", ".claude/commands")
MAX_DEPTH = 3
"""Folders below one of commands; a command in one is called ``/folder:name``."""
DESCRIPTION_LENGTH = 120
_KNOWN = frozenset({"description", "argumenthint", "allowedtools", "model", "agent", "disablemodelinvocation"})
_NAME = re.compile(r"[\w:.-]+")
_CALL = re.compile(rf"\s*/(?P<name>{_NAME.pattern})(?:\s+(?P<arguments>.*))?\s*", re.DOTALL)
_PLACE = re.compile(r"\$(?:(?P<all>ARGUMENTS)\b|(?P<one>[1-9])(?!\d))")


def commands_in(place: Place) -> Iterator[Command | Problem]:
    """The commands of one folder by name, and what is wrong with others."""
    for path in _files(place.path):
        try:
            file = markdown_file(path, place.within)
            if file is not None:
                yield _command(path, place.path, read_markdown(file))
        except Unreadable as error:
            yield Problem(str(path), 1, str(error), fatal=True)
        except FrontmatterError as error:
            yield Problem(str(path), error.line, f"{error}.", fatal=True)


def _files(top: Path) -> list[Path]:
    found: list[Path] = []
    for folder, folders, names in os.walk(top):
        depth = len(Path(folder).relative_to(top).parts)
        folders[:] = sorted(name for name in folders if depth < MAX_DEPTH and not name.startswith("."))
        found += (Path(folder) / name for name in sorted(names) if name.endswith(".md") and not name.startswith("."))
        if len(found) > MAX_FILES:
            break
    return found[:MAX_FILES]


def _command(path: Path, top: Path, text: str) -> Command | Problem:
    front = split(text, _KNOWN)
    body = clean(front.body).strip()
    if not body:
        return Problem(str(path), front.body_line, "There is no prompt in it.", fatal=True)
    name = ":".join(path.relative_to(top).with_suffix("").parts)
    if not _NAME.fullmatch(name):
        return Problem(str(path), 1, "A command's name has letters, digits, dots and - only: no spaces.", fatal=True)
    return Command(
        name=name,
        description=cut(word(front, "description"), DESCRIPTION_LENGTH) or first_line(body, DESCRIPTION_LENGTH),
        body=body,
        source=str(path),
        argument_hint=word(front, "argument-hint") or None,
    )


def called(text: str) -> tuple[str, str] | None:
    """Name and arguments of the command that ``text`` may call; a path or anything else calls none."""
    found = _CALL.fullmatch(text)
    return (found["name"], (found["arguments"] or "").strip()) if found else None


def filled(command: Command, arguments: str) -> str:
    """The prompt, with ``arguments`` in their places; after it, where it has none. An argument is data: what looks
    like a place in it is none."""
    words = split_words(arguments)

    def value(place: re.Match[str]) -> str:
        index = int(place["one"] or 0) - 1
        return arguments if place["all"] else (words[index] if index < len(words) else "")

    prompt, count = _PLACE.subn(value, command.body)
    return prompt if count or not arguments else f"{prompt}\n\n{arguments}"
