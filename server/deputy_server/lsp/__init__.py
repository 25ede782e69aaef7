"""The LSP front end: one connection of one editor, over the project's own reader and writer."""
