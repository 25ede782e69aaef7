"""The sandbox for commands: its arguments, and that a command never runs without it."""

from pathlib import Path

import pytest

from deputy_agents.domain.errors import ToolError
from deputy_agents.shell import sandbox


def test_only_the_workspace_is_writable_and_there_is_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.sys, "platform", "linux")
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: f"/bin/{name}")
    command = sandbox.sandboxed(["bash", "-c", "ls"], [Path("/w/one"), Path("/w/two")], "/w/one/src")
    assert " ".join(command) == (
        "/bin/bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --bind /w/one /w/one --bind /w/two /w/two "
        "--unshare-net --unshare-pid --unshare-ipc --die-with-parent --chdir /w/one/src -- bash -c ls"
    )


@pytest.mark.parametrize(("platform", "program"), [("linux", None), ("darwin", "/bin/bwrap")])
def test_without_bubblewrap_the_command_does_not_run(
    monkeypatch: pytest.MonkeyPatch, platform: str, program: str | None
) -> None:
    monkeypatch.setattr(sandbox.sys, "platform", platform)
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: program)
    with pytest.raises(ToolError, match="or turn the setting off"):
        sandbox.sandboxed(["ls"], [], "/w")
