"""The Python interpreters of this machine."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_MANAGERS = (
    ("PYENV_ROOT", "~/.pyenv", "versions/*/bin"),
    ("ASDF_DATA_DIR", "~/.asdf", "installs/python/*/bin"),
    ("MISE_DATA_DIR", "~/.local/share/mise", "installs/python/*/bin"),
    ("UV_PYTHON_INSTALL_DIR", "~/.local/share/uv/python", "*/bin"),
)
"""Version managers: the variable and the default of their folder, and where interpreters are in it."""

MINORS = range(11, 15)
"""The minor versions that the package names."""


def others() -> dict[str, Path]:
    """The first working interpreter of each other supported version, by its version: as version managers install
    them, or from PATH."""
    found: dict[str, Path] = {}
    for minor in MINORS:
        if minor == sys.version_info.minor:
            continue
        version = f"3.{minor}"
        if working := next((path for path in _candidates(version) if _works(path, version)), None):
            found[version] = working
    return found


def _candidates(version: str) -> Iterator[Path]:
    name = f"python{version}"
    for variable, default, folders in _MANAGERS:
        yield from Path(os.environ.get(variable, default)).expanduser().glob(f"{folders}/{name}")
    for folder in os.get_exec_path():
        yield Path(folder, name)


def _works(path: Path, version: str) -> bool:
    """Version managers leave commands that do not start."""
    if not os.access(path, os.X_OK):
        return False
    ran = subprocess.run(
        [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, check=False, timeout=30
    )
    return ran.returncode == 0 and ran.stdout.decode().strip() == version
