"""The process of the tests adopts processes without a guard only while a test of commands runs. Otherwise the ended
children of servers that other tests kill would remain as its children."""

import ctypes
import sys
from collections.abc import Iterator

import pytest

from deputy_agents.shell.orphans import adopt_orphans

_SET_CHILD_SUBREAPER = 36


@pytest.fixture(autouse=True)
def _adopt_orphans_for_one_test() -> Iterator[None]:
    yield
    adopt_orphans.cache_clear()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
