"""What all sessions of a process share."""

from dataclasses import dataclass, field
from weakref import WeakSet

from deputy_agents.domain.metrics import Metrics
from deputy_agents.guidance.answered_rules import AnsweredRules
from deputy_agents.mcp.approvals import Approvals
from deputy_agents.mcp.sign_ins import SignIns
from deputy_agents.ports.clock import Clock
from deputy_agents.ports.store import Store
from deputy_agents.run.slots import Slots
from deputy_agents.session.change_tracker import ChangeTracker
from deputy_agents.snapshots.roots import SnapshotRoots


@dataclass(frozen=True, slots=True)
class Services:
    """None of it depends on the settings of a client: those are in :class:`SessionSettings`."""

    store: Store
    clock: Clock
    slots: Slots
    metrics: Metrics
    approvals: Approvals = field(default_factory=Approvals)
    sign_ins: SignIns = field(default_factory=SignIns)
    answered: AnsweredRules = field(default_factory=AnsweredRules)
    snapshots: SnapshotRoots = field(default_factory=lambda: SnapshotRoots(None))
    ledgers: WeakSet[ChangeTracker] = field(default_factory=WeakSet[ChangeTracker])
    """The changes of all sessions, to know whose lines an agent changes."""
