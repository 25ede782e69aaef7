"""Session stores behind :class:`deputy_agents.ports.store.Store`: SQLite and memory, with the stored form of events
and messages. What a session is belongs to ``session/``."""
