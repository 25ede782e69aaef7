"""Definitions are found in all places, the nearest has precedence, and foreign files are rejected."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from deputy_agents.definition.catalogue import Catalogue
from deputy_agents.definition.definition import BUILT_IN
from deputy_agents.definition.folder import MAX_BYTES, MAX_FILES, MarkdownFile


@dataclass
class Disk:
    home: Path
    root: Path

    def write(self, path: str, name: str, prompt: str = "Prompt.", extra: str = "") -> Path:
        """``path`` begins with ``home`` or ``root``."""
        where, _, rest = path.partition("/")
        file = getattr(self, where) / rest
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"---\nname: {name}\ndescription: d\n{extra}---\n{prompt}\n", "utf-8")
        return file

    def catalogue(self, *, trusted: bool = True, roots: tuple[Path, ...] | None = None) -> Catalogue:
        return Catalogue(roots or (self.root,), trusted=trusted, home=self.home)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    home, root = tmp_path / "home", tmp_path / "root"
    home.mkdir()
    root.mkdir()
    return Disk(home, root)


def loaded(catalogue: Catalogue) -> Catalogue:
    catalogue.load()
    return catalogue


def reasons(catalogue: Catalogue) -> list[str]:
    return [problem.reason for problem in catalogue.problems]


LEVELS = (
    "root/.deputy/agents/a.md",
    "root/.claude/agents/a.md",
    "home/.deputy/agents/a.md",
    "home/.claude/agents/a.md",
)


def test_built_in_definitions_exist_without_files(disk: Disk) -> None:
    catalogue = disk.catalogue()
    assert tuple(catalogue.definitions) == BUILT_IN
    assert catalogue.load()
    assert tuple(catalogue.definitions) == BUILT_IN
    assert [one.name for one in catalogue.subagents()] == ["general", "code_search", "code_review", "planner"]
    assert [one.name for one in catalogue.typed()] == ["code_search", "code_review", "planner"]
    assert catalogue.problems == ()


@pytest.mark.requirement("X15")
@pytest.mark.parametrize("nearest", range(len(LEVELS)))
def test_nearest_definition_of_a_name_is_used(disk: Disk, nearest: int) -> None:
    for level in LEVELS[nearest:]:
        disk.write(level, "mine", f"From {level}.")
    found = loaded(disk.catalogue())
    assert found.definitions["mine"].prompt == f"From {LEVELS[nearest]}."
    assert found.definitions["mine"].source.endswith(LEVELS[nearest])
    assert found.problems == ()


def test_earlier_root_has_precedence(disk: Disk, tmp_path: Path) -> None:
    second = Disk(disk.home, tmp_path / "second")
    disk.write("root/.deputy/agents/a.md", "mine", "First.")
    second.write("root/.deputy/agents/a.md", "mine", "Second.")
    second.write("root/.deputy/agents/b.md", "other")
    found = loaded(disk.catalogue(roots=(disk.root, second.root))).definitions
    assert found["mine"].prompt == "First."
    assert "other" in found


def test_definitions_of_an_untrusted_workspace_are_not_loaded(disk: Disk) -> None:
    disk.write("root/.deputy/agents/a.md", "theirs")
    disk.write("root/.claude/agents/general.md", "general", "Evil.")
    disk.write("home/.claude/agents/a.md", "mine")
    catalogue = loaded(disk.catalogue(trusted=False))
    assert list(catalogue.definitions) == [*BUILT_IN, "mine"]
    assert catalogue.definitions["general"].source == "built-in"
    assert catalogue.problems == ()


def test_trust_takes_effect_at_the_next_load(disk: Disk) -> None:
    disk.write("root/.deputy/agents/a.md", "theirs")
    catalogue = loaded(disk.catalogue())
    assert "theirs" in catalogue.definitions
    catalogue.trusted = False
    assert catalogue.load()
    assert "theirs" not in catalogue.definitions


def test_home_folder_opened_as_untrusted_workspace_is_still_home(disk: Disk) -> None:
    disk.write("home/.claude/agents/a.md", "mine")
    assert "mine" in loaded(disk.catalogue(trusted=False, roots=(disk.home,))).definitions


@pytest.mark.parametrize("name", BUILT_IN)
def test_workspace_definition_that_replaces_a_built_in_one_is_reported(disk: Disk, name: str) -> None:
    file = disk.write(f"root/.deputy/agents/{name}.md", name, "Another.")
    catalogue = loaded(disk.catalogue())
    assert catalogue.definitions[name].prompt == "Another."
    (problem,) = catalogue.problems
    assert (problem.file, problem.fatal) == (str(file), False)
    assert f"replaces the built-in agent '{name}'" in problem.reason


def test_home_definition_that_replaces_a_built_in_one_is_not_reported(disk: Disk) -> None:
    disk.write("home/.deputy/agents/primary.md", "primary", "My own primary.")
    catalogue = loaded(disk.catalogue())
    assert catalogue.definitions["primary"].prompt == "My own primary."
    assert catalogue.problems == ()


def test_invalid_file_is_reported_and_the_others_are_loaded(disk: Disk) -> None:
    broken = disk.write("root/.deputy/agents/a.md", "broken", extra="maxIterations: -1\n")
    disk.write("root/.deputy/agents/b.md", "good")
    disk.write("root/.deputy/agents/general.md", "general", extra="timeout: 0\n")
    catalogue = loaded(disk.catalogue())
    assert "good" in catalogue.definitions
    assert "broken" not in catalogue.definitions
    assert catalogue.definitions["general"].source == "built-in"
    assert str(catalogue.problems[0]) == f"{broken}:4: maxIterations: must be a whole number from 1 to 1000."


def test_two_files_with_one_name_in_a_folder_are_reported(disk: Disk) -> None:
    first = disk.write("root/.deputy/agents/a.md", "same", "First.")
    disk.write("root/.deputy/agents/b.md", "same", "Second.")
    catalogue = loaded(disk.catalogue())
    assert catalogue.definitions["same"].prompt == "First."
    assert reasons(catalogue) == [f"{first} also defines 'same' and is used instead."]


def test_link_to_a_file_in_the_folder_is_not_a_second_definition(disk: Disk) -> None:
    first = Path(disk.write("root/.deputy/agents/a.md", "same", "First."))
    (first.parent / "b.md").symlink_to("a.md")
    catalogue = loaded(disk.catalogue())
    assert catalogue.definitions["same"].prompt == "First."
    assert catalogue.problems == ()


def test_unchanged_files_are_not_read_again(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.write("root/.deputy/agents/a.md", "mine")
    catalogue = loaded(disk.catalogue())
    before = catalogue.definitions
    with monkeypatch.context() as patch:
        patch.delattr("deputy_agents.definition.catalogue.read_markdown")
        assert not catalogue.load()
    assert catalogue.definitions is before


def test_changed_new_and_deleted_files_are_detected(disk: Disk) -> None:
    file = disk.write("root/.deputy/agents/a.md", "mine", "One.")
    catalogue = loaded(disk.catalogue())
    disk.write("root/.deputy/agents/a.md", "mine", "Two, longer.")
    assert catalogue.load()
    assert catalogue.definitions["mine"].prompt == "Two, longer."
    disk.write("home/.claude/agents/b.md", "new")
    assert catalogue.load()
    assert "new" in catalogue.definitions
    file.unlink()
    assert catalogue.load()
    assert "mine" not in catalogue.definitions


def test_only_the_changed_file_is_read_again(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.write("root/.deputy/agents/a.md", "same")
    changed = disk.write("root/.deputy/agents/b.md", "changed")
    catalogue = loaded(disk.catalogue())
    disk.write("root/.deputy/agents/b.md", "changed", "More text.")
    read: list[str] = []

    def noted(file: MarkdownFile) -> str:
        read.append(file.path)
        return "no definition"

    monkeypatch.setattr("deputy_agents.definition.catalogue.read_markdown", noted)
    assert catalogue.load()
    assert set(read) == {str(changed)}
    assert "same" in catalogue.definitions


def test_rewriting_the_same_text_is_not_a_change(disk: Disk) -> None:
    file = disk.write("root/.deputy/agents/a.md", "mine")
    catalogue = loaded(disk.catalogue())
    os.utime(file, ns=(1, 1))
    assert not catalogue.load()


def test_files_are_read_again_when_the_tools_change(disk: Disk) -> None:
    disk.write("root/.deputy/agents/a.md", "mine", extra="tools: shell\n")
    catalogue = disk.catalogue()
    catalogue.known_tools = {"read_file"}
    catalogue.load()
    assert "mine" not in catalogue.definitions
    catalogue.known_tools = {"read_file", "shell"}
    assert catalogue.load()
    assert catalogue.definitions["mine"].tools == ("shell",)


@pytest.mark.asyncio
async def test_refresh_does_not_block_the_event_loop(disk: Disk) -> None:
    disk.write("root/.deputy/agents/a.md", "mine")
    catalogue = disk.catalogue()
    assert await catalogue.refresh()
    assert "mine" in catalogue.definitions
    assert not await catalogue.refresh()


# -- what is not a definition ----------------------------------------------------------------------------------------


def test_only_markdown_files_directly_in_the_folder_are_listed(disk: Disk) -> None:
    for name in ("README.md", ".hidden.md", "notes.txt", "sub/x.md"):
        disk.write(f"root/.deputy/agents/{name}", "nobody")
    (disk.root / ".deputy/agents/folder.md").mkdir()
    catalogue = loaded(disk.catalogue())
    assert (tuple(catalogue.definitions), catalogue.problems) == (BUILT_IN, ())


def test_link_that_leads_out_of_its_folder_is_rejected(disk: Disk) -> None:
    secret = disk.write("root/elsewhere/secret.md", "secret")
    folder = disk.write("root/.deputy/agents/real.md", "real").parent
    (folder / "out.md").symlink_to(secret)
    (folder / "nowhere.md").symlink_to(folder / "none")
    (folder / "loop.md").symlink_to(folder / "loop.md")
    catalogue = loaded(disk.catalogue())
    assert "secret" not in catalogue.definitions
    assert [Path(problem.file).name for problem in catalogue.problems] == ["loop.md", "nowhere.md", "out.md"]
    assert reasons(catalogue)[2] == "It is a link that leads out of its folder."


def test_link_inside_the_folder_is_followed(disk: Disk) -> None:
    real = disk.write("root/.deputy/agents/real.txt", "linked")
    (real.parent / "link.md").symlink_to("real.txt")
    assert "linked" in loaded(disk.catalogue()).definitions


def test_folder_link_is_rejected_in_a_workspace_and_followed_at_home(disk: Disk) -> None:
    disk.write("home/dotfiles/agents/a.md", "mine")
    (disk.root / ".claude").symlink_to(disk.home / "dotfiles")
    (disk.home / ".claude").symlink_to(disk.home / "dotfiles")
    catalogue = loaded(disk.catalogue())
    assert reasons(catalogue) == ["It is a link that leads out of the workspace."]
    assert catalogue.definitions["mine"].source == str(disk.home / ".claude/agents/a.md")


def test_special_files_are_never_opened(disk: Disk) -> None:
    folder = disk.write("root/.deputy/agents/a.md", "mine").parent
    os.mkfifo(folder / "pipe.md")
    catalogue = loaded(disk.catalogue())
    assert reasons(catalogue) == ["It is not a regular file."]
    assert "mine" in catalogue.definitions


def test_large_binary_and_excess_files_are_rejected(disk: Disk) -> None:
    folder = disk.root / ".deputy/agents"
    for number in range(MAX_FILES + 1):
        disk.write(f"root/.deputy/agents/x{number:03}.md", f"x{number:03}")
    (folder / "a.md").write_bytes(b"x" * (MAX_BYTES + 1))
    (folder / "b.md").write_bytes(b"---\nname: \xff\n---\n")
    catalogue = loaded(disk.catalogue())
    assert reasons(catalogue) == [
        "It is larger than 256 KiB.",
        f"It contains more than {MAX_FILES} files; the last by name are ignored.",
        "It is not UTF-8 text (byte 10).",
    ]
    assert "x000" in catalogue.definitions
    assert "x200" not in catalogue.definitions


def test_file_that_vanishes_or_is_unreadable_is_reported(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.write("root/.deputy/agents/a.md", "mine")

    def denied(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("deputy_agents.definition.folder.os.open", denied)
    assert reasons(loaded(disk.catalogue())) == ["It cannot be read: Permission denied."]


SCHEMA = "inputSchema: {type: object, properties: {topic: {type: string}}}\n"


def test_tools_can_be_typed_agents_of_other_files(disk: Disk) -> None:
    lead = disk.write("root/.deputy/agents/lead.md", "lead", extra="tools: [Read, code_search, poet, nobody]\n")
    disk.write("home/.deputy/agents/poet.md", "poet", extra=SCHEMA)
    catalogue = Catalogue((disk.root,), trusted=True, known_tools={"read_file"}, home=disk.home)
    catalogue.load()
    assert catalogue.definitions["lead"].tools == ("read_file", "code_search", "poet")
    assert [str(problem) for problem in catalogue.problems] == [f"{lead}:4: tools: unknown tool nobody; it is ignored."]


def test_adding_or_removing_an_input_schema_takes_effect_at_once(disk: Disk) -> None:
    disk.write("root/.deputy/agents/lead.md", "lead", extra="tools: [Read, poet]\n")
    catalogue = Catalogue((disk.root,), trusted=True, known_tools={"read_file"}, home=disk.home)
    tools: list[tuple[str, ...] | None] = []
    for extra in ("", SCHEMA, ""):
        disk.write("root/.deputy/agents/poet.md", "poet", extra=extra)
        catalogue.load()
        tools.append(catalogue.definitions["lead"].tools)
    assert tools == [("read_file",), ("read_file", "poet"), ("read_file",)]


def test_tool_names_of_other_programs_have_precedence_over_agents(disk: Disk) -> None:
    disk.write("root/.deputy/agents/lead.md", "lead", extra="tools: Read\n")
    disk.write("root/.deputy/agents/read.md", "Read", extra=SCHEMA)
    catalogue = Catalogue((disk.root,), trusted=True, known_tools={"read_file"}, home=disk.home)
    catalogue.load()
    assert catalogue.definitions["lead"].tools == ("read_file",)
    assert catalogue.definitions["Read"].input_schema is not None


def test_typed_agent_can_be_disallowed_like_any_tool(disk: Disk) -> None:
    disk.write("root/.deputy/agents/primary.md", "primary", extra="disallowedTools: planner\n")
    catalogue = Catalogue((disk.root,), trusted=True, known_tools={"read_file"}, home=disk.home)
    catalogue.load()
    assert not catalogue.definitions["primary"].allows("planner")
    assert [problem.reason for problem in catalogue.problems] == [
        "This file replaces the built-in agent 'primary' in this workspace."
    ]
