"""Who lives is told by locks, and looking disturbs nobody."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deputy_agents.store.owners import Owners


def test_those_who_look_at_once_agree_that_an_owner_is_gone(tmp_path: Path) -> None:
    (tmp_path / "gone.lock").touch()
    lookers = [Owners(tmp_path) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(100):
            assert not any(threads.map(lambda looker: looker.alive("gone"), lookers))
    assert all(looker.alive(other.name) for looker in lookers for other in lookers)
    for looker in lookers:
        looker.close()
