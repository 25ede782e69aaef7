"""Instruction files of a folder, and how agents get them."""

from pathlib import Path

import pytest

from deputy_agents.domain.settings import Settings
from deputy_agents.guidance.instructions import MAX_ALL, MAX_FILE, instructions_for
from deputy_agents.model.scripted import say
from tests.support.core import Cast, core, delegate


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def names(folder: Path, root: Path, home: Path, *, trusted: bool = True) -> list[str]:
    found, problems = instructions_for(folder, [root], home, trusted=trusted)
    assert problems == ()
    return [Path(one.path).relative_to(root.parent).as_posix() for one in found]


@pytest.mark.requirement("X15")
def test_instructions_are_ordered_from_home_to_the_folder(workspace: Path, home: Path) -> None:
    write(home / ".deputy/AGENTS.md", "mine")
    write(workspace / "AGENTS.md", "all")
    write(workspace / "CLAUDE.md", "all too")
    write(workspace / "pkg/CLAUDE.md", "pkg")
    write(workspace / "other/AGENTS.md", "other")
    root = workspace.name
    assert names(workspace / "pkg/deep", workspace, home) == [
        "home/.deputy/AGENTS.md",
        f"{root}/AGENTS.md",
        f"{root}/CLAUDE.md",
        f"{root}/pkg/CLAUDE.md",
    ]
    reasons = [one.reason for one in instructions_for(workspace / "pkg", [workspace], home, trusted=True)[0]]
    assert reasons == ["your own, for all projects", "the workspace root", "the workspace root", "the folder pkg"]


def test_instructions_of_an_untrusted_workspace_are_not_read(workspace: Path, home: Path) -> None:
    write(home / ".claude/CLAUDE.md", "mine")
    write(workspace / "AGENTS.md", "theirs")
    assert names(workspace, workspace, home, trusted=False) == ["home/.claude/CLAUDE.md"]


def test_one_file_under_two_names_is_used_once(workspace: Path, home: Path) -> None:
    write(workspace / "AGENTS.md", "one")
    (workspace / "CLAUDE.md").symlink_to("AGENTS.md")
    write(workspace / "pkg/CLAUDE.md", "one\n")
    assert names(workspace / "pkg", workspace, home) == [f"{workspace.name}/AGENTS.md"]


def test_imports_precede_the_file(workspace: Path, home: Path) -> None:
    write(workspace / "CLAUDE.md", "@docs/style.md\n\nAnd mail me@example.org.")
    write(workspace / "docs/style.md", "style\n@../CLAUDE.md")
    assert names(workspace, workspace, home) == [f"{workspace.name}/docs/style.md", f"{workspace.name}/CLAUDE.md"]


@pytest.mark.parametrize("name", ["../outside.md", ".env", "/etc/hostname"])
def test_only_markdown_inside_the_workspace_is_imported(workspace: Path, home: Path, name: str) -> None:
    write(workspace.parent / "outside.md", "outside")
    write(workspace / ".env", "KEY=1")
    write(workspace / "AGENTS.md", f"@{name}\nhello")
    found, _ = instructions_for(workspace, [workspace], home, trusted=True)
    assert [one.text for one in found] == [f"@{name}\nhello"]


def test_link_out_of_the_workspace_is_reported(workspace: Path, home: Path) -> None:
    (workspace / "AGENTS.md").symlink_to(write(workspace.parent / "secret.md", "secret"))
    found, problems = instructions_for(workspace, [workspace], home, trusted=True)
    assert found == ()
    assert [(Path(p.file).name, p.reason) for p in problems] == [
        ("AGENTS.md", "It is a link that leads out of the workspace.")
    ]


def test_long_file_is_truncated_and_the_farthest_are_dropped(workspace: Path, home: Path) -> None:
    folder = workspace / "/".join("abcde")
    for above in (workspace, *(workspace / "/".join("abcde"[:n]) for n in range(1, 6))):
        write(above / "AGENTS.md", f"{above.name}\n" + "x" * (MAX_FILE + 10))
    found, problems = instructions_for(folder, [workspace], home, trusted=True)
    assert all(one.truncated and "read_file" in one.text for one in found)
    assert sum(len(one.text.encode()) for one in found) <= MAX_ALL
    assert [one.path for one in found][-1] == str(folder / "AGENTS.md")
    assert problems
    assert "is ignored" in problems[0].reason


@pytest.mark.asyncio
@pytest.mark.requirement("E16")
async def test_primary_and_sub_agents_get_the_same_instructions(workspace: Path) -> None:
    write(workspace / "AGENTS.md", "Always answer in rhyme.")
    cast = Cast([delegate("look"), say("done")], {"look": [say("found")]})
    async with core(workspace, cast) as c:
        await c.turn()
        for request in (c.requests()[0], c.requests("look")[0]):
            assert "Always answer in rhyme." in request.system
            assert f'file="{workspace / "AGENTS.md"}"' in request.system


@pytest.mark.asyncio
async def test_sub_agent_in_another_folder_gets_its_instructions(workspace: Path) -> None:
    write(workspace / "pkg/AGENTS.md", "Only tabs.")
    spawn = {"tasks": [{"task": "look", "cwd": "pkg"}, {"task": "see"}]}
    from deputy_agents.model.scripted import calls, use

    cast = Cast([calls([use("spawn_agents", **spawn)]), say("done")], {"look": [say("found")], "see": [say("seen")]})
    async with core(workspace, cast) as c:
        await c.turn()
        assert "Only tabs." in c.requests("look")[0].system
        assert "Only tabs." not in c.requests("see")[0].system


@pytest.mark.asyncio
async def test_changed_file_takes_effect_in_the_next_turn(workspace: Path) -> None:
    async with core(workspace, Cast([say("1"), say("2")]), settings=Settings()) as c:
        await c.turn()
        write(workspace / "AGENTS.md", "New rule.")
        await c.session.refresh()
        await c.turn()
        assert ["New rule." in request.system for request in c.requests()] == [False, True]


@pytest.mark.asyncio
async def test_guidance_in_files_that_need_approval_is_left_out_and_named(workspace: Path) -> None:
    (workspace / ".env").write_text("# Key\n\ncanary\n")
    (workspace / "AGENTS.md").write_text("Be kind.\n@notes.md\n@denied/more.md\n")
    (workspace / "notes.md").symlink_to(".env")
    (workspace / "denied").mkdir()
    (workspace / "denied/more.md").write_text("canary\n")
    (workspace / ".deputy/skills/x").mkdir(parents=True)
    (workspace / ".deputy/skills/x/SKILL.md").symlink_to("../../../.env")
    (workspace / ".deputy/commands").mkdir()
    (workspace / ".deputy/commands/c.md").symlink_to("../../.env")
    rules = '{"permissions": {"rules": [{"tool": "read_file", "pattern": "denied/**", "action": "deny"}]}}'
    (workspace / ".deputy/settings.json").write_text(rules)
    async with core(workspace, Cast([say("done"), say("done")])) as c:
        await c.turn()
        await c.turn("/c")
        library = c.session.customizations.library
        assert (dict(library.skills), dict(library.commands)) == ({}, {})
        assert all("Be kind." in request.system for request in c.requests())
        assert all("canary" not in f"{request.system} {request.messages}" for request in c.requests())
        left_out = {Path(one.file).relative_to(workspace).as_posix() for one in library.problems}
    assert left_out == {"notes.md", "denied/more.md", ".deputy/skills/x/SKILL.md", ".deputy/commands/c.md"}
