"""Shows sessions in a terminal: a pure fold from events to a view, and screens that draw it. Used by the demo and by
``deputy run``; nothing here connects to a server or runs agents."""
