"""Pings a server from outside, from a process of its own: how long it answers nothing, and how much waits in it.

As a process: ``python -m tests.support.pings PORT PID`` with the token in ``DEPUTY_TOKEN``. It ends with its standard
input and then prints a :class:`Pings` as JSON.
"""

import asyncio
import json
import os
import select
import socket
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.support.findings import Findings
from tests.support.sockets import Server

INTERVAL = 0.02
"""Seconds between two pings."""
LIMIT = 0.05
"""Seconds on a processor beyond which an answer counts as late."""
_TIMEOUT = 60.0
_MOST_LATE = 10
_ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Pings:
    """Times are in seconds. ``busy`` counts only the time in which a thread of the server was on a processor: the
    machine may be busy with other programs. ``queued`` and ``running`` are the most sub-agents at once."""

    count: int = 0
    late: int = 0
    stall: float = 0.0
    busy: float = 0.0
    queued: int = 0
    running: int = 0
    late_after: list[float] = field(default_factory=list[float])
    """When the first late answers came, after the first ping."""

    def add_to(self, findings: Findings) -> None:
        findings.stall = max(findings.stall or 0.0, self.stall)
        findings.busy = max(findings.busy or 0.0, self.busy)


@asynccontextmanager
async def pinging(server: Server) -> AsyncGenerator[Pings]:
    """Pings ``server`` during the block; the result is complete after it."""
    pings = Pings()
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.pings", str(server.port), str(server.process.pid)),
        cwd=_ROOT,
        env=os.environ | {"DEPUTY_TOKEN": server.where.get("token", "")},
        stdin=pipe,
        stdout=pipe,
    )
    try:
        yield pings
    finally:
        async with asyncio.timeout(_TIMEOUT):
            output, _ = await process.communicate(b"end\n")
        for name, value in json.loads(output).items():
            setattr(pings, name, value)


# -- the process -----------------------------------------------------------------------------------------------------


class _Pinger:
    def __init__(self, port: int, pid: int) -> None:
        self.found = Pings()
        self._threads = Path(f"/proc/{pid}/task")
        self._socket = socket.create_connection(("127.0.0.1", port), _TIMEOUT)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._input = self._socket.makefile("rb")
        self._ids = 0
        self._began = time.perf_counter()

    def request(self, method: str, params: object) -> Any:
        self._ids += 1
        self._send({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})
        while True:
            length = 0
            while line := self._input.readline().strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            if not length:
                raise ConnectionError("the server has closed the connection")
            message = json.loads(self._input.read(length))
            if message.get("id") == self._ids and "method" not in message:
                return message["result"]

    def initialize(self, token: str) -> None:
        options = {"token": token}
        self.request(
            "initialize", {"processId": None, "rootUri": None, "capabilities": {}, "initializationOptions": options}
        )
        self._send({"jsonrpc": "2.0", "method": "initialized", "params": {}})

    def ping(self) -> None:
        worked, began = self._worked(), time.perf_counter()
        gauges = self.request("deputy/metrics", {})["gauges"]
        stall = time.perf_counter() - began
        busy = min(stall, self._worked() - worked) if worked else stall
        found = self.found
        found.count += 1
        if busy > LIMIT:
            found.late += 1
            found.late_after = [*found.late_after, round(began - self._began, 1)][:_MOST_LATE]
        found.stall, found.busy = max(found.stall, stall), max(found.busy, busy)
        found.queued = max(found.queued, gauges["queue.depth"])
        found.running = max(found.running, gauges["running"])

    def _send(self, message: object) -> None:
        body = json.dumps(message).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def _worked(self) -> float:
        """Seconds that all threads of the server have been on a processor; 0 where the system does not count them."""
        total = 0
        with suppress(OSError):
            for thread in self._threads.iterdir():
                with suppress(OSError):
                    total += int((thread / "schedstat").read_text().split()[0])
        return total / 1e9


def _main(port: str, pid: str) -> None:
    pinger = _Pinger(int(port), int(pid))
    with suppress(OSError):  # the server has ended
        pinger.initialize(os.environ["DEPUTY_TOKEN"])
        pinger.request("deputy/metrics", {})  # a server loads most of itself for the first request
        while not select.select([sys.stdin], [], [], INTERVAL)[0]:
            pinger.ping()
    print(json.dumps(asdict(pinger.found)), flush=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
