"""The permission gate: matching of rules, the function that decides, and the inbox of open permission requests. How a
tool call is described to the gate belongs to ``run/gate.py`` and to each tool."""
