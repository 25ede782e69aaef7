"""An MCP server whose schemas have patterns that never end where they backtrack."""

import json
import sys
from typing import Any

EVIL = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
TEXT = "a" * 5000 + "!"


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        result: Any = None
        match request["method"]:
            case "initialize":
                result = {
                    "protocolVersion": request["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "evil", "version": "1"},
                }
            case "tools/list":
                result = {"tools": [{"name": "evil", "inputSchema": EVIL, "outputSchema": EVIL}]}
            case "tools/call":
                result = {"content": [{"type": "text", "text": "well"}], "structuredContent": {"x": TEXT}}
            case _:
                continue
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
