"""Converts a fetched page to text for a model. Blocks; call it in a worker thread."""

from deputy_agents.domain.errors import ToolError
from deputy_agents.text import clean, visible

_REMOVED_ELEMENTS = ("script", "style", "noscript", "template", "svg", "iframe", "head")
_TEXT_TYPES = frozenset({"application/json", "application/xml", "application/javascript", "application/x-yaml"})
_HTML = frozenset({"text/html", "application/xhtml+xml"})


def text_of(data: bytes, content_type: str) -> str:
    """The text of a page: HTML as Markdown, other text unchanged.

    Raises:
        ToolError: the page is not text.
    """
    kind, charset = _parsed(content_type)
    if kind in _HTML or (not kind and data.lstrip()[:1] == b"<"):
        return clean(_markdown(data, charset)).strip()
    if kind and not (kind.startswith("text/") or kind in _TEXT_TYPES or kind.endswith(("+json", "+xml"))):
        raise ToolError(f"The page is {visible(kind)} ({len(data):,} bytes), not text.")
    if b"\0" in data:
        raise ToolError(f"The page is not text ({len(data):,} bytes).")
    return clean(_decoded(data, charset))


def _parsed(content_type: str) -> tuple[str, str | None]:
    from email.message import Message

    header = Message()
    header["content-type"] = content_type
    return (header.get_content_type() if content_type else ""), header.get_content_charset()


def _decoded(data: bytes, charset: str | None) -> str:
    try:
        return data.decode(charset or "utf-8", "replace")
    except LookupError:
        return data.decode(errors="replace")


def _markdown(data: bytes, charset: str | None) -> str:
    from bs4 import BeautifulSoup  # imported late because few agents use the web
    from markdownify import MarkdownConverter  # pyright: ignore[reportMissingTypeStubs]

    soup = BeautifulSoup(data, "html.parser", from_encoding=charset)
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for element in soup.find_all(_REMOVED_ELEMENTS):
        element.decompose()
    try:
        body = str(MarkdownConverter(heading_style="ATX").convert_soup(soup))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    except RecursionError:
        body = soup.get_text("\n", strip=True)  # nested too deeply
    lines = "\n".join(line.rstrip() for line in body.splitlines())
    while "\n\n\n" in lines:
        lines = lines.replace("\n\n\n", "\n\n")
    return f"# {title}\n\n{lines.strip()}" if title and f"# {title}" not in lines else lines
