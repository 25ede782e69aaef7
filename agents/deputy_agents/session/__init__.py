"""Sessions: the API for front ends, the host that drivers and tools call, the tree of agents, turns, and what is
restored from the store. How one agent runs belongs to ``run/``."""
