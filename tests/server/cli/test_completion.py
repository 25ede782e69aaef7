"""Completion in real shells."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.terminal import terminal

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source ./script"),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -u -D; source ./script"),
    "fish": (["fish", "--no-config", "-i"], "source ./script"),
}

WITH_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
)
"""Makes the terminal the controlling one, which interactive shells need."""


@pytest.mark.editors
@pytest.mark.parametrize("shell", SHELLS)
def test_a_command_and_a_setting_are_completed(shell: str, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "deputy").write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m deputy_server "$@"\n')
    (programs / "deputy").chmod(0o755)
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "xterm"}
    command, load = SHELLS[shell]
    with terminal([sys.executable, "-c", WITH_TERMINAL, *command], tmp_path, env) as screen:
        screen.press(f"deputy completion {shell} > script; {load}; echo rea''dy\n")
        screen.wait_for("ready")
        screen.press("deputy conf\t")
        screen.wait_for("deputy config")
        screen.press(" get smallM\t")
        screen.wait_for("smallModel")
        screen.press("\n")
        screen.wait_for("null")
        screen.press("exit\n")
        assert screen.end() == 0
