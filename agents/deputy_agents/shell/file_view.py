"""The files that a sandboxed command sees: the workspace to write, the rest to read, and places that it must not reach
hidden."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from deputy_agents.files.paths import state_folder
from deputy_agents.files.sensitive import SECRET_FOLDERS, SECRET_PATHS, fold, is_secret, protected_part
from deputy_agents.shell.mount_kinds import HIDDEN, HIDDEN_FILE, READ_ONLY, SCRATCH, WRITABLE

_SCRATCH: Final = ("/tmp", "/var/tmp")  # noqa: S108 - replaced by private ones
_RUNTIME: Final = "/run"
"""Sockets of system services and of the user's session."""
_SYSTEM: Final = ("/run/current-system", "/run/booted-system", "/run/opengl-driver", "/run/wrappers")
"""Where NixOS keeps programs."""
_SECRETS: Final = (
    (".local", "share", "keyrings"),
    (".local", "share", "kwalletd"),
    (".mozilla",),
    (".thunderbird",),
    (".config", "google-chrome"),
    (".config", "chromium"),
    (".config", "BraveSoftware"),
    (".config", "microsoft-edge"),
    (".config", "1Password"),
    (".config", "Bitwarden"),
    (".config", "rclone"),
    ("Library", "Keychains"),
    ("Library", "Cookies"),
)
"""Folders of the home folder with keys and cookies, in addition to those that the gate considers secret."""
_OF_PEOPLE: Final = ("/home", "/root", "/mnt", "/media", "/Users", "/Volumes")
"""Folders with the files of people."""
_OF_ROOT: Final = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssl/private")
_HOST_KEYS: Final = Path("/etc/ssh")
_PACKAGES: Final = Path(__file__).parents[2]
_SOCKETS: Final = Path("/proc/net/unix")


class Mount(NamedTuple):
    """What is at ``path``, an absolute path without links; see ``mount_kinds.py``."""

    kind: str
    path: str


def file_view(
    roots: Sequence[Path],
    environ: Mapping[str, str] = os.environ,
    *,
    readable: Sequence[Path] = (),
    hidden: Mapping[str, str] | None = None,
) -> list[Mount]:
    """The mounts for a command that may write ``roots``, folders before what is in them. Names only what exists.
    ``hidden`` are secrets in these and in the folders ``readable``, for a command that must not see private files: what
    other files people have is hidden from it too."""
    home = Path(environ.get("HOME") or Path.home())
    emptied = {**(_kinds(HIDDEN, [*_OF_PEOPLE, home]) if hidden is not None else {}), **_kinds(SCRATCH, _SCRATCH)}
    places = {
        **emptied,
        **{path: READ_ONLY for path in _tools(home, environ) if _closest(path, emptied) is not None},
        **_kinds(HIDDEN, [_RUNTIME, environ.get("XDG_RUNTIME_DIR", ""), state_folder(environ)]),
        **_kinds(READ_ONLY, _SYSTEM),
        **dict(_secrets(home)),
        **dict(_secrets_of_the_system()),
        **{path: READ_ONLY for root in roots for path in _protected(root)},
        **_kinds(READ_ONLY, readable),
        **_kinds(WRITABLE, roots),
        **(hidden or {}),
    }
    places |= {path: HIDDEN_FILE for path in _sockets() if _kind_above(path, places) != WRITABLE}
    shown = [path for path, kind in places.items() if kind in (WRITABLE, READ_ONLY) or not _is_empty(path, places)]
    return [Mount(places[path], path) for path in sorted(shown, key=lambda path: (len(Path(path).parts), path))]


def _tools(home: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """What commands need although it is in a folder that is emptied: settings and tools in the home folder, which start
    with a dot, its programs on the PATH with the folder around them, and what runs this module."""
    home = home.resolve()
    yield from (os.path.realpath(home / name) for name in _names(home) if name.startswith("."))
    for folder in map(Path.resolve, map(Path, environ.get("PATH", "").split(os.pathsep))):
        if home in folder.parents:
            yield str(folder if folder.parent == home else folder.parent)
    yield from (os.path.realpath(folder) for folder in (sys.prefix, sys.base_prefix, _PACKAGES))


def _kinds(kind: str, paths: Iterable[Path | str]) -> dict[str, str]:
    return {os.path.realpath(path): kind for path in paths if path and os.path.isdir(path)}  # noqa: PTH112


def _kind_above(path: str, places: Mapping[str, str]) -> str | None:
    """What the closest place above ``path`` is."""
    above = _closest(path, places)
    return None if above is None else places[above]


def _closest(path: str, places: Mapping[str, str]) -> str | None:
    """The closest place above ``path``."""
    return next((str(one) for one in Path(path).parents if str(one) in places), None)


def _is_empty(path: str, places: Mapping[str, str]) -> bool:
    """Whether the folder of ``path`` is hidden already."""
    return _kind_above(path, places) in (HIDDEN, SCRATCH)


def _secrets(home: Path) -> Iterator[tuple[str, str]]:
    """Files and folders of the home folder that may hold secrets."""
    for name in _names(home):
        if fold(name) in SECRET_FOLDERS or is_secret(name):
            yield from _hidden(home / name)
    for name in _names(home / ".config"):
        if fold(name) in SECRET_FOLDERS or is_secret(name):
            yield from _hidden(home / ".config" / name)
    for parts in (*SECRET_PATHS, *_SECRETS):
        yield from _hidden(home.joinpath(*parts))


def _secrets_of_the_system() -> Iterator[tuple[str, str]]:
    """What only root can read, which a command of root could show."""
    for path in _OF_ROOT:
        yield from _hidden(Path(path))
    for name in _names(_HOST_KEYS):
        if name.startswith("ssh_host_") and not name.endswith(".pub"):
            yield from _hidden(_HOST_KEYS / name)


def _hidden(path: Path) -> Iterator[tuple[str, str]]:
    with suppress(OSError):
        real = path.resolve(strict=True)
        yield str(real), HIDDEN if real.is_dir() else HIDDEN_FILE


def _protected(root: Path) -> Iterator[str]:
    """What other programs run or obey in ``root`` itself. A folder that contains something protected deeper is not
    mounted, because files could then not be moved into it; there the gate alone decides."""
    for name in _names(root):
        path = root / name
        if path.is_symlink():
            continue
        if protected_part(name if path.is_file() else Path(name, "any")) is not None:
            yield str(path)
        elif name.startswith(".") and path.is_dir():
            for part in _names(path):
                if protected_part(Path(name, part)) or protected_part(Path(name, part, "any")):
                    yield str(path / part)


def _names(folder: Path) -> list[str]:
    with suppress(OSError):
        return sorted(path.name for path in folder.iterdir())
    return []


def _sockets() -> Iterator[str]:
    """Sockets of other programs that have a name in the file system. A read-only mount does not prevent connections."""
    with suppress(OSError):
        for line in _SOCKETS.read_text(errors="surrogateescape").splitlines()[1:]:
            fields = line.split(maxsplit=7)
            if len(fields) == 8 and fields[7].startswith("/") and os.path.exists(fields[7]):  # noqa: PTH110
                yield os.path.realpath(fields[7])
