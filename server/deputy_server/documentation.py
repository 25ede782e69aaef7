"""Addresses of the documentation for users, who have no files of it: they are those of the installed package."""

from importlib.metadata import metadata


def page(name: str) -> str:
    """The address of a page, for example ``vscode``. Reads files."""
    entries = (entry.partition(", ") for entry in metadata("deputy-ls").get_all("Project-URL") or ())
    return f"{next(url for label, _, url in entries if label == 'Documentation')}{name}/"
