"""The LSP front end: one connection to one editor, one module per resource named as on the wire. What it shares with
``acp`` is in ``rpc/``, ``convert/`` and ``prompting.py``."""
