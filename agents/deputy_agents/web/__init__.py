"""Fetches web pages with limits on address, size and time, and converts them to Markdown. ``permission/`` decides
whether a page may be fetched."""
