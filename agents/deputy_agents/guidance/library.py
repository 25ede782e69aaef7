"""All guidance for the agents of one workspace."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from anyio import to_thread

from deputy_agents.definition.search_folders import SearchFolder, search_folders
from deputy_agents.domain.problem import Problem
from deputy_agents.domain.rule import AccessRequest, DecisionKind, Rule
from deputy_agents.files.paths import config_folder, home_folder
from deputy_agents.guidance import commands, skills
from deputy_agents.guidance.answered_rules import AnsweredRules, answered_text
from deputy_agents.guidance.instructions import instructions_for
from deputy_agents.guidance.items import Command, Instruction, Skill
from deputy_agents.guidance.workspace_settings import (
    FILE,
    LOCAL_FILE,
    WorkspaceSettings,
    read_user_settings,
    read_workspace_settings,
)

_T = TypeVar("_T", Skill, Command)
_LEFT_OUT = "It is left out, because agents may not read this file without approval."


@dataclass(frozen=True, slots=True)
class _State:
    skills: Mapping[str, Skill] = field(default_factory=dict[str, Skill])
    commands: Mapping[str, Command] = field(default_factory=dict[str, Command])
    instructions: Mapping[Path, tuple[Instruction, ...]] = field(default_factory=dict[Path, tuple[Instruction, ...]])
    workspace_settings: WorkspaceSettings = field(default_factory=WorkspaceSettings)
    user_settings: WorkspaceSettings = field(default_factory=WorkspaceSettings)
    answered_rules: tuple[Rule, ...] = ()
    problems: tuple[Problem, ...] = ()


class Library:
    """Instructions, skills, commands and settings for ``roots``. The library is empty until the first :meth:`refresh`.
    ``trusted`` can be set at any time and takes effect at the next one. Of several items with one name, the nearest is
    used: workspace before home, ``.deputy`` before ``.claude``. ``home`` is the user's home folder.

    ``may_read`` decides whether agents may read a file without asking; set it before the first use. Items from other
    files are left out."""

    def __init__(
        self,
        roots: Sequence[Path],
        *,
        trusted: bool,
        home: Path | None = None,
        answered: AnsweredRules | None = None,
    ) -> None:
        self.roots = tuple(roots)
        self.trusted = trusted
        self.may_read: Callable[[AccessRequest], bool] = lambda _: True
        self._home = home
        self.answered = answered or AnsweredRules()
        """What the user has allowed in personal files of projects."""
        self._folders: set[Path] = set()
        self._state = _State()

    @property
    def skills(self) -> Mapping[str, Skill]:
        """By name."""
        return {name: skill for name, skill in self._state.skills.items() if self._is_readable(skill)}

    @property
    def commands(self) -> Mapping[str, Command]:
        """By name."""
        return {name: command for name, command in self._state.commands.items() if self._is_readable(command)}

    @property
    def workspace_settings(self) -> WorkspaceSettings:
        """The settings of the workspace. Check its trust before you use them."""
        return self._state.workspace_settings

    @property
    def user_settings(self) -> WorkspaceSettings:
        """The settings of the user for every workspace."""
        return self._state.user_settings

    @property
    def answered_rules(self) -> Sequence[Rule]:
        """What answers of the user allow in the workspace, whether or not it is trusted."""
        return self._state.answered_rules

    @property
    def user_file(self) -> Path | None:
        """The user's own settings file, which may not exist; ``None`` for an account without a home folder."""
        folder = self._home / FILE[0] if self._home else config_folder(os.environ)
        return None if folder is None else folder / FILE[-1]

    @property
    def problems(self) -> Sequence[Problem]:
        """Problems in the files."""
        state = self._state
        instructions = (one for found in state.instructions.values() for one in found)
        items = (*instructions, *state.skills.values(), *state.commands.values())
        left_out = dict.fromkeys(item.source for item in items if not self._is_readable(item))
        return (*state.problems, *(Problem(source, 1, _LEFT_OUT, fatal=True) for source in left_out))

    def instructions(self, folder: Path) -> tuple[Instruction, ...]:
        """The instructions for ``folder``, the nearest last. Empty until :meth:`visit` has been called for it."""
        return tuple(filter(self._is_readable, self._state.instructions.get(folder, ())))

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

    async def refresh_settings(self) -> None:
        """Read the settings files again, and nothing else."""
        workspace, answered, user = await to_thread.run_sync(self._settings, abandon_on_cancel=True)
        self._state = replace(self._state, workspace_settings=workspace, answered_rules=answered, user_settings=user)

    def _is_readable(self, item: Instruction | Skill | Command) -> bool:
        return all(map(self.may_read, item.access))

    def _load(self) -> _State:
        problems: list[Problem] = []
        folders = tuple(self._folders)
        found_skills = self._nearest(skills.FOLDERS, skills.skills_in, problems)
        found_commands = self._nearest(commands.FOLDERS, commands.commands_in, problems)
        instructions: dict[Path, tuple[Instruction, ...]] = {}
        for folder in folders:
            instructions[folder], found = instructions_for(folder, self.roots, self._home_folder, trusted=self.trusted)
            problems += found
        workspace, answered, user = self._settings()
        unique = tuple(dict.fromkeys((*problems, *workspace.problems, *user.problems)))
        return _State(found_skills, found_commands, instructions, workspace, user, answered, unique)

    def _settings(self) -> tuple[WorkspaceSettings, tuple[Rule, ...], WorkspaceSettings]:
        """The settings of the workspace, what answers of the user allow there, and the user's own settings."""
        workspace, answered = WorkspaceSettings(), list[Rule]()
        for root in self.roots:
            known = self.answered.of(root)
            local = read_workspace_settings(root, parts=LOCAL_FILE)
            own = [rule for rule in local.rules if rule.decision is DecisionKind.ALLOW and answered_text(rule) in known]
            answered += own
            workspace += read_workspace_settings(root)
            workspace += replace(local, rules=tuple(rule for rule in local.rules if rule not in own))
        file = self.user_file
        user = WorkspaceSettings() if file is None else read_user_settings(file.parent)
        return workspace, tuple(answered), user

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
