"""How much of the input of a long session comes from the provider's cache."""

import tempfile
from pathlib import Path

from tests.support.cached_share import CHILDREN, TURNS, cached_share, long_session


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "workspace"
        workspace.mkdir()
        requests = await long_session(workspace)
    share = await cached_share(requests)
    print(f"\nInput bytes that are a cached prefix ({TURNS} turns, {CHILDREN} sub-agents)")
    print(f"  {share:.1%} of {len(requests)} requests (aim: at least 95%)")
