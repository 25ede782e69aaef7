"""A session store that cannot be used: every front end says so, and no list looks empty without a word."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from anyio import to_thread

from deputy_agents.store.sqlite import FILE
from deputy_protocol.settings import Settings
from deputy_server import doctor, doctor_store
from deputy_server.doctor import CheckContext, CheckResult
from deputy_server.storage import open_state
from tests.support.acp import speaking
from tests.support.rpc import RpcFailure, serving
from tests.support.warm import completed


def garbage(state: Path) -> None:
    (state / FILE).write_text("no database " * 1000)


def newer(state: Path) -> None:
    _stored(state)
    with closing(sqlite3.connect(state / FILE)) as connection:
        connection.execute("PRAGMA user_version = 99")
        connection.commit()


def folder(state: Path) -> None:
    (state / FILE).mkdir()


def _stored(state: Path) -> None:
    open_state({"DEPUTY_STATE": str(state)})


FAULTS: dict[Callable[[Path], None], str] = {
    garbage: "is not a database",
    newer: "newer version of Deputy",
    folder: "session file cannot be",
}


@pytest.fixture(params=FAULTS, ids=lambda fault: fault.__name__)
def fault(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A state folder that cannot be used, and what is said about it."""
    (state := tmp_path / "state").mkdir(mode=0o700)
    request.param(state)
    (state / FILE).chmod(0o700)
    return state, FAULTS[request.param]


def deputy(state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "DEPUTY_STATE": str(state), "DEPUTY_MODEL": "offline"}
    return completed(["-m", "deputy_server", *arguments], env, state.parent)


def test_the_command_line_fails_with_the_reason(fault: tuple[Path, str]) -> None:
    state, words = fault
    for arguments in (
        ["list"],
        ["list", "--all", "--json"],
        ["show", "0192"],
        ["export", "0192"],
        ["delete", "0192", "-y"],
    ):
        ran = deputy(state, "sessions", *arguments)
        assert (ran.returncode, ran.stdout) == (1, "")
        assert words in ran.stderr
        assert "No sessions" not in ran.stderr


@pytest.mark.parametrize("option", [["--continue"], ["--session", "0192"]])
def test_a_run_that_continues_a_session_fails_with_the_reason(fault: tuple[Path, str], option: list[str]) -> None:
    state, words = fault
    ran = deputy(state, "run", *option, "go on")
    assert ran.returncode == 1
    assert words in ran.stderr
    assert "no session" not in ran.stderr


def test_a_new_run_works_and_says_that_it_is_not_stored(fault: tuple[Path, str]) -> None:
    state, words = fault
    ran = deputy(state, "run", "hello")
    assert ran.returncode == 0
    assert words in ran.stderr
    assert "kept in memory" in ran.stderr


@pytest.mark.asyncio
async def test_a_language_client_gets_the_reason_with_the_list_and_with_a_session(
    fault: tuple[Path, str], workspace: Path
) -> None:
    state, words = fault
    async with serving(env={"DEPUTY_STATE": str(state)}) as client:
        await client.initialize(workspace, initializationOptions={"model": "offline"})
        listed = await client.request("deputy/session/list", {})
        assert listed["sessions"] == []
        assert words in listed["problem"]
        session_id, _ = await client.session()
        shown = await client.until(lambda m: m.get("method") == "window/showMessage")
        assert words in shown["params"]["message"]
        listed = await client.request("deputy/session/list", {})
        assert [info["sessionId"] for info in listed["sessions"]] == [session_id]
        assert words in listed["problem"]
        assert await client.shut_down() == 0


@pytest.mark.asyncio
async def test_no_problem_is_told_where_there_is_none(workspace: Path, tmp_path: Path) -> None:
    async with serving(env={"DEPUTY_STATE": str(tmp_path / "state")}) as client:
        await client.initialize(workspace, initializationOptions={"model": "offline"})
        assert await client.request("deputy/session/list", {}) == {"sessions": []}
        assert await client.shut_down() == 0


@pytest.mark.asyncio
async def test_an_acp_client_gets_the_reason_instead_of_an_empty_list(fault: tuple[Path, str], workspace: Path) -> None:
    state, words = fault
    env = os.environ | {"DEPUTY_STATE": str(state), "DEPUTY_MODEL": "offline"}
    async with speaking(env=env) as client:
        await client.greet(session={"notices": {}})
        with pytest.raises(RpcFailure) as failure:
            await client.request("session/list", {})
        assert words in failure.value.message
        session_id = await client.open(workspace)
        await client.until(lambda m: m.get("method") == "session/update" and words in json.dumps(m))
        listed = await client.request("session/list", {})
        assert [info["sessionId"] for info in listed["sessions"]] == [session_id]
        assert words in listed["_meta"]["deputy"]["problem"]


# -- doctor --------------------------------------------------------------------------------------------------------


async def store_results(state: Path) -> list[CheckResult]:
    found = await doctor.run_checks(CheckContext({"DEPUTY_STATE": str(state)}, Settings()))
    return [result for result in found if result.name == "store"]


@pytest.fixture
def only_store(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = tuple(check for check in doctor.CHECKS if check.__name__ == "_check_store")
    assert checks
    monkeypatch.setattr(doctor, "CHECKS", checks)


@pytest.mark.asyncio
@pytest.mark.usefixtures("only_store")
async def test_doctor_names_what_is_wrong_and_what_to_do(fault: tuple[Path, str]) -> None:
    state, words = fault
    (result,) = await store_results(state)
    assert not result.ok
    assert words in result.message
    assert "DEPUTY_STATE" in result.message + result.action or "Move" in result.action


def test_doctor_prints_one_line_for_each_finding_and_fails(fault: tuple[Path, str]) -> None:
    state, words = fault
    ran = deputy(state, "doctor")
    assert ran.returncode == 1
    (line,) = [line for line in ran.stdout.splitlines() if " store " in line]
    assert line.startswith("✗ store")
    assert words in line


@pytest.mark.asyncio
@pytest.mark.usefixtures("only_store")
async def test_doctor_counts_the_sessions_and_changes_nothing(tmp_path: Path) -> None:
    state = tmp_path / "state"
    before = await to_thread.run_sync(_prepared, state)
    first, loose = await store_results(state)
    assert (first.ok, first.message) == (True, f"Sessions are stored in {state}.")
    assert (loose.ok, loose.action) == (True, "Deputy repairs this when it starts.")
    assert "Others have access to" in loose.message
    assert await to_thread.run_sync(_modes, state) == before


def _prepared(state: Path) -> dict[Path, int]:
    _stored(state)
    (state / "transcripts").mkdir(mode=0o755)
    return _modes(state)


def _modes(state: Path) -> dict[Path, int]:
    return {path: path.stat().st_mode for path in state.rglob("*") if "-" not in path.name}


@pytest.mark.asyncio
@pytest.mark.usefixtures("only_store")
async def test_doctor_warns_of_a_nearly_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_store, "MIN_FREE", 2**60)
    (result,) = await store_results(tmp_path / "state")
    assert not result.ok
    assert "MiB are free on the disk" in result.message
    assert result.action == "Free some space."


@pytest.mark.asyncio
@pytest.mark.usefixtures("only_store")
async def test_doctor_names_what_belongs_to_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state"
    await to_thread.run_sync(_stored, state)
    if os.geteuid() == 0:
        os.chown(state / FILE, 65534, 65534)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
    (result,) = await store_results(state)
    assert not result.ok
    assert "another user" in result.message
    assert "DEPUTY_STATE" in result.action


@pytest.mark.asyncio
@pytest.mark.usefixtures("only_store")
async def test_doctor_names_a_damaged_row(tmp_path: Path) -> None:
    state = tmp_path / "state"
    await to_thread.run_sync(_stored, state)
    with closing(sqlite3.connect(state / FILE)) as connection:
        values = ("s1", "p", "A title", "/", 0.0, 0.0, "m", "broken")
        connection.execute(
            "INSERT INTO sessions (session_id, agent_id, title, cwd, created_at, updated_at, model, rules) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            values,
        )
        connection.commit()
    (result,) = await store_results(state)
    assert (result.ok, result.message) == (False, "1 part of the session s1 cannot be read: A title")
    assert "deputy sessions delete s1" in result.action


# -- a full disk ---------------------------------------------------------------------------------------------------

FULL = 'mount -t tmpfs -o size=8m,mode=700 tmpfs "$0" && cat /dev/zero > "$0/ballast" 2>/dev/null; exec "$@"'


def on_full_disk(state: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Runs ``command`` with a full disk at ``state``, if the system can do that."""
    env = {"PATH": os.environ["PATH"], "DEPUTY_STATE": str(state), "DEPUTY_MODEL": "offline", "HOME": str(state.parent)}
    namespace = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", FULL, str(state)]
    wrapped = [*(namespace if shutil.which("unshare") else []), *command]
    return subprocess.run(wrapped, env=env, cwd=state.parent, capture_output=True, text=True, timeout=60, check=False)


def test_a_full_disk_is_named_as_such(tmp_path: Path) -> None:
    (state := tmp_path / "state").mkdir(mode=0o700)
    is_full = on_full_disk(state, "test", "-s", str(state / "ballast")).returncode == 0
    for arguments in (["sessions", "list", "--all"], ["run", "hello"], ["doctor"]) if is_full else ():
        ran = on_full_disk(state, sys.executable, "-m", "deputy_server", *arguments)
        assert re.search("disk is full|No space left", ran.stdout + ran.stderr), arguments
        assert ran.returncode == (0 if arguments[0] == "run" else 1)
        assert "rollback" not in ran.stdout + ran.stderr
