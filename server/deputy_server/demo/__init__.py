"""``deputy demo``: a small LSP client that starts a real server and shows its work in the terminal."""
