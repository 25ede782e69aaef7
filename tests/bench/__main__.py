"""``python -m tests.bench``: how fast, told as ratios within one run. Nothing here is asserted."""

import asyncio

from tests.bench import agents, deputy, startup, store, streams, wire
from tests.bench.fanout import CONTENDERS, main

if __name__ == "__main__":
    asyncio.run(startup.main())
    asyncio.run(main({**CONTENDERS, "Deputy": deputy.turn}))
    asyncio.run(streams.main())
    asyncio.run(agents.main())
    asyncio.run(store.main())
    asyncio.run(wire.main())
