"""A project of a few lines for agents to change, so that the demo changes nothing of the user's."""

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
    """Writes the project into ``folder``, which is made."""
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")


def changed(folder: Path) -> list[str]:
    """Names of the files that are no longer as they were written."""
    return [name for name, text in FILES.items() if (folder / name).read_text(encoding="utf-8") != text]
