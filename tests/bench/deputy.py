"""Deputy in the fan-out: a runtime with store, gate and events on, one session for each run."""

from functools import cache

import anyio

from deputy_agents.domain.message import Text
from deputy_agents.domain.settings import AgentSettings, Settings
from deputy_agents.events.subscription import Subscription
from deputy_agents.model.endpoint import ApiSettings
from deputy_agents.model.factory import Models
from deputy_agents.ports.model import ModelFactory
from deputy_agents.session.runtime import Runtime
from deputy_agents.store.memory import MemoryStore
from tests.bench.fanout import Fanout


@cache
def _models(url: str) -> ModelFactory:
    """One for all runs, like the floor's client."""
    return Models({"ANTHROPIC_API_KEY": "bench"}).of(ApiSettings(url))


async def turn(run: Fanout) -> None:
    """One prompt, its children, and a subscriber that reads every event."""
    settings = Settings(model="bench", agents=AgentSettings(max_parallel=64, max_parallel_per_parent=64))
    async with Runtime(store=MemoryStore()) as runtime:
        client = runtime.clients.connect(settings, _models(run.url))
        session = await runtime.new_session(client, cwd=run.folder, roots=[run.folder])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, session.log.subscribe(0))
            outcome = await session.turns.accept([Text(run.prompt)]).result()
            tasks.cancel_scope.cancel()
    if outcome.stop_reason != "end_turn":
        raise RuntimeError(f"the turn ended with {outcome}")


async def _read(events: Subscription) -> None:
    async for _ in events:
        pass
