"""Skills: found by folder, offered by name, read when needed."""

from pathlib import Path

import pytest

from deputy_agents.definition.search_folders import SearchFolder
from deputy_agents.domain.problem import Problem
from deputy_agents.guidance.items import Skill
from deputy_agents.guidance.library import Library
from deputy_agents.guidance.skills import skills_in
from deputy_agents.model.scripted import call, say
from tests.support.core import Cast, core, delegate, results


def skill(root: Path, name: str, text: str, base: str = ".deputy/skills") -> Path:
    folder = root / base / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text)
    return folder


PDF = "---\nname: pdf\ndescription: Reads PDF files: text, tables.\nlicense: MIT\n---\nUse `tool.py`.\n"


@pytest.mark.asyncio
@pytest.mark.requirement("E16")
async def test_skill_is_listed_by_description_and_read_by_primary_and_sub_agent(workspace: Path) -> None:
    folder = skill(workspace, "pdf", PDF)
    (folder / "tool.py").write_text("print('pdf')\n")
    cast = Cast(
        [call("skill", name="pdf"), delegate("look"), say("done")],
        {"look": [call("skill", name="pdf", file="tool.py"), say("found")]},
    )
    async with core(workspace, cast) as c:
        await c.turn()
        first, *_ = c.requests()
        assert "`pdf`: Reads PDF files: text, tables." in first.system
        assert "Use `tool.py`." not in first.system
        [read] = results(c.requests()[1])
        assert "Use `tool.py`." in read.content
        assert str(folder) in read.content
        assert "tool.py" in read.content.splitlines()[1]
        [file] = results(c.requests("look")[1])
        assert file.content == "print('pdf')\n"


@pytest.mark.asyncio
async def test_skill_tool_does_not_exist_without_skills(workspace: Path) -> None:
    async with core(workspace, Cast([call("skill", name="pdf"), say("done")])) as c:
        await c.turn()
        assert "skill" not in {tool.name for tool in c.requests()[0].tools}


@pytest.mark.asyncio
@pytest.mark.parametrize("file", ["../../../secret.txt", "/etc/hostname", "out", "nothing.txt", ""])
async def test_file_outside_the_skill_is_rejected(workspace: Path, file: str) -> None:
    folder = skill(workspace, "pdf", PDF)
    (workspace / "secret.txt").write_text("secret")
    (folder / "out").symlink_to(workspace / "secret.txt")
    async with core(workspace, Cast([call("skill", name="pdf", file=file), say("done")])) as c:
        await c.turn()
        [result] = results(c.requests()[1])
        assert result.is_error
        assert "secret" not in result.content.replace("secret.txt", "")


@pytest.mark.asyncio
async def test_unknown_skill_is_an_error_that_lists_the_skills(workspace: Path) -> None:
    skill(workspace, "pdf", PDF)
    async with core(workspace, Cast([call("skill", name="word"), say("done")])) as c:
        await c.turn()
        assert "There is no skill 'word'. The skills are: pdf." in c.told()[0]


@pytest.mark.asyncio
@pytest.mark.requirement("X15")
async def test_nearest_skill_is_used_and_none_of_an_untrusted_workspace(workspace: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    for root, base, told in (
        (home, ".deputy/skills", "home"),
        (workspace, ".claude/skills", "claude"),
        (workspace, ".deputy/skills", "deputy"),
    ):
        skill(root, "x", f"---\ndescription: {told}\n---\nbody", base)
    library = Library([workspace], trusted=True, home=home)
    await library.refresh()
    assert library.skills["x"].description == "deputy"
    library.trusted = False
    assert await library.refresh()
    assert library.skills["x"].description == "home"


@pytest.mark.asyncio
async def test_second_skill_with_the_same_name_is_reported(workspace: Path) -> None:
    skill(workspace, "a", "---\nname: ok\ndescription: first\n---\nbody")
    skill(workspace, "b", "---\nname: ok\ndescription: second\n---\nbody")
    library = Library([workspace], trusted=True)
    await library.refresh()
    assert library.skills["ok"].description == "first"
    [problem] = library.problems
    assert Path(problem.file).parent.name == "b"
    assert "a/SKILL.md has the same name 'ok' and is used instead" in problem.reason


def test_unusual_skills_load_and_invalid_ones_are_reported(workspace: Path) -> None:
    skill(workspace, "plain", "# Deploy it\n\nRun make.")
    skill(workspace, "colon", "---\nname: My Skill\ndescription: Use when: a colon is there\n---\nbody")
    skill(workspace, "empty", "")
    skill(workspace, "open", "---\nname: x\n")
    (workspace / ".deputy/skills/no-skill").mkdir()
    found = list(skills_in(SearchFolder(workspace / ".deputy/skills", workspace)))
    assert [(one.name, one.description) for one in found if isinstance(one, Skill)] == [
        ("My-Skill", "Use when: a colon is there"),
        ("plain", "Deploy it"),
    ]
    assert [Path(one.file).parent.name for one in found if isinstance(one, Problem)] == ["empty", "open"]
