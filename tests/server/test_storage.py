"""The folder of Deputy's state: only the user may get into it, and nobody else may have prepared it."""

import os
import shutil
import stat
from collections.abc import Generator
from pathlib import Path

import pytest

from deputy_agents.domain.errors import StoreError
from deputy_server.storage import make_private, open_approvals, open_state, open_store
from tests.support.rpc import serving

SECRET = "sessions.db"
FOREIGN = 65534
"""The id of a user who is not the one of the test."""


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes ``path`` that of another user. Only root can; for anybody else, the process gets another user instead."""
    if os.geteuid() == 0:
        os.chown(path, FOREIGN, FOREIGN)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: FOREIGN)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def state(tmp_path: Path) -> Generator[Path]:
    """A state folder as an older version or a careless user has left it."""
    folder = tmp_path / "state"
    (folder / "transcripts/session").mkdir(parents=True)
    for name in (SECRET, "mcp.json", "transcripts/session/a.md"):
        (folder / name).write_text("")
        (folder / name).chmod(0o644)
    for path in (folder, folder / "transcripts", folder / "transcripts/session"):
        path.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("loose", [0o777, 0o755, 0o750, 0o701])
def test_an_existing_folder_is_made_private_with_all_that_is_in_it(state: Path, loose: int) -> None:
    state.chmod(loose)
    make_private(state)
    assert mode(state) == 0o700
    assert {mode(path) for path in state.rglob("*") if path.is_dir()} == {0o700}
    assert {mode(path) for path in state.rglob("*") if path.is_file()} == {0o600}


def test_files_of_a_private_folder_are_made_private_too(state: Path) -> None:
    state.chmod(0o700)
    make_private(state)
    assert mode(state / SECRET) == 0o600


def test_what_a_link_leads_to_keeps_its_mode(state: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("")
    (tmp_path / "other").chmod(0o644)
    (state / "link").symlink_to(tmp_path / "other")
    make_private(state)
    assert mode(tmp_path / "other") == 0o644


def test_a_folder_that_does_not_exist_is_left_to_the_store(tmp_path: Path) -> None:
    make_private(tmp_path / "none")
    assert open_state({"DEPUTY_STATE": str(tmp_path / "none")}).notice is None
    assert mode(tmp_path / "none") == 0o700


@pytest.mark.parametrize("foreign", [".", SECRET, "mcp.json", "transcripts", "transcripts/session/a.md"])
@pytest.mark.parametrize("loose", [0o777, 0o700])
def test_a_folder_that_another_user_could_prepare_is_neither_read_nor_written(
    state: Path, monkeypatch: pytest.MonkeyPatch, foreign: str, loose: int
) -> None:
    state.chmod(loose)
    give_away(state / foreign, monkeypatch)
    environ = {"DEPUTY_STATE": str(state)}
    before = sorted(state.rglob("*"))
    opened = open_state(environ)
    assert opened.notice is not None
    assert "belongs to another user" in opened.notice
    assert opened.folder != state
    assert mode(opened.folder) == 0o700
    assert opened.temporary is not None
    opened.temporary.cleanup()
    assert sorted(state.rglob("*")) == before
    for use in (open_store, open_approvals):
        with pytest.raises(StoreError, match="another user"):
            use(environ)


@pytest.mark.asyncio
async def test_the_user_gets_a_notice_about_a_folder_of_another_user(workspace: Path, state: Path) -> None:
    if os.geteuid() == 0:
        os.chown(state, FOREIGN, FOREIGN)
    foreign = state if os.geteuid() == 0 else Path("/usr")
    async with serving(env={"DEPUTY_STATE": str(foreign)}) as client:
        await client.initialize(workspace, initializationOptions={"model": "offline"})
        await client.session()
        shown = await client.until(lambda m: m.get("method") == "window/showMessage")
        assert "belongs to another user" in shown["params"]["message"]
        assert await client.shut_down() == 0


@pytest.mark.asyncio
async def test_a_server_tightens_the_folder_that_it_finds(workspace: Path, tmp_path: Path) -> None:
    (state := tmp_path / "state").mkdir()
    state.chmod(0o755)
    (state / "old.log").write_text("")
    (state / "old.log").chmod(0o666)
    async with serving(env={"DEPUTY_STATE": str(state)}) as client:
        await client.initialize(workspace, initializationOptions={"model": "offline"})
        await client.session()
        assert mode(state) == 0o700
        assert {mode(path) for path in state.iterdir() if path.is_file()} == {0o600}
        assert await client.shut_down() == 0
