"""Completion in real shells."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.terminal import Terminal, terminal

PRINTED = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source ./script"),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -u -D; source ./script"),
    "fish": (["fish", "--no-config", "-i"], "source ./script"),
}
INSTALLED = {"bash": ["bash", "-i"], "zsh": ["zsh", "-i"], "fish": ["fish", "-i"]}

WITH_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
)
"""Makes the terminal the controlling one, which interactive shells need."""


@pytest.fixture
def env(tmp_path: Path) -> Mapping[str, str]:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "deputy").write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m deputy_server "$@"\n')
    (programs / "deputy").chmod(0o755)
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "xterm"}


@pytest.mark.editors
@pytest.mark.parametrize("shell", PRINTED)
def test_printed_script_completes_a_command_and_a_setting(shell: str, tmp_path: Path, env: Mapping[str, str]) -> None:
    command, load = PRINTED[shell]
    with terminal([sys.executable, "-c", WITH_TERMINAL, *command], tmp_path, env) as screen:
        screen.press(f"deputy completion {shell} > script; {load}; echo rea''dy\n")
        _complete(screen)


@pytest.mark.editors
@pytest.mark.parametrize("shell", INSTALLED)
def test_installed_script_is_read_by_new_shells(shell: str, tmp_path: Path, env: Mapping[str, str]) -> None:
    install = [sys.executable, "-P", "-m", "deputy_server", "completion", "--install", shell]
    done = subprocess.run(install, env=env, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == ""
    assert "Start a new shell" in done.stderr
    with terminal([sys.executable, "-c", WITH_TERMINAL, *INSTALLED[shell]], tmp_path, env) as screen:
        screen.press("echo rea''dy\n")
        _complete(screen)


def test_installation_where_nothing_can_be_written_says_so(tmp_path: Path, env: Mapping[str, str]) -> None:
    (tmp_path / ".config").write_text("a file")
    install = [sys.executable, "-P", "-m", "deputy_server", "completion", "--install", "fish"]
    done = subprocess.run(install, env=env, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {tmp_path}/.config")


def _complete(screen: Terminal) -> None:
    """Completes a command and a setting, runs them, and ends the shell."""
    screen.wait_for("ready")
    screen.press("deputy conf\t")
    screen.wait_for(r"deputy\S* config")
    screen.press(" get smallM\t")
    screen.wait_for("smallModel")
    screen.press("\n")
    screen.wait_for("null")
    screen.press("exit\n")
    assert screen.end() == 0
