"""Loads lsprotocol's 550 classes in half the time: most of it goes into compiling comparisons and representations,
which a server that passes messages on never asks of them."""

from functools import partial

import attrs


def load() -> None:
    """Imports lsprotocol for a process of its own; whoever shares a process with others imports it as it is. Where a
    class has a comparison that it wrote itself, as positions have, that stays."""
    define = attrs.define
    attrs.define = partial(define, eq=False, repr=False)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        import lsprotocol.types  # noqa: F401  # pyright: ignore[reportUnusedImport]
    finally:
        attrs.define = define
