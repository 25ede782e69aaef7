"""The tool ``skill``, which loads the text of a skill on demand."""

from typing import Annotated

from anyio import to_thread
from pydantic import Field

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import ToolKind
from deputy_agents.domain.rule import AccessRequest, Action
from deputy_agents.guidance.items import Skill
from deputy_agents.guidance.library import Library
from deputy_agents.guidance.skills import list_files, read_file
from deputy_agents.text import cut, truncate
from deputy_agents.tool.args import Args, ArgsTool
from deputy_agents.tool.base import Prepared, ToolContext, ToolOutput

MAX_OUTPUT = 64 * 1024


class SkillArgs(Args):
    name: Annotated[str, Field(min_length=1, description="Name of the skill.")]
    file: Annotated[str | None, Field(description="A file of the skill, as named in its text.")] = None


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
        del context
        name = self._skill(args.name).name
        target = f"{name}/{args.file}" if args.file else name
        return Prepared(target, (AccessRequest(self.name, Action.SESSION, name),))

    async def run(self, args: SkillArgs, context: ToolContext) -> ToolOutput:
        del context
        skill = self._skill(args.name)
        if args.file is not None:
            text = await to_thread.run_sync(read_file, skill, args.file, abandon_on_cancel=True)
        else:
            files = await to_thread.run_sync(list_files, skill, abandon_on_cancel=True)
            listing = f"\nFiles (read one with `file`): {', '.join(files)}" if files else ""
            text = f"Folder: {skill.folder}{listing}\n\n{skill.body}"
        return ToolOutput(truncate(text, MAX_OUTPUT, "the text is longer than the limit")[0])
