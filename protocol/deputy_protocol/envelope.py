"""The fields that events share."""

from deputy_protocol.base import Count, Positive, Wire


class AgentEvent(Wire):
    """Every event of an agent."""

    session_id: str
    agent_id: str
    run: Positive
    time: str


class Durable(AgentEvent):
    """An event that is stored and numbered."""

    seq: Positive
    agent_seq: Positive


class Lossy(AgentEvent):
    """An event that may be merged or dropped under load."""

    after_seq: Count


class Derived(Wire):
    """An event of a session that follows from other state."""

    session_id: str
    time: str
    after_seq: Count
