"""Names that tools show can be given to every tool, and names that differ in spelling only have no twins."""

import os
import unicodedata
from pathlib import Path

import pytest

from deputy_agents.domain.errors import ToolError
from tests.support.files import Hands, hands_on

pytestmark = pytest.mark.asyncio

NAMES = [
    "Screenshot 9.41\u202fPM.txt",
    "a\u00a0b.txt",
    "family \U0001f468\u200d\U0001f469\u200d\U0001f467.txt",
    "soft\u00adhyphen.txt",
    "heart \u2764\ufe0f.txt",
    "bom\ufeff.txt",
    "ideographic\u3000blank.txt",
    "two  blanks.txt",
    unicodedata.normalize("NFD", "é") + ".txt",
    "line\nend.txt",
    "tab\t.txt",
    "rtl\u202e.txt",
    os.fsdecode(b"latin\xff.txt"),
    "\\u{202f}.txt",
    "n" + "\u202f" * 70 + ".txt",
    "[a]\u202f{b}.txt",
]


def plain(name: str) -> str:
    """The name as a model writes it that does not see blanks and marks exactly."""
    return "".join(
        " " if char.isspace() else char
        for char in unicodedata.normalize("NFC", name)
        if unicodedata.category(char) != "Cf"
    )


async def shown_by_list(hands: Hands) -> str:
    (name,) = (await hands.text("list_dir", path=".")).splitlines()
    return name


async def shown_by_glob(hands: Hands) -> str:
    return await hands.text("glob", pattern="*.txt")


async def shown_by_grep(hands: Hands) -> str:
    return (await hands.text("grep", pattern="needle")).removesuffix(":1:needle")


@pytest.mark.parametrize("name", NAMES)
async def test_name_that_a_tool_shows_can_be_given_to_every_tool(workspace: Path, name: str) -> None:
    file = workspace / name
    file.write_text("needle\n")
    hands = hands_on(workspace)
    shown = {await show(hands) for show in (shown_by_list, shown_by_glob, shown_by_grep)}
    assert len(shown) == 1
    for path in (*shown, f"./{next(iter(shown))}", str(workspace / next(iter(shown)))):
        assert "needle" in await hands.text("read_file", path=path)
        assert "needle" in await hands.text("grep", pattern="needle", path=path)
    await hands.text("edit_file", path=next(iter(shown)), old_string="needle", new_string="thread")
    await hands.text("write_file", path=next(iter(shown)), content="rope\n")
    assert file.read_text() == "rope\n"
    assert os.listdir(workspace) == [name]  # noqa: PTH208


# In a glob, a backslash escapes the next character, and brackets have a meaning of their own.
@pytest.mark.parametrize("name", [name for name in NAMES if not any(char in name for char in "[\\\n\t")])
async def test_glob_takes_a_name_that_a_tool_shows(workspace: Path, name: str) -> None:
    (workspace / name).write_text("needle\n")
    hands = hands_on(workspace)
    shown = await shown_by_list(hands)
    assert await hands.text("glob", pattern=shown) == shown
    assert await hands.text("grep", pattern="needle", glob=shown) == f"{shown}:1:needle"


@pytest.mark.parametrize("name", [name for name in NAMES if "\\" not in name and "\udcff" not in name])
@pytest.mark.parametrize("folder", ["", "dir\u00a0x/"])
async def test_name_that_differs_in_blanks_or_normal_form_is_found_and_gets_no_twin(
    workspace: Path, name: str, folder: str
) -> None:
    file = workspace / f"{folder}{name}"
    file.parent.mkdir(exist_ok=True)
    file.write_text("needle\n")
    hands = hands_on(workspace)
    path = plain(f"{folder}{name}")
    if path != f"{folder}{name}":
        with pytest.raises(ToolError, match="has not been read yet"):
            await hands.text("write_file", path=path, content="twin\n")
    assert "needle" in await hands.text("read_file", path=path)
    await hands.text("write_file", path=path, content="rope\n")
    assert file.read_text() == "rope\n"
    assert len(list(file.parent.iterdir())) == 1


async def test_name_that_several_files_differ_from_is_an_error_that_lists_them(workspace: Path) -> None:
    for blank in ("\u00a0", "\u202f"):
        (workspace / f"a{blank}b.txt").write_text("x\n")
    hands = hands_on(workspace)
    for name in ("read_file", "write_file"):
        with pytest.raises(ToolError, match=r"a\\u\{a0\}b.txt, a\\u\{202f\}b.txt"):
            await hands.text(name, **{"path": "a b.txt", **({"content": "y"} if name == "write_file" else {})})
    (workspace / "a b.txt").write_text("exact\n")
    assert "exact" in await hands.text("read_file", path="a b.txt")


async def test_new_file_has_the_characters_that_its_path_names(workspace: Path) -> None:
    await hands_on(workspace).text("write_file", path="new\\u{202f}x/a\\u{e9}.txt", content="x\n")
    assert (workspace / "new\u202fx/aé.txt").read_text() == "x\n"


@pytest.mark.parametrize("path", ["..\\u{2f}out.txt", "\\u{2e}\\u{2e}/out.txt", "\\u{0}", "x\\u{ffffff}"])
async def test_code_does_not_lead_out_of_the_workspace(workspace: Path, path: str) -> None:
    (workspace.parent / "out.txt").write_text("outside\n")
    with pytest.raises(ToolError):
        await hands_on(workspace).text("read_file", path=path)


async def test_folders_outside_the_workspace_are_not_searched(workspace: Path) -> None:
    (workspace.parent / "out\u00a0side.txt").write_text("outside\n")
    with pytest.raises(ToolError, match="outside the workspace"):
        await hands_on(workspace).text("read_file", path="../out side.txt")
