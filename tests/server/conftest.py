from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import pytest_asyncio

from tests.support.shared_server import Deputies


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def deputy() -> AsyncGenerator[Deputies]:
    """Opens a server in front of a script; those of one module are shared."""
    async with AsyncExitStack() as stack:
        yield Deputies(stack)
