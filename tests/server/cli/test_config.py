"""``deputy config``, and that the user's file applies."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deputy_protocol.settings import Settings
from deputy_server.cli.app import app
from deputy_server.setting_names import all_settings
from deputy_server.settings_files import (
    Scope,
    UserDefaults,
    file_problems,
    read_file,
    value_at,
    write_value,
)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's settings file; the current folder is another one."""
    home, folder = tmp_path / "home", tmp_path / "project"
    for one in (home, folder):
        one.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(folder)
    return home / ".deputy" / "settings.json"


def run(*arguments: str, code: int = 0) -> tuple[str, str]:
    ended = CliRunner().invoke(app, ["config", *arguments])
    assert ended.exit_code == code, ended.output
    return ended.stdout, ended.stderr


@pytest.mark.usefixtures("own")
def test_each_value_has_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPUTY_MODEL", "from-the-environment")
    run("set", "agents.maxParallel", "4")
    run("set", "permissions.rules", '[{"tool": "shell", "action": "ask"}]')
    run("set", "permissions.rules", '[{"tool": "web_fetch", "action": "deny"}]', "--project")
    rows = {(row["name"], row["source"]): row["value"] for row in json.loads(run("list", "--json")[0])}
    assert rows["agents.maxParallel", "user"] == 4
    assert rows["model", "DEPUTY_MODEL"] == "from-the-environment"
    assert rows["maxTokens", "default"] == Settings().max_tokens
    assert rows["permissions.rules", "user"] == [{"tool": "shell", "action": "ask"}]
    assert rows["permissions.rules", "project"] == [{"tool": "web_fetch", "action": "deny"}]
    assert (
        run("get", "permissions.rules", "--project")[0]
        == json.dumps([{"tool": "web_fetch", "action": "deny"}], indent=2) + "\n"
    )
    assert len(json.loads(run("get", "permissions.rules")[0])) == 2
    assert "agents.maxParallel = 4  (user)\n" in run("list", "--changed")[0]


def test_comments_and_permissions_of_a_file_stay(own: Path) -> None:
    own.parent.mkdir()
    own.write_text('{\n  // mine\n  "maxTokens": 10, // few\n}\n')
    own.chmod(0o640)
    run("set", "maxTokens", "20")
    assert own.read_text() == '{\n  // mine\n  "maxTokens": 20, // few\n}\n'
    assert stat.S_IMODE(own.stat().st_mode) == 0o640
    assert [file.name for file in own.parent.iterdir()] == ["settings.json"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("maxtoken", "5"), "There is no setting maxtoken. Did you mean maxTokens?"),
        (("keepDays", "5"), "Did you mean sessions.keepDays?"),
        (("maxTokens", "no"), "maxTokens: must be a whole number"),
        (("agents.maxParallel", "0"), "agents.maxParallel: must be"),
        (("permissionMode", "root"), "permissionMode: must be"),
        (("trusted", "true"), "trusted has no effect in a file"),
        (("model", "x", "--project"), "A project cannot set model"),
        (("model", "x", "--project", "--user"), "cannot be combined"),
    ],
)
def test_an_invalid_value_is_rejected_and_nothing_is_written(own: Path, arguments: tuple[str, ...], told: str) -> None:
    assert told in " ".join(run("set", *arguments, code=2)[1].split())
    assert not own.exists()


def test_an_invalid_file_is_named_with_its_line(own: Path) -> None:
    own.parent.mkdir()
    own.write_text('{\n  "model": \n}\n')
    for arguments in (("set", "model", "x"), ("list",), ("get", "model")):
        assert f"{own}:3: invalid JSON" in run(*arguments, code=2)[1].replace("\n", "")
    assert own.read_text() == '{\n  "model": \n}\n'


def test_text_needs_no_quotes_and_null_removes_a_value(own: Path) -> None:
    run("set", "model", "5")
    assert json.loads(own.read_text()) == {"model": "5"}
    run("set", "model", "null")
    assert run("get", "model")[0] == "null\n"


def test_paths_are_printed_whether_or_not_the_files_exist(own: Path) -> None:
    assert run("path")[0].splitlines() == [str(own), str(Path.cwd() / ".deputy" / "settings.json")]
    assert run("path", "--user")[0] == f"{own}\n"


def test_secrets_are_not_listed(own: Path) -> None:
    run("set", "mcpServers", '{"x": {"url": "https://x.example", "headers": {"authorization": "hunter2"}}}')
    assert "hunter2" not in "".join((*run("list"), *run("list", "--json")))


def test_every_setting_of_the_reference_can_be_set() -> None:
    reference = Path(__file__).parents[3].joinpath("docs/settings.md").read_text()
    names = {one.name for one in all_settings()}
    assert all(f"| `{name}` |" in reference for name in names)
    assert len(names) > 40


def test_what_a_client_sends_takes_precedence_over_the_users_file(own: Path) -> None:
    own.parent.mkdir()
    own.write_text('{"model": "mine", "trusted": true, "agents": {"maxParallel": 4, "queue": 5}, "hooks": []}')
    settings = UserDefaults().below(Settings.model_validate({"agents": {"maxParallel": 2}, "model": None}))
    assert (settings.model, settings.agents.max_parallel, settings.agents.queue) == ("mine", 2, 5)
    assert "trusted" not in settings.model_fields_set
    own.write_text('{"maxTokens": 0}')
    defaults = UserDefaults()
    assert defaults.below(Settings()) == Settings()
    assert defaults.problem is not None
    assert "maxTokens" in defaults.problem


def test_every_setting_in_the_users_file_leaves_the_files_valid(own: Path) -> None:
    own.parent.mkdir()
    for one in all_settings():
        nested: object = one.default
        for key in reversed(one.name.split(".")):
            nested = {key: nested}
        own.write_text(json.dumps(nested))
        assert file_problems(Scope.USER) == (), one.name


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"modle": "offline"}', "There is no setting modle. Did you mean model?"),
        ('{"agents": {"maxParalel": 3}}', "There is no setting agents.maxParalel. Did you mean agents.maxParallel?"),
        ('{"agents": {"maxParallel": "many"}}', "Your own settings are not used."),
    ],
)
def test_what_has_no_effect_in_a_file_is_listed(own: Path, text: str, told: str) -> None:
    own.parent.mkdir()
    own.write_text(text)
    assert any(told in problem for problem in file_problems(Scope.USER))


def test_lines_end_as_before(own: Path) -> None:
    own.parent.mkdir()
    own.write_bytes(b'{\r\n  // mine\r\n  "model": "offline" // few\r\n}\r\n')
    run("set", "agents.maxParallel", "4")
    text = own.read_bytes()
    assert text.count(b"\n") == text.count(b"\r\n") == 7


def test_a_linked_file_is_named_as_such(own: Path, tmp_path: Path) -> None:
    own.parent.mkdir()
    own.symlink_to(tmp_path / "elsewhere.json")
    assert "is a link" in " ".join(run("set", "maxTokens", "20", code=2)[1].split())


@pytest.mark.usefixtures("own")
def test_values_that_are_set_at_once_all_stay() -> None:
    names = ("agents.maxParallel", "agents.maxDepth", "agents.queue", "maxTokens")
    with ThreadPoolExecutor() as threads:
        list(threads.map(partial(write_value, Scope.USER, value=2), names * 10))
    assert {value_at(read_file(Scope.USER), name) for name in names} == {2}
