"""Pausing the garbage collector while modules are imported."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """Pause the garbage collector, then exclude all objects that exist by then from later collections.

    Importing creates many objects and no garbage, so collections meanwhile only take time. Nested and concurrent uses
    are allowed: the collector stays off until the first of them ends.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()
