"""The languages of a project and the top of its folder tree."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from deputy_agents.tool.ripgrep import listed_paths

_LANGUAGES: Final = {
    suffix: name
    for name, suffixes in (
        ("C", "c h"),
        ("C#", "cs"),
        ("C++", "cc cpp cxx hh hpp"),
        ("CSS", "css less scss"),
        ("Clojure", "clj cljc cljs"),
        ("Dart", "dart"),
        ("Elixir", "ex exs"),
        ("Erlang", "erl hrl"),
        ("F#", "fs fsx"),
        ("Fortran", "f f90 f95"),
        ("Go", "go"),
        ("HTML", "htm html"),
        ("Haskell", "hs"),
        ("Java", "java"),
        ("JavaScript", "cjs js jsx mjs"),
        ("Julia", "jl"),
        ("Kotlin", "kt kts"),
        ("Lua", "lua"),
        ("Markdown", "md"),
        ("Nix", "nix"),
        ("OCaml", "ml mli"),
        ("Objective-C", "m mm"),
        ("PHP", "php"),
        ("Perl", "pl pm"),
        ("Python", "py pyi"),
        ("R", "r"),
        ("Ruby", "rb"),
        ("Rust", "rs"),
        ("SQL", "sql"),
        ("Scala", "sc scala"),
        ("Shell", "bash fish sh zsh"),
        ("Svelte", "svelte"),
        ("Swift", "swift"),
        ("Terraform", "tf"),
        ("TypeScript", "cts mts ts tsx"),
        ("Vue", "vue"),
        ("Zig", "zig"),
    )
    for suffix in suffixes.split()
}
_MAX_LANGUAGES: Final = 5
_MAX_ENTRIES: Final = 30
"""Entries of the top folder."""
_MAX_INNER: Final = 6
"""Entries of each folder in it."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the top level. ``entries`` are its first entries, folders first; ``more`` is the number of others."""

    name: str
    files: int
    entries: tuple[str, ...]
    more: int


@dataclass(frozen=True, slots=True)
class Layout:
    """``languages`` are pairs of name and number of files, most first. ``folders`` and ``names`` are the entries of
    the top folder, and ``more`` is the number of its other entries."""

    files: int
    languages: tuple[tuple[str, int], ...]
    folders: tuple[Folder, ...]
    names: tuple[str, ...]
    more: int


def layout_of(listing: bytes) -> Layout:
    """The layout of a folder. ``listing`` has the relative paths of its files, each followed by a null byte. Blocks."""
    languages: Counter[str] = Counter()
    tops: Counter[str] = Counter()
    inner: dict[str, dict[str, None]] = {}
    names: list[str] = []
    count = 0
    for path in listed_paths(listing):
        count += 1
        _, dot, suffix = path.rpartition(".")
        if dot and (language := _LANGUAGES.get(suffix.lower())) is not None:
            languages[language] += 1
        top, slash, rest = path.partition("/")
        if not slash:
            names.append(path)
            continue
        tops[top] += 1
        entry, deeper, _ = rest.partition("/")
        inner.setdefault(top, {})[f"{entry}/" if deeper else entry] = None
    largest = sorted(name for name, _ in tops.most_common(_MAX_ENTRIES))
    shown = sorted(names)[: max(0, _MAX_ENTRIES - len(largest))]
    return Layout(
        count,
        tuple(languages.most_common(_MAX_LANGUAGES)),
        tuple(_folder(name, tops[name], inner[name]) for name in largest),
        tuple(shown),
        len(tops) - len(largest) + len(names) - len(shown),
    )


def _folder(name: str, files: int, entries: Iterable[str]) -> Folder:
    ordered = sorted(entries, key=lambda entry: (not entry.endswith("/"), entry))
    return Folder(name, files, tuple(ordered[:_MAX_INNER]), max(0, len(ordered) - _MAX_INNER))
