"""The tools that agents can call, and the registry that offers them. A tool states what it needs; whether it may run
is decided by ``run/gate.py``."""
