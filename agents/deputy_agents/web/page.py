"""Converts a fetched page to text for a model.

Pages are hostile, so :func:`main` converts one in a process of its own, with little memory and time; ``tool/`` starts
it. It imports little, because it starts for every page.
"""

import codecs
import html
import re
import sys

from deputy_agents.concurrency.own_limits import limit_resources
from deputy_agents.domain.errors import ToolError
from deputy_agents.text import clean, cut, visible

MAX_TEXT = 8 * 2**20
"""Maximum characters of the text of a page."""
OK, FAILED = b"+", b"-"
"""What precedes a text and an error in the output of :func:`main`."""

_MAX_MEMORY = 2**30
_MAX_CPU = 10
"""Seconds."""
_REMOVED_ELEMENTS = ("script", "style", "noscript", "template", "svg", "iframe", "head")
_TEXT_TYPES = frozenset({"application/json", "application/xml", "application/javascript", "application/x-yaml"})
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_DECLARED = re.compile(rb"(?:charset|encoding)\s{0,9}=\s{0,9}[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_DECLARED_WITHIN = 4096
"""Bytes at the start of a page that are searched for the declaration of its encoding."""
_ENCODINGS = re.compile(
    r"utf-(?:8|16|16-[bl]e|32)|ascii|iso8859-\d+|cp\d+|mac-\w+|koi8-[rtu]|gb\w+|big5\w*|euc_\w+|iso2022_\w+|shift_jis\w*|tis-620"
)
"""Names of the encodings that web pages have. Others of Python compute or take long."""


def main() -> None:
    """Convert the page on standard input, whose first line is its content type, and write its text to standard output.
    The operating system ends this process if the page costs too much."""
    limit_resources(_MAX_MEMORY, _MAX_CPU)
    content_type = sys.stdin.buffer.readline().decode(errors="replace")
    try:
        result = OK + text_of(sys.stdin.buffer.read(), content_type.strip()).encode(errors="replace")
    except ToolError as error:
        result = FAILED + str(error).encode(errors="replace")
    sys.stdout.buffer.write(result)
    sys.stdout.buffer.flush()


def text_of(data: bytes, content_type: str) -> str:
    """The text of a page: HTML as Markdown, other text unchanged.

    Raises:
        ToolError: the page is not text.
    """
    kind = content_type.partition(";")[0].strip().lower()
    declared = _CHARSET.search(content_type)
    charset = declared[1] if declared else ""
    if kind in _HTML or (not kind and data.lstrip()[:1] == b"<"):
        return cut(clean(_markdown(_decoded(data, charset or _declared_charset(data)))).strip(), MAX_TEXT)
    if kind and not (kind.startswith("text/") or kind in _TEXT_TYPES or kind.endswith(("+json", "+xml"))):
        raise ToolError(f"The page is {visible(cut(kind, 100))} ({len(data):,} bytes), not text.")
    text = _decoded(data, charset)
    if "\0" in text:
        raise ToolError(f"The page is not text ({len(data):,} bytes).")
    return cut(clean(text), MAX_TEXT)


def _declared_charset(data: bytes) -> str:
    found = _DECLARED.search(data[:_DECLARED_WITHIN])
    return found[1].decode("ascii", "replace") if found else ""


def _decoded(data: bytes, charset: str) -> str:
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    try:
        name = codecs.lookup(charset or "utf-8").name
    except LookupError:
        name = "utf-8"
    if name in ("ascii", "iso8859-1"):
        name = "cp1252"  # as in browsers
    return data.decode(name if _ENCODINGS.fullmatch(name) else "utf-8", "replace")


def _markdown(page: str) -> str:
    import html_to_markdown as library  # imported late because other text does not need it

    page = page.replace("\0", "")
    options = library.ConversionOptions(
        bullets="*+-",
        extract_metadata=False,
        inline_data_media="alt_text_only",
        preprocessing=library.PreprocessingOptions(enabled=False),
        exclude_selectors=list(_REMOVED_ELEMENTS),
    )
    try:
        converted = library.convert(page, options)
        complete = not any(one.kind == library.WarningKind.DEPTH_LIMIT_EXCEEDED for one in converted.warnings)
        body = (converted.content or "") if complete else _text_only(page)
    except (library.ConversionError, ValueError):
        body = _text_only(page)
    lines = re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in body.splitlines()))
    title = _title(page)
    return f"# {title}\n\n{lines.strip()}" if title and f"# {title}" not in lines else lines


def _title(page: str) -> str:
    """The title of the page, found in one pass."""
    start = page.find("<title")
    opened = page.find(">", start) if start >= 0 else -1
    end = page.find("</title", opened) if opened >= 0 else -1
    return " ".join(_unescaped(page[opened + 1 : end][:1000]).split()) if end >= 0 else ""


def _text_only(page: str) -> str:
    """The text between the tags, for pages that are nested too deeply. Takes one pass."""
    texts: list[str] = []
    hidden = ""
    for part in page.split("<"):
        tag, end, text = part.partition(">")
        name = tag.partition(" ")[0].strip().lower()
        if hidden:
            hidden = "" if name == f"/{hidden}" else hidden
        elif name in ("script", "style"):
            hidden = name
        if end and not hidden and text.strip():
            texts.append(_unescaped(text.strip()))
    return "\n".join(texts)


def _unescaped(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # a number of thousands of digits
        return text


if __name__ == "__main__":
    main()
