"""A server that does what the name of a method says. Only the standard library, so that it starts quickly."""

import json
import signal
import sys
from typing import Any


def send(**message: Any) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    sys.stdout.buffer.flush()


def receive() -> dict[str, Any] | None:
    length = 0
    while (line := sys.stdin.buffer.readline()).strip():
        length = int(line.partition(b":")[2])
    return json.loads(sys.stdin.buffer.read(length)) if length else None


def main() -> None:
    stubborn = False
    received: list[Any] = []
    while (message := receive()) is not None or stubborn:
        if message is None:
            signal.pause()
            continue
        method, id = message.get("method"), message.get("id")
        received.append(message)
        match method:
            case "echo":
                send(id=id, result=message["params"])
            case "fail":
                send(id=id, error={"code": -32003, "message": "not now", "data": message["params"].get("data")})
            case "silence":
                send(method="seen", params={"id": id})
            case "received":
                send(id=id, result={"messages": received})
            case "ask":
                send(id="q", method=message["params"]["method"], params={"n": 1})
                send(id=id, result={})
            case "withdraw":
                send(method="$/cancelRequest", params={"id": "q"})
                send(id=id, result={})
            case "die":
                print("the reason is in the log", file=sys.stderr, flush=True)
                sys.exit(3)
            case "babble":
                sys.stdout.write("Traceback: this is not a message\r\n\r\n")
                sys.stdout.flush()
            case "be stubborn":
                stubborn = True
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                send(id=id, result={})
            case "shutdown" if not stubborn:
                send(id=id, result=None)
            case "exit" if not stubborn:
                return


main()
