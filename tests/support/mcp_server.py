"""An MCP server with working and failing tools."""

import os
import sys
from pathlib import Path
from typing import Literal

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types import ElicitRequestURLParams
from pydantic import BaseModel, Field

from tests.support.images import png

server = MCPServer("tools")


@server.tool()
def echo(text: str) -> str:
    """Returns the text."""
    return text


@server.tool()
def write(path: str) -> str:
    """Writes a file to show that it ran."""
    Path(path).write_text("written\n", "utf-8")
    return "written"


@server.tool()
def secret() -> str:
    """Reveals its environment variables."""
    return f"the token is {os.environ['TOOLS_TOKEN']}, the key is {os.environ.get('ANTHROPIC_API_KEY')}"


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("nothing there")


@server.tool()
def protocol_error() -> str:
    """Returns a protocol error with the code for server-defined errors."""
    raise MCPError(-32000, "the table is locked")


@server.tool()
def paint() -> Image:
    """Returns an image."""
    return Image(data=png(2, 1), format="png")


@server.tool()
def pid() -> str:
    """Returns the process id."""
    return str(os.getpid())


@server.tool()
def crash() -> str:
    """Exits during the call."""
    os.write(2, b"out of luck\n")
    os._exit(3)


@server.tool()
async def hang() -> str:
    """Never returns."""
    await anyio.sleep_forever()
    return ""


@server.tool()
def flood() -> str:
    """Returns more than the maximum message size."""
    return "x" * (9 * 1024 * 1024)


@server.tool()
def much() -> str:
    """Returns a long text."""
    return "y" * (1024 * 1024)


class Address(BaseModel):
    """What :func:`order` asks for."""

    street: str = Field(min_length=2, description="Street and number")
    floor: int = Field(default=1, ge=0, le=99)
    express: bool = False
    size: Literal["small", "large"] = "small"


@server.tool()
async def order(context: Context) -> str:
    """Asks the user for an address."""
    answer = await context.elicit("Where to?", Address)
    return answer.model_dump_json()


@server.tool()
async def login(context: Context, url: str) -> str:
    """Sends the user to a page."""
    answer = await context.elicit_url("Log in there.", url, "e1")
    return answer.action


@server.tool()
def locked() -> str:
    """Fails until the user has opened a page."""
    raise UrlElicitationRequiredError(
        [ElicitRequestURLParams(message="Log in first.", url="https://example.com/in", elicitation_id="e2")]
    )


@server.tool()
async def grow(context: Context) -> str:
    """Adds a tool to the server."""
    server.add_tool(lambda: "grown", name="grown", description="New.")
    await context.session.send_tool_list_changed()
    return "grown"


@server.resource("notes://today")
def notes() -> str:
    """Today's notes."""
    return "none"


@server.prompt()
def review() -> str:
    """Asks for a review."""
    return "Review it."


@server.prompt()
def explain(topic: str, depth: str = "all") -> str:
    """Asks for an explanation."""
    return f"Explain {topic}, {depth}; see @a.py."


@server.prompt()
async def ponder() -> str:
    """Never returns."""
    await anyio.sleep_forever()
    return ""


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        server.run("streamable-http", port=int(os.environ["PORT"]))
    else:
        server.run("stdio")
