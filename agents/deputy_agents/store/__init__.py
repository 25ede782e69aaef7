"""Implementations of :class:`deputy_agents.ports.store.Store`: SQLite and memory, and the stored format of events and
messages. Sessions themselves belong to ``session/``."""
