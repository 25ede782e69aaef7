"""Signals to processes that this one has started."""

import os
import subprocess
from typing import cast

from anyio.abc import Process

from deputy_agents.concurrency.owned_process import kill


def test_a_kill_leaves_the_exit_code_to_the_one_who_waits() -> None:
    process = subprocess.Popen(["false"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    kill(cast("Process", process))
    assert process.returncode is None
    assert process.wait() == 1
