"""One run of one sub-agent, as the supervisor holds it."""

from dataclasses import dataclass, field

import anyio

from deputy_agents.domain.outcome import CancelReason
from deputy_agents.run.agent import Agent
from deputy_agents.run.deadline import Deadline
from deputy_agents.run.driver import Driver
from deputy_agents.run.slots import Slot
from deputy_agents.tool.delegate import SpawnSpec


@dataclass(slots=True)
class ChildRun:
    """Without a slot, the run found no room in the queue and only reports so."""

    agent: Agent
    driver: Driver
    slot: Slot | None
    deadline: Deadline
    late: CancelReason
    """What it means when the deadline passes."""
    spec: SpawnSpec
    parent: Driver
    call_accepted: anyio.Event
    """Set when the whole call is accepted: before, the parent does not wait for this run."""
    accepted_at: float
    queue_position: int | None
    """As it was last announced."""
    rejection: str = ""
    """Why it found no room in the queue."""
    done: anyio.Event = field(default_factory=anyio.Event)
    cancelling: bool = False
