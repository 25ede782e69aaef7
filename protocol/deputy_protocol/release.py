"""The version and the addresses of the project in the files of the editors, generated from `version.py` and the URLs in
`pyproject.toml`."""

import json
import tomllib
from pathlib import Path
from typing import cast

from deputy_protocol.schema import GENERATED, Schema
from deputy_protocol.version import VERSION

_ROOT = Path(__file__).resolve().parents[2]
PACKAGE_LOCK = "editors/vscode/package-lock.json"


def identity() -> dict[str, object]:
    """The fields of the extension's manifest that state its version and where it comes from."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    urls = cast("dict[str, str]", project["urls"])
    return {
        "version": VERSION,
        "homepage": urls["Documentation"],
        "repository": {"type": "git", "url": f"{urls['Source']}.git"},
        "bugs": {"url": urls["Issues"]},
    }


def package_lock(_: Schema) -> str:
    """`editors/vscode/package-lock.json`, with the version of Deputy."""
    lock = json.loads((_ROOT / PACKAGE_LOCK).read_text("utf-8"))
    lock["version"] = lock["packages"][""]["version"] = VERSION
    return json.dumps(lock, indent=2, ensure_ascii=False) + "\n"


def lua_version(_: Schema) -> str:
    """`editors/nvim/lua/deputy/version.lua`."""
    return f"--- The version of the plugin and of its server.\n-- {GENERATED}\n\nreturn '{VERSION}'\n"
