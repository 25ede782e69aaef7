"""Hooks: commands of the user that run around tools and at the end of a turn. When an agent runs them is decided in
``run/hook_runner.py``."""
