"""A lasting answer over the wire: what it covers, and what still asks."""

import subprocess
from pathlib import Path

import pytest

from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.shared_server import Deputies

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASK = "deputy/permission/request"
USUAL = ("git status", "cat a.txt", "make test")
COVERED: tuple[Json, ...] = (
    {"command": "git status --short"},
    {"command": "git status -sb -- a.txt"},
    {"command": "cat a.txt | cat -n"},
    {"command": "make test"},
)
ATTACKS: tuple[Json, ...] = (
    {"command": "git status", "cwd": "evil"},
    {"command": "cd evil && git status"},
    {"command": "git -C evil status"},
    {"command": "git -c core.fsmonitor=./program status"},
    {"command": "git --exec-path=. status"},
    {"command": "GIT_DIR=evil git status"},
    {"command": "git status; ./program"},
    {"command": "for PATH in .; do git status; done"},
    {"command": "for x in '$(./program)'; do for y in \"${x@P}\"; do git status; done; done"},
    {"command": "cat /etc/hostname"},
    {"command": "cat ../outside"},
    {"command": "cat link"},
    {"command": "cat *"},
    {"command": "cat .[^x]nv"},
    {"command": "cat a.txt | sh"},
    {"command": "make test --eval='x:=$(shell ./program)'"},
    {"command": "make test SHELL=./program"},
    {"command": "make test deploy"},
    {"command": "make -f a.txt"},
    {"command": "make test", "cwd": "evil"},
)


def play(body: Json, index: int) -> Play:
    """The usual commands, then those that the answer covers and those that it does not."""
    every: list[Json] = [*({"command": command} for command in USUAL), *COVERED, *ATTACKS]
    return calls(call("shell", **every[index])) if index < len(every) else say("done")


async def test_lasting_answer_covers_neither_other_options_nor_folders_nor_input(
    deputy: Deputies, workspace: Path
) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=workspace, check=True, capture_output=True, timeout=30)

    git("init", "--quiet")
    git("init", "--quiet", "--bare", "evil")
    program = workspace / "program"
    program.write_text(f"#!/bin/sh\ntouch '{workspace}/ran'\n")
    program.chmod(0o755)
    for key, value in (("core.bare", "false"), ("core.worktree", str(workspace)), ("core.fsmonitor", str(program))):
        git("-C", "evil", "config", key, value)
    (workspace / "a.txt").write_text("text\n")
    (workspace / ".env").write_text("KEY=x\n")
    (workspace / "Makefile").write_text("test:\n\t@echo tested\ndeploy:\n\t./program\n")
    (workspace / "link").symlink_to("/etc/hostname")
    (workspace.parent / "outside").write_text("x")
    asked: list[Json] = []

    def answer(permission_request: Json) -> Json:
        asked.append(permission_request["input"])
        kind = (
            "allow_always"
            if permission_request["input"]["command"] in USUAL and len(asked) <= len(USUAL)
            else "reject_once"
        )
        option = next(option for option in permission_request["options"] if option["kind"] == kind)
        return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}

    async with deputy(play, workspace) as (client, api):
        settings = {"model": "m", "baseUrl": api.url, "permissions": {"readingCommands": False}}
        client.notify("workspace/didChangeConfiguration", {"settings": {"deputy": settings}})
        client.handlers[ASK] = answer
        session_id, _ = await client.session()
        assert (await client.prompt(session_id, "go"))["stopReason"] == "end_turn"
    assert asked == [*({"command": command} for command in USUAL), *ATTACKS]
    assert not (workspace / "ran").exists()
