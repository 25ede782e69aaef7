"""``deputy demo``: a small LSP client that starts a real server and shows its work in the terminal. It controls agents
only through the protocol, like an editor."""
