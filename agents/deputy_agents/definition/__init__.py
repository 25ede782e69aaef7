"""Agent definitions: the value type, and finding, reading and describing built-in and user definitions. Building an
agent from a definition belongs to ``session/builder.py``."""
