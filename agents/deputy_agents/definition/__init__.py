"""Agent definitions: the value, and how built-in and user definitions are found, read and described to a model.
Building an agent from one belongs to ``session/builder.py``."""
