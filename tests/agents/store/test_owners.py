"""Locks show which owners are running; checking them does not disturb anyone."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deputy_agents.store.owners import Owners


def test_concurrent_checks_agree_that_an_owner_has_ended(tmp_path: Path) -> None:
    (tmp_path / "gone.lock").touch()
    observers = [Owners(tmp_path) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(100):
            assert not any(threads.map(lambda observer: observer.alive("gone"), observers))
    assert all(observer.alive(other.name) for observer in observers for other in observers)
    for observer in observers:
        observer.close()
