"""Reads which hooks there are, and runs them."""
