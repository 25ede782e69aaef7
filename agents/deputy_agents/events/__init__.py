"""The event log of a session, the numbers of its events, and the view that is folded from them. Where events are
stored belongs to ``store/``."""
