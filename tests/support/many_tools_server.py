"""An MCP server with 300 tools, as those of large services have them."""

from collections.abc import Callable

from mcp.server.mcpserver import MCPServer

VERBS = ("create", "list", "update", "delete", "archive", "export", "assign", "watch", "merge", "close")
NOUNS = tuple(f"{kind}_{part}" for kind in ("issue", "invoice", "ticket") for part in "abcdefghij")

server = MCPServer("many")


def _tool(name: str) -> Callable[[str, int, str], str]:
    def run(project: str, number: int, comment: str = "") -> str:
        return f"{name} of {project} {number}{comment}"

    return run


for verb in VERBS:
    for noun in NOUNS:
        words = noun.replace("_", " ")
        about = (
            f"{verb.title()}s the {words} of a project. " + "It returns all of its fields, with links to others. " * 3
        )
        server.add_tool(_tool(f"{verb}_{noun}"), name=f"{verb}_{noun}", description=about)

if __name__ == "__main__":
    server.run("stdio")
