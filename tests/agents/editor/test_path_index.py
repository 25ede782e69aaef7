"""Completion of paths: an index gives what a walk of the folder would, keeps what may not be read, and is renewed."""

import asyncio
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import pytest

from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.editor import path_index, workspace_paths
from deputy_agents.editor.path_index import PathIndex, build
from deputy_agents.model.scripted import say
from deputy_agents.tool.ripgrep import binary, list_files
from tests.support.core import Cast, Core, core

NAMES = ("a", "ab", "B", "ba", "src", "Größe", "x.py", "İ", "a b", "-", "[id]", "0")


def walked(files: Sequence[str], folder: str, name: str) -> list[str]:
    """What is to be found, from the definition."""
    folders = {f"{above}/" for file in files for above in map(str, PurePosixPath(file).parents) if above != "."}

    def last(path: str) -> str:
        return path.rstrip("/").rpartition("/")[2].lower()

    found = [path for path in (*files, *folders) if path.startswith(folder) and name.lower() in last(path)]
    found = [path for path in found if path != folder]
    return sorted(found, key=lambda path: (not last(path).startswith(name.lower()), path.count("/"), path))


def indexed(files: Sequence[str]) -> PathIndex:
    return build("".join(f"{file}\0" for file in files).encode())


@pytest.mark.parametrize("seed", range(6))
def test_an_index_finds_what_a_walk_finds_in_the_same_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_index, "_RUN", 3)
    chance = random.Random(seed)
    files = {
        "/".join((*chance.choices(NAMES, k=chance.randrange(4)), f"f{n}.{chance.choice(NAMES)}")) for n in range(60)
    }
    listed = chance.sample(sorted(files), len(files))
    index = indexed(listed)
    folders = ["", *(f"{PurePosixPath(file).parent}/" for file in listed if "/" in file), "nothing/", "a/"]
    for folder in folders:
        for name in ("", "a", "A", "b", "src", "größe", "f1", ".py", "zzz", "\n", "i̇", "0"):
            assert list(index.find(folder, name)) == walked(listed, folder, name), (folder, name)


def test_no_files_and_odd_names() -> None:
    assert list(build(b"").find("", "")) == []
    index = build("ok\0new\nline\0tab\there\0back\\slash\0hidden\u202e\0".encode() + b"bad\xff\0")
    assert list(index.find("", "")) == ["ok"]


@pytest.fixture
def project(workspace: Path) -> Path:
    for number in range(120):
        (workspace / f"part{number % 7}").mkdir(exist_ok=True)
        (workspace / f"part{number % 7}/module_{number}.py").touch()
    (workspace / ".gitignore").write_text("ignored/\n")
    for folder, name in (("ignored", "module_x.py"), ("private", "module_y.py"), (".hidden", "module_z.py")):
        (workspace / folder).mkdir()
        (workspace / folder / name).touch()
    (workspace / "module.pem").touch()
    return workspace


async def texts(c: Core, prompt: str) -> list[str]:
    return [item.text for item in (await c.session.complete(prompt)).items]


@pytest.mark.asyncio
async def test_completions_equal_a_fresh_listing_and_omit_what_may_not_be_read(project: Path) -> None:
    listed = await asyncio.to_thread(
        subprocess.run,
        ["rg", "--files", "--hidden", "--no-require-git"],
        executable=await asyncio.to_thread(binary),
        cwd=project,
        capture_output=True,
    )
    files = [file for file in listed.stdout.decode().splitlines() if not file.endswith(".pem")]
    async with core(project, Cast([])) as c:
        for prompt, folder, name in (("@mod", "", "mod"), ("@part3/", "part3/", ""), ("see @./part", "", "part")):
            wanted = walked(files, folder, name)[:50]
            assert await texts(c, prompt) == [f"@{path}" for path in wanted]
        assert f"{project}/part3/module_3" not in await texts(c, f"@{project}/part3/module_3")
        assert (await texts(c, f"@{project}/part3/module_3"))[0] == "@part3/module_3.py"
        assert "@private/module_y.py" in await texts(c, "@module_y")
        c.session.permissions.remember([Rule("r", "read_file", DecisionKind.DENY, "private/**")])
        assert await texts(c, "@module_y") == []
        assert await texts(c, "@priv") == []


@pytest.mark.asyncio
async def test_new_files_are_completed_and_deleted_ones_are_not(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_paths, "MIN_AGE", 0.0)
    monkeypatch.setattr(workspace_paths, "_AGE_FACTOR", 0)
    monkeypatch.setattr(workspace_paths, "WAIT", 20.0)
    async with core(project, Cast([])) as c:
        assert await texts(c, "@newfile") == []
        (project / "newfile.txt").touch()
        assert await texts(c, "@newfile") == ["@newfile.txt"]
        (project / "newfile.txt").unlink()
        assert await texts(c, "@newfile") == []


@pytest.mark.asyncio
async def test_an_old_index_answers_while_the_next_one_is_built_once(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listings = 0
    go = asyncio.Event()

    async def slow(cwd: str) -> bytes:
        nonlocal listings
        listings += 1
        if listings > 1:
            await go.wait()
        return await list_files(cwd)

    monkeypatch.setattr(workspace_paths, "list_files", slow)
    monkeypatch.setattr(workspace_paths, "MIN_AGE", 0.0)
    monkeypatch.setattr(workspace_paths, "_AGE_FACTOR", 0)
    monkeypatch.setattr(workspace_paths, "WAIT", 0.001)
    async with core(project, Cast([say("done")])) as c:
        await texts(c, "@module_1")
        (project / "module_new.py").touch()
        answers = await asyncio.gather(*(texts(c, "@module_new") for _ in range(20)))
        assert (answers, listings) == ([[]] * 20, 2)
        go.set()
        monkeypatch.setattr(workspace_paths, "WAIT", 20.0)
        assert await texts(c, "@module_new") in ([], ["@module_new.py"])
        assert await texts(c, "@module_new") == ["@module_new.py"]
        go.clear()
        monkeypatch.setattr(workspace_paths, "WAIT", 0.001)
        await texts(c, "@module_new")  # the session ends while an index is built


@pytest.mark.asyncio
async def test_indexes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_paths, "MAX_FOLDERS", 2)
    for number in range(4):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "a.txt").touch()
        async with core(folder, Cast([])) as c:
            assert await texts(c, "@a") == ["@a.txt"]
    assert len(workspace_paths._folders) == 2  # pyright: ignore[reportPrivateUsage]
