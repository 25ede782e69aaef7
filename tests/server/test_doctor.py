"""``deputy doctor``: passed checks, failed checks, and suggested fixes."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from deputy_agents.domain.errors import InvalidRequest, ToolError
from deputy_agents.shell.confinement import Start
from deputy_agents.shell.sandbox import Mechanism
from deputy_agents.tool import ripgrep
from deputy_protocol.settings import ApiSettings, Isolation, Settings, ShellSettings
from deputy_server import doctor, doctor_commands
from deputy_server.doctor import CheckContext, CheckResult, read_settings, run_checks
from tests.support.messages_api import messages_api
from tests.support.model_replies import failing, say
from tests.support.warm import completed


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the check that starts a server, which takes a second. Tests of the command line include it."""
    others = tuple(check for check in doctor.CHECKS if check is not doctor.check_server)
    monkeypatch.setattr(doctor, "CHECKS", others)


async def results(context: CheckContext) -> dict[str, CheckResult]:
    return {result.name: result for result in await run_checks(context)}


def context(tmp_path: Path, settings: Settings | None = None, *, online: bool = False, **environ: str) -> CheckContext:
    return CheckContext({"DEPUTY_STATE": str(tmp_path / "state"), **environ}, settings or Settings(), online)


def run(tmp_path: Path, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": "/usr/bin:/bin", "DEPUTY_STATE": str(tmp_path / "state"), **environ}
    return completed(["-m", "deputy_server", "doctor", *options], env, tmp_path)


def test_working_installation_passes_each_check_in_one_line(tmp_path: Path) -> None:
    ran = run(tmp_path, ANTHROPIC_API_KEY="sk-secret", DEPUTY_MODEL="some-model")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [line.split()[:2] for line in ran.stdout.splitlines()] == [
        ["✓", name]
        for name in (*("python", "server", "search", "model", "prices", "files", "store", "commands", "sandbox"),)
    ]
    assert "sk-secret" not in ran.stdout


def test_invalid_settings_file_of_the_user_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "own" / ".deputy" / "settings.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"permissions": {},\n bad', "utf-8")
    ran = run(tmp_path, HOME=str(tmp_path / "own"), DEPUTY_MODEL="offline")
    assert ran.returncode == 1
    reason = "invalid JSON (line 2, column 2). Until this is fixed, every tool call needs approval."
    assert f"✗ files     {file}:2: {reason}" in ran.stdout


def test_json_has_the_failed_check_and_its_action_and_the_exit_code_is_1(tmp_path: Path) -> None:
    ran = run(tmp_path, "--json", DEPUTY_MODEL="some-model")
    report = json.loads(ran.stdout)
    assert (ran.returncode, report["ok"]) == (1, False)
    (failed,) = [check for check in report["checks"] if not check["ok"]]
    assert failed["name"] == "model"
    assert failed["message"] == "No key for the model service is set: https://api.anthropic.com needs one."
    assert "ANTHROPIC_API_KEY" in failed["action"]


@pytest.mark.asyncio
async def test_without_a_key_the_offline_model_passes_with_a_hint(tmp_path: Path) -> None:
    check = (await results(context(tmp_path)))["model"]
    assert check.ok
    assert "offline" in check.message
    assert "ANTHROPIC_API_KEY" in check.action


@pytest.mark.asyncio
async def test_model_gets_a_request_only_with_online(tmp_path: Path) -> None:
    async with messages_api(lambda *_: say("hello")) as api:
        environ = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.url}
        assert (await results(context(tmp_path, **environ)))["model"].ok
        assert api.requests == []
        check = (await results(context(tmp_path, online=True, **environ)))["model"]
        assert (check.ok, check.message) == (True, "claude-sonnet-5-5 responds.")
        assert len(api.requests) == 1


@pytest.mark.asyncio
async def test_rejected_key_is_reported_with_an_action(tmp_path: Path) -> None:
    async with messages_api(lambda *_: failing(401, "authentication_error", "invalid x-api-key")) as api:
        environ = {"ANTHROPIC_API_KEY": "sk-wrong", "ANTHROPIC_BASE_URL": api.url}
        check = (await results(context(tmp_path, online=True, **environ)))["model"]
    assert (check.ok, check.action) == (False, "Check ANTHROPIC_API_KEY.")
    assert "sk-wrong" not in check.message


@pytest.mark.asyncio
async def test_failing_key_command_is_reported(tmp_path: Path) -> None:
    settings = Settings(model="m", api=ApiSettings(key_command=("false",)))
    check = (await results(context(tmp_path, settings)))["model"]
    assert not check.ok
    assert "exit code 1" in check.message
    assert "api.keyCommand" in check.action


@pytest.mark.asyncio
async def test_missing_ripgrep_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise ToolError("ripgrep (rg) is missing")

    monkeypatch.setattr(ripgrep, "binary", missing)
    check = (await results(context(tmp_path)))["search"]
    assert not check.ok
    assert "ripgrep" in check.action


@pytest.mark.asyncio
async def test_unwritable_state_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    check = (await results(context(tmp_path, DEPUTY_STATE=str(tmp_path / "file"))))["store"]
    assert not check.ok
    assert "DEPUTY_STATE" in check.action


@pytest.mark.asyncio
@pytest.mark.parametrize(("text", "ok"), [('["m"]\nwindow = 5\n', True), ("[m]\nprice = 3\n", False), (None, False)])
async def test_price_file_of_the_user_is_checked(tmp_path: Path, text: str | None, ok: bool) -> None:
    path = tmp_path / "models.toml"
    if text is not None:
        path.write_text(text)
    assert (await results(context(tmp_path, DEPUTY_MODELS=str(path))))["prices"].ok is ok


@pytest.mark.parametrize("text", ["{", '{"maxTokens": 0}'])
def test_invalid_settings_are_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    with pytest.raises(InvalidRequest, match=r"settings\.json"):
        read_settings(path)


def test_settings_have_the_format_that_editors_send(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"model": "m", "api": {"keyCommand": ["pass", "key"]}}')
    read = read_settings(path)
    keys: Sequence[str] = read.api.key_command
    assert (read.model, tuple(keys)) == ("m", ("pass", "key"))


# -- commands ----------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_isolation_and_sandbox_are_tried(tmp_path: Path) -> None:
    found = await results(context(tmp_path))
    assert found["commands"] == CheckResult("commands", True, "Commands are isolated: they cannot see other processes.")
    assert found["sandbox"].ok
    promises = "no network, no change of protected files or outside the workspace, no secrets"
    assert f"{promises}. It is off (`shell.sandbox`), automatic approval is off." in found["sandbox"].message


@pytest.mark.asyncio
async def test_a_machine_without_isolation_passes_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_commands, "isolation_problem", lambda: "unshare: Operation not permitted")
    found = (await results(context(tmp_path)))["commands"]
    assert found.ok
    assert found.message == "Commands run, but are not isolated: unshare: Operation not permitted."
    assert "api.keyCommand" in found.action
    off = Settings(shell=ShellSettings(isolation=Isolation.OFF))
    found = (await results(context(tmp_path, off)))["commands"]
    assert found.ok
    assert "the setting `shell.isolation` is off" in found.message


@pytest.mark.asyncio
@pytest.mark.parametrize("wanted", [True, False])
async def test_a_missing_sandbox_is_an_error_only_if_it_is_on(
    wanted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise ToolError("There is no sandbox on this machine: bwrap is not installed. Install it.")

    monkeypatch.setattr(doctor_commands, "mechanism", missing)
    found = (await results(context(tmp_path, Settings(shell=ShellSettings(sandbox=wanted)))))["sandbox"]
    assert found.ok is not wanted
    assert "bwrap is not installed" in found.message


@pytest.mark.asyncio
async def test_a_sandbox_that_does_not_hold_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run without it here, but the check does not know."""
    monkeypatch.setattr(doctor_commands, "mechanism", lambda: Mechanism.BUBBLEWRAP)
    monkeypatch.setattr("deputy_agents.shell.trust.sandboxed", lambda command, *_: Start(tuple(command)))
    found = (await results(context(tmp_path)))["sandbox"]
    assert not found.ok
    for promise in (
        *("created a protected file", "changed a protected file", "read a secret"),
        *("wrote outside the workspace", "reached the network"),
    ):
        assert f"a command {promise}" in found.message


@pytest.mark.requirement("Q3")
@pytest.mark.asyncio
async def test_automatic_approval_that_cannot_hold_is_an_error_only_if_it_is_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_commands, "broker_problem", lambda: "the kernel does not have Landlock")
    for auto_approved in (True, False):
        shell = ShellSettings(auto_approve_sandboxed=auto_approved)
        found = (await results(context(tmp_path, Settings(shell=shell))))["sandbox"]
        assert found.ok is not auto_approved
        assert "Commands cannot run in it in place of being approved" in found.message
        assert "the kernel does not have Landlock" in found.message


@pytest.mark.requirement("M4")
@pytest.mark.parametrize(
    ("model", "environ", "ok", "words"),
    [
        ("openai/m", {"OPENAI_API_KEY": "k"}, True, "openai/m of OpenAI at https://api.openai.com/v1, with a key"),
        ("openai/m", {}, False, "OPENAI_API_KEY"),
        ("bedrock/m", {"AWS_REGION": "eu-west-3"}, True, "region eu-west-3, with the credentials of your login there"),
        ("vertex/m", {}, False, "CLOUD_ML_REGION"),
        ("foundry/m", {"ANTHROPIC_FOUNDRY_API_KEY": "k"}, False, "ANTHROPIC_FOUNDRY_RESOURCE"),
    ],
)
@pytest.mark.asyncio
async def test_set_up_of_every_provider_is_explained(
    tmp_path: Path, model: str, environ: dict[str, str], words: str, *, ok: bool
) -> None:
    found = (await results(context(tmp_path, DEPUTY_MODEL=model, **environ)))["model"]
    assert found.ok is ok
    assert words in f"{found.message} {found.action}"
