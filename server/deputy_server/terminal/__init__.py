"""Drawing sessions in a terminal: a pure fold of events to a view, and screens that show it. Used by the demo and by
``deputy run``."""
