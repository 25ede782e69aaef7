from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import pytest_asyncio

from tests.support.acp import Speakers


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def acp() -> AsyncGenerator[Speakers]:
    """Opens a session of ``deputy acp`` with a scripted model; servers are shared within a module."""
    async with AsyncExitStack() as stack:
        yield Speakers(stack)
