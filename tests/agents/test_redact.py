"""Secrets are taken out, and what only looks a little like one is not."""

from pathlib import Path

import pytest

from deputy_agents.redact import MASK, Redactor


@pytest.mark.parametrize(
    "text",
    [
        "in task-management-service/app.py",
        "risk-assessment-report-2024.md",
        "see disk-usage-of-all-machines-1",
        "John Appleseed wrote it",
    ],
)
def test_ordinary_words_stay(text: str) -> None:
    environ = {"GIT_AUTHOR_NAME": "John Appleseed", "KEYBOARD_LAYOUT": "John Appleseed"}
    assert Redactor(environ).text(text) == text


def test_a_folder_is_no_secret_whatever_its_variable_is_called(tmp_path: Path) -> None:
    environ = {"PASSWORD_STORE_DIR": str(tmp_path), "SSH_AUTH_SOCK": str(tmp_path)}
    assert Redactor(environ).text(f"{tmp_path}/a.txt") == f"{tmp_path}/a.txt"


@pytest.mark.parametrize("name", ["MY_TOKEN", "DB_PASSWORD", "API_KEYS", "GITHUBTOKEN", "SECRET", "AUTH", "KEY_1"])
def test_values_of_variables_that_are_called_secret_go(name: str) -> None:
    assert Redactor({name: "open sesame"}).text("say open sesame now") == f"say {MASK} now"


@pytest.mark.parametrize("word", ["a-", "sk-", "eyJaaaaaaaa", "password", "password ", "api-key-", "://a:", "secret="])
def test_no_word_takes_long_to_look_through(word: str) -> None:
    """Looked at anew from each of its places to its end, it would take hours."""
    text = word * 20_000 + "!"
    assert Redactor({}).text(text).endswith(("!", MASK))


@pytest.mark.parametrize(
    "text",
    ["DB_PASSWORD=open-sesame", 'my-api-key-of-old: "open sesame"', "client_secret_v2 = 'open sesame'"],
)
def test_what_is_assigned_to_a_secret_name_goes(text: str) -> None:
    assert "sesame" not in Redactor({}).text(text)


@pytest.mark.parametrize("before", ["", "Bearer ", "session_", "a-"])
def test_web_tokens_go_whatever_stands_before_them(before: str) -> None:
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"
    assert Redactor({}).text(f"{before}{token} end") == f"{before}{MASK} end"


def test_keys_of_services_go() -> None:
    assert MASK in Redactor({}).text("use sk-ant-api03-abcdefghijklmnop")
