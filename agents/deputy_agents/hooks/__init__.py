"""Hooks: commands of the user that run around tools and at the end of a turn. ``run/hook_runner.py`` decides when an
agent runs them."""
