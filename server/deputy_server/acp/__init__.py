"""The front end for the Agent Client Protocol, beside ``lsp``: ``deputy acp``."""
