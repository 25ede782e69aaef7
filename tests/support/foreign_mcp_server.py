"""A handwritten MCP server whose tools have schemas that model services reject. Each returns its arguments."""

import json
import sys
from typing import Any

TOOLS: list[dict[str, Any]] = [
    {"name": "good", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}},
    {
        "name": "list",
        "inputSchema": {
            "type": "object",
            "properties": {
                "filter[name]": {"type": "string"},
                "@type": {"type": "any", "required": True},
                "nested": {"type": "object", "properties": {"page[size]": {"type": "int"}}},
            },
        },
    },
    {
        "name": "choose",
        "inputSchema": {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "oneOf": [
                {"properties": {"by$id": {"type": "string"}}, "required": ["by$id"]},
                {"properties": {"name": {"type": "string"}}, "required": ["name"]},
            ],
        },
    },
    {"name": "old", "inputSchema": {"type": "object", "properties": {"n": {"minimum": 1, "exclusiveMinimum": True}}}},
    {"name": "pair", "inputSchema": {"type": "object", "properties": {"p": {"items": [{}, {"type": "string"}]}}}},
]


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        params = request.get("params", {})
        match request["method"]:
            case "initialize":
                info = {"name": "foreign", "version": "1"}
                version = params["protocolVersion"]
                result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                result = {"tools": TOOLS}
            case "tools/call":
                result = {"content": [{"type": "text", "text": json.dumps(params["arguments"], sort_keys=True)}]}
            case _:
                continue
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
