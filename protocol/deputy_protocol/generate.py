"""Generates files from the table of methods: ``python -m deputy_protocol.generate``.

With ``--check``, it writes nothing and exits with 1 if a file is out of date.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deputy_protocol.lua import lua_types
from deputy_protocol.manifest import MANIFEST, manifest
from deputy_protocol.manual import protocol_manual, settings_manual
from deputy_protocol.release import PACKAGE_LOCK, lua_version, package_lock
from deputy_protocol.schema import Schema, document
from deputy_protocol.typescript import typescript

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Output:
    """A generated file: its path below the root of the repository, and a function that renders it."""

    path: str
    render: Callable[[Schema], str]


def schema_text(contract: Schema) -> str:
    """`protocol/schema/deputy.schema.json`."""
    return json.dumps(contract, indent=2, ensure_ascii=False) + "\n"


OUTPUTS = (
    Output("protocol/schema/deputy.schema.json", schema_text),
    Output("docs/protocol.md", protocol_manual),
    Output("docs/settings.md", settings_manual),
    Output("editors/nvim/lua/deputy/types.lua", lua_types),
    Output("editors/nvim/lua/deputy/version.lua", lua_version),
    Output("editors/vscode/src/protocol.ts", typescript),
    Output(MANIFEST, manifest),
    Output(PACKAGE_LOCK, package_lock),
)


def stale(root: Path) -> dict[Path, str]:
    """The files below ``root`` that are missing or out of date, with the text that they should have."""
    contract = document()
    texts = {root / output.path: output.render(contract) for output in OUTPUTS}
    return {path: text for path, text in texts.items() if not path.is_file() or path.read_text("utf-8") != text}


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Generate or check the files. Return the exit code: 1 if ``--check`` found a stale file, else 0."""
    parser = argparse.ArgumentParser(prog="python -m deputy_protocol.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is out of date")
    check: bool = parser.parse_args(arguments).check
    found = stale(root)
    for path, text in found.items():
        print(f"{'stale' if check else 'wrote'}: {path.relative_to(root).as_posix()}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8", newline="\n")
    return 1 if found and check else 0


if __name__ == "__main__":
    sys.exit(main())
