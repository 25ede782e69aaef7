"""The text of web pages, converted in processes of their own."""

from typing import Final

from deputy_agents.domain.errors import ToolError
from deputy_agents.tool.conversion import convert
from deputy_agents.web.page import MAX_TEXT, OK

TIMEOUT: Final = 10.0
"""Seconds for one page."""

_MAX_OUTPUT: Final = 4 * MAX_TEXT + 1


async def page_text(data: bytes, content_type: str) -> str:
    """The text of a page: HTML as Markdown, other text unchanged.

    Raises:
        ToolError: the page is not text, or too complex.
    """
    head = content_type.encode(errors="replace").replace(b"\n", b" ") + b"\n"
    try:
        output = await convert("deputy_agents.web.page", head + data, TIMEOUT, _MAX_OUTPUT)
    except TimeoutError:
        raise ToolError(f"The page cannot be converted to text within {TIMEOUT:g} s.") from None
    if not output:
        raise ToolError("The page cannot be converted to text: it is too complex.")
    text = output[1:].decode(errors="replace")
    if not output.startswith(OK):
        raise ToolError(text)
    return text
