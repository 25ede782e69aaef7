"""The event log of a session: numbering, commits, subscriptions, and the view folded from the events. Storage itself
belongs to ``store/``."""
