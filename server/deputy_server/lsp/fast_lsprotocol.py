"""Import lsprotocol's 550 classes in half the time. Most of the time goes into compiling comparisons and
representations, which a server that only passes messages on never uses."""

from functools import partial

import attrs


def load() -> None:
    """Import lsprotocol, in a process that Deputy does not share: all of its users get the reduced classes. A class
    that defines its own comparison, such as a position, keeps it."""
    define = attrs.define
    attrs.define = partial(define, eq=False, repr=False)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        import lsprotocol.types  # noqa: F401  # pyright: ignore[reportUnusedImport]
    finally:
        attrs.define = define
