"""Fetching web pages within bounds: addresses that may be reached, size and time limits, conversion to Markdown.
Whether a page may be fetched is decided by ``permission/``."""
