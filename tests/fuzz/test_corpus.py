"""Inputs that the fuzzer found, fed to a connection again."""

from pathlib import Path

import pytest

from tests.fuzz.target import feed

CORPUS = {file.name: file.read_bytes() for file in sorted((Path(__file__).parent / "corpus").iterdir())}


@pytest.mark.parametrize("name", CORPUS)
@pytest.mark.asyncio
async def test_each_request_is_answered_once_whatever_surrounds_it(name: str) -> None:
    await feed(CORPUS[name])
