"""Runs without an editor: ``deputy run``. It uses the core in the same process and prints text or JSON lines."""
