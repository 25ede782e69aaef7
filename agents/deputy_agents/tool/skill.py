"""The tool ``skill``, which loads the text of a skill on demand."""

from typing import Annotated

from anyio import to_thread
from pydantic import Field, PrivateAttr

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import ToolKind
from deputy_agents.files.place import Place
from deputy_agents.guidance.items import Skill
from deputy_agents.guidance.library import Library
from deputy_agents.guidance.skills import FILE, list_files, locate_file
from deputy_agents.permission.file_access import read_access
from deputy_agents.text import cut, truncate, visible, well_formed
from deputy_agents.tool.args import Args, ArgsTool
from deputy_agents.tool.base import Prepared, ToolContext, ToolOutput

MAX_OUTPUT = 64 * 1024


class SkillArgs(Args):
    name: Annotated[str, Field(min_length=1, description="Name of the skill.")]
    file: Annotated[str | None, Field(description="A file of the skill, as named in its text.")] = None
    _place: Place | None = PrivateAttr(default=None)

    async def locate(self, skill: Skill, context: ToolContext) -> Place:
        """The place of the file. It is resolved once, so that the call reads what the gate decided about.

        Raises:
            ToolError: it leads out of the folder of the skill.
        """
        if self._place is None:
            main_root = next(iter(context.workspace.roots), None)
            name = FILE if self.file is None else self.file
            self._place = await to_thread.run_sync(locate_file, skill, name, main_root)
        return self._place


class UseSkill(ArgsTool[SkillArgs]):
    """Reads a skill of ``library`` or one of its files."""

    def __init__(self, library: Library) -> None:
        super().__init__(
            "skill", ToolKind.READ, SkillArgs, "Read the instructions of a skill. Do this before the work it is for."
        )
        self._library = library

    def _skill(self, name: str) -> Skill:
        if (skill := self._library.skills.get(name)) is None:
            known = ", ".join(self._library.skills) or "none"
            raise ToolError(f"There is no skill {cut(name, 64)!r}. The skills are: {known}.")
        return skill

    async def prepare(self, args: SkillArgs, context: ToolContext) -> Prepared:
        skill = self._skill(args.name)
        place = await args.locate(skill, context)
        target = f"{skill.name}/{visible(args.file)}" if args.file else skill.name
        return Prepared(target, read_access(self.name, place))

    async def run(self, args: SkillArgs, context: ToolContext) -> ToolOutput:
        skill = self._skill(args.name)
        if args.file is not None:
            file = await context.workspace.read(await args.locate(skill, context))
            if file is None:
                raise ToolError(f"The skill {skill.name} has no file {visible(args.file)}.")
            text = well_formed(file.text)
        else:
            files = await to_thread.run_sync(list_files, skill, abandon_on_cancel=True)
            listing = f"\nFiles (read one with `file`): {', '.join(map(visible, files))}" if files else ""
            text = f"Folder: {visible(skill.folder)}{listing}\n\n{skill.body}"
        return ToolOutput(truncate(text, MAX_OUTPUT, "the text is longer than the limit")[0])
