"""The Agent Client Protocol front end (``deputy acp``). What it shares with ``lsp`` is in ``rpc/`` and
``prompting.py``."""
