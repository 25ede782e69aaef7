"""Patterns that match in linear time: regular expressions, and the globs of rules, searches and ignore files. A pattern
that a user, a workspace, a model or a client has written is matched by this folder, never by :mod:`re`."""
