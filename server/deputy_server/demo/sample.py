"""A small sample project for agents to change, so that the demo changes no file of the user."""

from pathlib import Path

FILES = {
    "hello.py": '''"""Greets people."""


def greet(name: str) -> str:
    return f"Hello, {name}!"
''',
    "test_hello.py": """from hello import greet


def test_greets_by_name() -> None:
    assert greet("Ada") == "Hello, Ada!"
""",
}
REQUEST = 'Replace "Hello" with "Good morning"'


def write(folder: Path) -> None:
    """Create ``folder`` with the project in it."""
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")


def changed(folder: Path) -> list[str]:
    """Names of the files that have changed since :func:`write`."""
    return [name for name, text in FILES.items() if (folder / name).read_text(encoding="utf-8") != text]
