"""What coverage-guided fuzzing has found to take ways of its own through a connection is fed to it again."""

from pathlib import Path

import pytest

from tests.fuzz.target import feed

CORPUS = {file.name: file.read_bytes() for file in sorted((Path(__file__).parent / "corpus").iterdir())}


@pytest.mark.parametrize("name", CORPUS)
@pytest.mark.asyncio
async def test_each_request_is_answered_once_whatever_comes_around_it(name: str) -> None:
    await feed(CORPUS[name])
