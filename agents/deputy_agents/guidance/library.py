"""Everything that users have written down for the agents of one workspace."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from anyio import to_thread

from deputy_agents.domain.problem import Problem
from deputy_agents.files.paths import home_folder
from deputy_agents.guidance import commands, skills
from deputy_agents.guidance.instructions import instructions_for
from deputy_agents.guidance.items import Command, Instruction, Skill
from deputy_agents.guidance.places import Place, places
from deputy_agents.guidance.workspace_settings import Written, written_in

_T = TypeVar("_T", Skill, Command)


@dataclass(frozen=True, slots=True)
class _State:
    skills: Mapping[str, Skill] = field(default_factory=dict[str, Skill])
    commands: Mapping[str, Command] = field(default_factory=dict[str, Command])
    instructions: Mapping[Path, tuple[Instruction, ...]] = field(default_factory=dict[Path, tuple[Instruction, ...]])
    workspace: Written = field(default_factory=Written)
    own: Written = field(default_factory=Written)
    problems: tuple[Problem, ...] = ()


class Library:
    """Instructions, skills and commands for ``roots``. ``trusted`` may be set at any time and counts from the next
    :meth:`refresh`; until the first one there is nothing. The nearest of one name wins: workspace over home, and
    ``.deputy`` over ``.claude``. ``home`` is the user's home folder."""

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
    def workspace(self) -> Written:
        """All rules, hooks and MCP servers of the workspace: what they may say depends on the user's trust."""
        return self._state.workspace

    @property
    def own(self) -> Written:
        """Rules, hooks and MCP servers of the user, for every workspace."""
        return self._state.own

    @property
    def problems(self) -> Sequence[Problem]:
        """What the user has to know about files."""
        return self._state.problems

    def instructions(self, folder: Path) -> tuple[Instruction, ...]:
        """What holds in ``folder``, the nearest last; nothing before it was visited."""
        return self._state.instructions.get(folder, ())

    async def visit(self, folder: Path) -> bool:
        """Reads what holds in ``folder``, too, from now on. Returns whether it is new here."""
        if folder in self._folders:
            return False
        self._folders.add(folder)
        return await self.refresh()

    async def refresh(self) -> bool:
        """Reads everything anew; returns whether anything is different now. A cancelled caller leaves the thread to
        itself: a disk may be slow."""
        before, self._state = self._state, await to_thread.run_sync(self._load, abandon_on_cancel=True)
        return self._state != before

    def _load(self) -> _State:
        problems: list[Problem] = []
        folders = tuple(self._folders)
        found_skills = self._nearest(skills.FOLDERS, skills.skills_in, problems)
        found_commands = self._nearest(commands.FOLDERS, commands.commands_in, problems)
        instructions: dict[Path, tuple[Instruction, ...]] = {}
        for folder in folders:
            instructions[folder], faults = instructions_for(folder, self.roots, self._at_home, trusted=self.trusted)
            problems += faults
        workspace = sum(map(written_in, self.roots), Written())
        own = Written() if self._at_home is None else written_in(self._at_home, own=True)
        faults = tuple(dict.fromkeys((*problems, *workspace.problems, *own.problems)))
        return _State(found_skills, found_commands, instructions, workspace, own, faults)

    @property
    def _at_home(self) -> Path | None:
        return self._home or home_folder()

    def _nearest(
        self,
        folders: Sequence[str],
        look: Callable[[Place], Iterable[_T | Problem]],
        problems: list[Problem],
    ) -> dict[str, _T]:
        found: dict[str, _T] = {}
        for place in places(self.roots, self._at_home, self.trusted, folders):
            here: dict[str, _T] = {}
            for one in look(place):
                if isinstance(one, Problem):
                    problems.append(one)
                elif (other := here.setdefault(one.name, one)) is not one:
                    reason = f"It has the name of {other.source}, which is used: {one.name}."
                    problems.append(Problem(one.source, 1, reason, fatal=True))
            found = here | found
        return dict(sorted(found.items()))
