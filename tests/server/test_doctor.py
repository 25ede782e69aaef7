"""``deputy doctor``: what is well, what is not, and what to do."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from deputy_agents.domain.errors import InvalidRequest, ToolError
from deputy_agents.tool import ripgrep
from deputy_protocol.settings import ApiSettings, Settings
from deputy_server import doctor
from deputy_server.doctor import Check, Patient, examine, read_settings
from tests.support.messages_api import messages_api
from tests.support.model_replies import failing, say


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting one takes a second; the tests of the command line do."""
    others = tuple(check for check in doctor._CHECKS if check is not doctor._server)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(doctor, "_CHECKS", others)


async def found(patient: Patient) -> dict[str, Check]:
    return {check.name: check for check in await examine(patient)}


def patient(tmp_path: Path, settings: Settings | None = None, *, online: bool = False, **environ: str) -> Patient:
    return Patient({"DEPUTY_STATE": str(tmp_path / "state"), **environ}, settings or Settings(), online)


def run(tmp_path: Path, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deputy_server", "doctor", *options]
    env = {"PATH": "/usr/bin:/bin", "DEPUTY_STATE": str(tmp_path / "state"), **environ}
    return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)


def test_a_healthy_installation_is_told_so_in_one_line_each(tmp_path: Path) -> None:
    ran = run(tmp_path, ANTHROPIC_API_KEY="sk-secret", DEPUTY_MODEL="some-model")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [line.split()[:2] for line in ran.stdout.splitlines()] == [
        ["✓", name] for name in ("python", "server", "search", "model", "prices", "files", "store")
    ]
    assert "sk-secret" not in ran.stdout


def test_a_settings_file_of_the_user_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    file = tmp_path / "own" / ".deputy" / "settings.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"permissions": {},\n bad', "utf-8")
    ran = run(tmp_path, HOME=str(tmp_path / "own"), DEPUTY_MODEL="offline")
    assert ran.returncode == 1
    broken = f"✗ files   {file}:2: it is no valid JSON (line 2, column 2). Until it is mended, everything asks."
    assert broken in ran.stdout


def test_what_is_wrong_is_told_as_json_with_what_to_do_and_an_exit_code(tmp_path: Path) -> None:
    ran = run(tmp_path, "--json", DEPUTY_MODEL="some-model")
    told = json.loads(ran.stdout)
    assert (ran.returncode, told["ok"]) == (1, False)
    (wrong,) = [check for check in told["checks"] if not check["ok"]]
    assert wrong["name"] == "model"
    assert wrong["message"] == "No key for the model service is set."
    assert "ANTHROPIC_API_KEY" in wrong["action"]


@pytest.mark.asyncio
async def test_without_a_key_the_offline_model_is_well_and_a_hint_is_given(tmp_path: Path) -> None:
    check = (await found(patient(tmp_path)))["model"]
    assert check.ok
    assert "offline" in check.message
    assert "ANTHROPIC_API_KEY" in check.action


@pytest.mark.asyncio
async def test_no_request_is_made_unless_asked_for(tmp_path: Path) -> None:
    async with messages_api(lambda *_: say("hello")) as api:
        environ = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.url}
        assert (await found(patient(tmp_path, **environ)))["model"].ok
        assert api.requests == []
        check = (await found(patient(tmp_path, online=True, **environ)))["model"]
        assert (check.ok, check.message) == (True, "claude-sonnet-5-5 answers.")
        assert len(api.requests) == 1


@pytest.mark.asyncio
async def test_a_key_that_is_rejected_is_told_with_what_to_do(tmp_path: Path) -> None:
    async with messages_api(lambda *_: failing(401, "authentication_error", "invalid x-api-key")) as api:
        environ = {"ANTHROPIC_API_KEY": "sk-wrong", "ANTHROPIC_BASE_URL": api.url}
        check = (await found(patient(tmp_path, online=True, **environ)))["model"]
    assert (check.ok, check.action) == (False, "Check ANTHROPIC_API_KEY.")
    assert "sk-wrong" not in check.message


@pytest.mark.asyncio
async def test_a_key_command_that_fails_is_told(tmp_path: Path) -> None:
    settings = Settings(model="m", api=ApiSettings(key_command=("false",)))
    check = (await found(patient(tmp_path, settings)))["model"]
    assert not check.ok
    assert "exit code 1" in check.message
    assert "api.keyCommand" in check.action


@pytest.mark.asyncio
async def test_missing_ripgrep_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise ToolError("ripgrep (rg) is missing")

    monkeypatch.setattr(ripgrep, "binary", missing)
    check = (await found(patient(tmp_path)))["search"]
    assert not check.ok
    assert "ripgrep" in check.action


@pytest.mark.asyncio
async def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    check = (await found(patient(tmp_path, DEPUTY_STATE=str(tmp_path / "file"))))["store"]
    assert not check.ok
    assert "DEPUTY_STATE" in check.action


@pytest.mark.asyncio
@pytest.mark.parametrize(("text", "ok"), [('["m"]\nwindow = 5\n', True), ("[m]\nprice = 3\n", False), (None, False)])
async def test_the_users_own_prices_are_read(tmp_path: Path, text: str | None, ok: bool) -> None:
    path = tmp_path / "models.toml"
    if text is not None:
        path.write_text(text)
    assert (await found(patient(tmp_path, DEPUTY_MODELS=str(path))))["prices"].ok is ok


@pytest.mark.parametrize("text", ["{", '{"maxTokens": 0}'])
def test_settings_that_cannot_be_used_are_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    with pytest.raises(InvalidRequest, match=r"settings\.json"):
        read_settings(path)


def test_settings_are_those_that_an_editor_sends(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"model": "m", "api": {"keyCommand": ["pass", "key"]}}')
    read = read_settings(path)
    keys: Sequence[str] = read.api.key_command
    assert (read.model, tuple(keys)) == ("m", ("pass", "key"))
