"""``python -m tests.bench``: how fast, told as ratios within one run. Nothing here is asserted."""

import asyncio

from tests.bench import agents, cache, deputy, load, review, snapshots, stalls, startup, store, streams, wire
from tests.bench.fanout import CONTENDERS, main

if __name__ == "__main__":
    asyncio.run(startup.main())
    asyncio.run(main({**CONTENDERS, "Deputy": deputy.turn}))
    asyncio.run(streams.main())
    asyncio.run(agents.main())
    asyncio.run(store.main())
    asyncio.run(load.main())
    asyncio.run(review.main())
    asyncio.run(snapshots.main())
    asyncio.run(wire.main())
    asyncio.run(stalls.main())
    asyncio.run(cache.main())
