"""Handlers of the state machine: pure functions that build the next phase and the effects of one step.
``run.transition`` calls them by its table; nothing else imports them."""
