"""What all sessions of a process share."""

from dataclasses import dataclass, field

from deputy_agents.domain.metrics import Metrics
from deputy_agents.domain.settings import Settings
from deputy_agents.mcp.approvals import Approvals
from deputy_agents.ports.clock import Clock
from deputy_agents.ports.model import ModelFactory
from deputy_agents.ports.store import Store
from deputy_agents.run.slots import Slots


@dataclass(slots=True)
class Services:
    """``settings`` is replaced when they change, so read it at the moment of use. ``grace`` is how long, in seconds, a
    permission request waits for a client that can ask the user; 0 where clients cannot reconnect."""

    settings: Settings
    store: Store
    models: ModelFactory
    clock: Clock
    grace: float
    slots: Slots
    metrics: Metrics
    approvals: Approvals = field(default_factory=Approvals)
