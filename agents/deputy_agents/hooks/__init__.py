"""Hooks: commands of the user that run at events of a session. ``run/hook_runner.py`` decides when an agent runs
them."""
