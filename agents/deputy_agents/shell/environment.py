"""The environment of commands: what they need to work, and no secret."""

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

MARK: Final = "DEPUTY_COMMAND"
"""The variable by which the processes of a command are known."""

_PASSED: Final = (
    *(
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "LC_*",
        "TZ",
        "TMPDIR",
        "XDG_*_HOME",
        "XDG_*_DIRS",
    ),
    *("VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "UV_CACHE_DIR", "JAVA_HOME", "GOPATH", "GOROOT", "CARGO_HOME"),
    *("RUSTUP_HOME", "NVM_DIR", "NODE_PATH", "GEM_HOME", "DOTNET_ROOT", "ANDROID_HOME", "SDKROOT", "NIX_PATH"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR"),
)
_FIXED: Final = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "false",
}
"""Nobody sits at a terminal: nothing pages, asks or opens an editor."""


def environment(also: Iterable[str], cwd: str, mark: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What a command in ``cwd`` gets of ``environ``: a fixed list, and the names that the user has added; both may have
    ``*`` in them. ``mark`` names its processes."""
    names = (*_PASSED, *also)
    passed = {name: environ[name] for name in environ if any(fnmatchcase(name, pattern) for pattern in names)}
    return _FIXED | passed | {"PWD": cwd, MARK: mark}
