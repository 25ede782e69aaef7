"""An MCP server as a script of someone who never read the protocol: names and schemas of all sorts, written by hand."""

import json
import sys
from typing import Any

FINE: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS: list[object] = [
    {"name": "echo", "inputSchema": FINE},
    {"name": "dot.ted", "inputSchema": FINE},
    {"name": "a/b", "inputSchema": FINE},
    {"name": "we ird", "inputSchema": {}},
    {"name": "echo", "description": "Another one.", "inputSchema": FINE},
    {"name": "x" * 100, "inputSchema": FINE},
    {"name": "", "inputSchema": FINE},
    {"name": "list", "inputSchema": {"type": "array"}},
    {"name": "words", "inputSchema": "an object, please"},
    {"name": 5, "inputSchema": FINE},
    "tool",
]


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        params, result = asked.get("params", {}), None
        match asked["method"]:
            case "initialize":
                about = {"name": "odd", "version": "1"}
                result = {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": about,
                }
            case "tools/list":
                result = {"tools": TOOLS}
            case "tools/call":
                said = f"{params['name']} said {params['arguments'].get('text', 'nothing')}"
                result = {"content": [{"type": "text", "text": said}] if "garble" not in said else "nope"}
            case _:
                continue
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
