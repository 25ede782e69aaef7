"""All guidance for the agents of one workspace."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from anyio import to_thread

from deputy_agents.definition.search_folders import SearchFolder, search_folders
from deputy_agents.domain.problem import Problem
from deputy_agents.files.paths import home_folder
from deputy_agents.guidance import commands, skills
from deputy_agents.guidance.instructions import instructions_for
from deputy_agents.guidance.items import Command, Instruction, Skill
from deputy_agents.guidance.workspace_settings import WorkspaceSettings, read_workspace_settings

_T = TypeVar("_T", Skill, Command)


@dataclass(frozen=True, slots=True)
class _State:
    skills: Mapping[str, Skill] = field(default_factory=dict[str, Skill])
    commands: Mapping[str, Command] = field(default_factory=dict[str, Command])
    instructions: Mapping[Path, tuple[Instruction, ...]] = field(default_factory=dict[Path, tuple[Instruction, ...]])
    workspace_settings: WorkspaceSettings = field(default_factory=WorkspaceSettings)
    user_settings: WorkspaceSettings = field(default_factory=WorkspaceSettings)
    problems: tuple[Problem, ...] = ()


class Library:
    """Instructions, skills, commands and settings for ``roots``. The library is empty until the first :meth:`refresh`.
    ``trusted`` can be set at any time and takes effect at the next one. Of several items with one name, the nearest is
    used: workspace before home, ``.deputy`` before ``.claude``. ``home`` is the user's home folder."""

    def __init__(self, roots: Sequence[Path], *, trusted: bool, home: Path | None = None) -> None:
        self.roots = tuple(roots)
        self.trusted = trusted
        self._home = home
        self._folders: set[Path] = set()
        self._state = _State()

    @property
    def skills(self) -> Mapping[str, Skill]:
        """By name."""
        return self._state.skills

    @property
    def commands(self) -> Mapping[str, Command]:
        """By name."""
        return self._state.commands

    @property
    def workspace_settings(self) -> WorkspaceSettings:
        """The settings of the workspace. Check its trust before you use them."""
        return self._state.workspace_settings

    @property
    def user_settings(self) -> WorkspaceSettings:
        """The settings of the user for every workspace."""
        return self._state.user_settings

    @property
    def problems(self) -> Sequence[Problem]:
        """Problems in the files."""
        return self._state.problems

    def instructions(self, folder: Path) -> tuple[Instruction, ...]:
        """The instructions for ``folder``, the nearest last. Empty until :meth:`visit` has been called for it."""
        return self._state.instructions.get(folder, ())

    async def visit(self, folder: Path) -> bool:
        """Read the instructions for ``folder``, also in later refreshes. Return whether anything has changed."""
        if folder in self._folders:
            return False
        self._folders.add(folder)
        return await self.refresh()

    async def refresh(self) -> bool:
        """Read everything again in a worker thread. Return whether anything has changed. If the caller is cancelled,
        the thread is abandoned: a disk may be slow."""
        before, self._state = self._state, await to_thread.run_sync(self._load, abandon_on_cancel=True)
        return self._state != before

    def _load(self) -> _State:
        problems: list[Problem] = []
        folders = tuple(self._folders)
        found_skills = self._nearest(skills.FOLDERS, skills.skills_in, problems)
        found_commands = self._nearest(commands.FOLDERS, commands.commands_in, problems)
        instructions: dict[Path, tuple[Instruction, ...]] = {}
        for folder in folders:
            instructions[folder], found = instructions_for(folder, self.roots, self._home_folder, trusted=self.trusted)
            problems += found
        workspace = sum(map(read_workspace_settings, self.roots), WorkspaceSettings())
        user = WorkspaceSettings()
        if self._home_folder is not None:
            user = read_workspace_settings(self._home_folder, from_home=True)
        unique = tuple(dict.fromkeys((*problems, *workspace.problems, *user.problems)))
        return _State(found_skills, found_commands, instructions, workspace, user, unique)

    @property
    def _home_folder(self) -> Path | None:
        return self._home or home_folder()

    def _nearest(
        self,
        folders: Sequence[str],
        read: Callable[[SearchFolder], Iterable[_T | Problem]],
        problems: list[Problem],
    ) -> dict[str, _T]:
        found: dict[str, _T] = {}
        for folder in search_folders(self.roots, self._home_folder, self.trusted, folders):
            here: dict[str, _T] = {}
            for one in read(folder):
                if isinstance(one, Problem):
                    problems.append(one)
                elif (other := here.setdefault(one.name, one)) is not one:
                    reason = f"{other.source} has the same name {one.name!r} and is used instead."
                    problems.append(Problem(one.source, 1, reason, fatal=True))
            found = here | found
        return dict(sorted(found.items()))
