"""A handwritten MCP server that violates the protocol: invalid names, schemas and results."""

import json
import sys
from typing import Any

VALID: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS: list[object] = [
    {"name": "echo", "inputSchema": VALID},
    {"name": "dot.ted", "inputSchema": VALID},
    {"name": "a/b", "inputSchema": VALID},
    {"name": "we ird", "inputSchema": {}},
    {"name": "echo", "description": "Another one.", "inputSchema": VALID},
    {"name": "x" * 100, "inputSchema": VALID},
    {"name": "", "inputSchema": VALID},
    {"name": "list", "inputSchema": {"type": "array"}},
    {"name": "words", "inputSchema": "an object, please"},
    {"name": 5, "inputSchema": VALID},
    "tool",
]


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        params, result = request.get("params", {}), None
        match request["method"]:
            case "initialize":
                info = {"name": "odd", "version": "1"}
                result = {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": info,
                }
            case "tools/list":
                result = {"tools": TOOLS}
            case "tools/call":
                text = f"{params['name']} said {params['arguments'].get('text', 'nothing')}"
                result = {"content": [{"type": "text", "text": text}] if "garble" not in text else "nope"}
            case _:
                continue
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
