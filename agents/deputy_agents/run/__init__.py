"""One agent at work: the state machine (``state``, ``effect``, ``transition``), the driver that performs its effects,
and what the driver needs. Which agents exist and who starts them belongs to ``session/``."""
