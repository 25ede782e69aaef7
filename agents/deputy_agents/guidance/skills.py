"""Skills: folders with a ``SKILL.md``. Blocks; call it in a worker thread."""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from deputy_agents.definition.folder import MAX_ENTRIES, Unreadable, markdown_file
from deputy_agents.definition.frontmatter import FrontmatterError
from deputy_agents.definition.search_folders import SearchFolder
from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.problem import Problem
from deputy_agents.domain.rule import AccessRequest
from deputy_agents.files.place import Place, resolve
from deputy_agents.files.spelling import spelled
from deputy_agents.guidance.items import Skill
from deputy_agents.guidance.markdown import first_line, read_file, split, word
from deputy_agents.text import clean, cut, visible

FOLDERS = (".deputy/skills", ".claude/skills")
FILE = "SKILL.md"
MAX_SKILLS = 200
MAX_LISTED = 100
"""Files of a skill that are listed to the model."""
DESCRIPTION_LENGTH = 400
_KNOWN = frozenset({"name", "description", "license", "allowedtools", "metadata", "version", "compatibility"})


def skills_in(folder: SearchFolder) -> Iterator[Skill | Problem]:
    """Read the skills in ``folder``, sorted by folder name, and the problems of invalid ones."""
    for path in _list_folders(folder.path):
        source = path / FILE
        try:
            file = markdown_file(source, folder.within)
            if file is not None:
                text, access = read_file(file, folder.within, main=folder.main)
                yield _read_skill(source, text, folder.within, access)
        except Unreadable as error:
            yield Problem(str(source), 1, str(error), fatal=True)
        except FrontmatterError as error:
            yield Problem(str(source), error.line, f"{error}.", fatal=True)


def _list_folders(path: Path) -> list[Path]:
    try:
        with os.scandir(path) as entries:
            names = sorted(entry.name for entry in islice(entries, MAX_ENTRIES) if not entry.name.startswith("."))
    except OSError:
        return []
    return [path / name for name in names[:MAX_SKILLS]]


def _read_skill(source: Path, text: str, within: Path | None, access: tuple[AccessRequest, ...]) -> Skill | Problem:
    front = split(text, _KNOWN)
    body = clean(front.body).strip()
    name = word(front, "name") or source.parent.name
    description = word(front, "description") or first_line(body, DESCRIPTION_LENGTH)
    if not body or not description:
        return Problem(str(source), 1, "The description or the text is missing.", fatal=True)
    return Skill(
        cut(visible("-".join(name.split())), 64),
        cut(description, DESCRIPTION_LENGTH),
        body,
        str(source.parent),
        str(source),
        within,
        access,
    )


def list_files(skill: Skill) -> list[str]:
    """The files beside ``SKILL.md``, as paths below the folder of the skill."""
    top = Path(skill.folder)
    found: list[str] = []
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += (str((Path(folder) / name).relative_to(top)) for name in sorted(names) if not name.startswith("."))
        if len(found) > MAX_LISTED:
            break
    return [name for name in found if name != FILE][:MAX_LISTED]


def locate_file(skill: Skill, name: str, main_root: Path | None) -> Place:
    """The place of the file ``name`` of a skill.

    Raises:
        ToolError: it leads out of the folder of the skill, or the folder out of its workspace.
    """
    folder = Path(skill.folder)
    parts = Path(os.path.normpath(name)).parts
    if not parts or Path(name).is_absolute() or parts[0] == ".." or "\0" in name:
        raise ToolError("file: must be a path below the folder of the skill.")
    path = folder / spelled(name, folder, lambda _: True)
    place = resolve(path, skill.within, main=skill.within is not None and skill.within == main_root)
    if not place.path.is_relative_to(os.path.realpath(folder)):
        raise ToolError(f"file: {visible(name)} leads out of the folder of the skill.")
    return place
