"""The environment variables of commands: what they need to work, without secrets."""

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

MARK: Final = "DEPUTY_COMMAND"
"""The variable that identifies the processes of a command."""

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
"""Commands have no terminal, so nothing must page, prompt or open an editor."""


def environment(also: Iterable[str], cwd: str, mark: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a command in ``cwd``: from ``environ`` a fixed list of names and those in ``also``, which the
    user has added. Names can contain ``*``. ``mark`` identifies the processes of the command."""
    names = (*_PASSED, *also)
    passed = {name: environ[name] for name in environ if any(fnmatchcase(name, pattern) for pattern in names)}
    return _FIXED | passed | {"PWD": cwd, MARK: mark}
