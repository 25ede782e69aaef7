#!/usr/bin/env python3
"""What the release workflow asks about a tag. It needs the standard library alone, so it runs before the set-up.

.ci/release.py check v1.2.3 owner/name    exit with 1 unless version, changelog and repository agree with the tag
.ci/release.py notes v1.2.3               print the section of the changelog
"""

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_DATE = r"\d{4}-\d{2}-\d{2}"


def main() -> int:
    parser = argparse.ArgumentParser(prog=".ci/release.py", description="What the release workflow asks about a tag.")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of the repository")
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="check that version, changelog and repository agree with the tag")
    check.add_argument("tag")
    check.add_argument("repository", help="owner and name of the repository that runs the workflow")
    notes = commands.add_parser("notes", help="print the section of the changelog")
    notes.add_argument("tag")
    given = parser.parse_args()
    if given.command == "notes":
        sys.stdout.write(notes_of(given.root, given.tag.removeprefix("v")))
        return 0
    found = list(problems(given.root, given.tag, given.repository))
    for problem in found:
        sys.stderr.write(f"{problem}\n")
    return 1 if found else 0


def problems(root: Path, tag: str, repository: str) -> Iterator[str]:
    """Reasons not to release ``tag`` from ``repository``, each with what to do."""
    stated = re.search(r'^VERSION = "(.*)"$', _read(root, "protocol/deputy_protocol/version.py"), re.MULTILINE)
    version = stated[1] if stated else ""
    if not re.fullmatch(r"v\d+\.\d+\.\d+", tag):
        yield f"{tag} is not a version. Use a tag such as v1.2.3: the marketplaces accept no other form."
    elif tag != f"v{version}":
        yield f"The tag is {tag}, but the version is {version}. Change one of them."
    heading = tag.removeprefix("v")
    if not notes_of(root, heading):
        yield f"CHANGELOG.md has no section `## {heading} - YYYY-MM-DD`. Give the unreleased section this title."
    source = tomllib.loads(_read(root, "pyproject.toml"))["project"]["urls"]["Source"]
    if not source.endswith(f"/{repository}"):
        yield f"pyproject.toml names {source}, but this is {repository}. Correct the addresses in pyproject.toml."


def notes_of(root: Path, version: str) -> str:
    """The text below the heading of ``version``; empty without it or without a date."""
    pattern = rf"^## {re.escape(version)} - {_DATE}\n(.*?)(?=^## |\Z)"
    found = re.search(pattern, _read(root, "CHANGELOG.md"), re.MULTILINE | re.DOTALL)
    return f"{found[1].strip()}\n" if found and found[1].strip() else ""


def _read(root: Path, name: str) -> str:
    return (root / name).read_text("utf-8")


if __name__ == "__main__":
    sys.exit(main())
