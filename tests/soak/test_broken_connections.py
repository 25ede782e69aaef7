"""The broken connections of the suite, at every byte."""

import pytest

from tests.server.test_hostile import complete_requests_are_answered, framed, session_of
from tests.support.sockets import listening

pytestmark = [pytest.mark.asyncio, pytest.mark.soak, pytest.mark.timeout(600)]


async def test_complete_requests_are_answered_when_the_connection_breaks_at_any_byte() -> None:
    async with listening("--tcp", "0") as server:
        for cut in range(len(b"".join(map(framed, session_of(server)))) + 1):
            await complete_requests_are_answered(server, cut)
