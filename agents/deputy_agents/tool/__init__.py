"""The tools that agents can call, and the registry that selects them. A tool declares the access it needs;
``run/gate.py`` decides whether a call may run."""
