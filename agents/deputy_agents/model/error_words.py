"""What an error response of a model service says, whatever its shape: JSON of any kind, plain text, or a web page."""

import html
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

MAX_BODY = 64 * 1024
"""The most bytes of a body that are read for its words."""

_TEXTS = ("message", "msg", "detail", "details", "error_description", "error_message", "title", "reason", "error")
"""Fields with words, in lower case, the most specific first."""
_GROUPS = ("error", "errors", "detail", "details", "data", "message", "metadata", "raw")
"""Fields with an object or a list that has the words."""
_TYPES = ("type", "code", "status")
"""Fields with the type of an error, which is a word or a status."""
_SIGNS = frozenset({"error", "errors", "detail", "message", "msg", "error_description", "error_message"})
"""Fields of a body that is an error even if its status is 200."""
_MAX_DEPTH = 5
_MAX_ITEMS = 5
_MAX_TEXTS = 3
_MAX_WORDS = 4000
"""Characters of a text that are kept."""
_TITLE = re.compile(r"<(title|h1)\b[^<>]{0,200}>([^<]{1,1000})", re.IGNORECASE)
_UNSEEN = re.compile(r"<(script|style)\b[^>]*>.*?</\1>|<[^<>]*>", re.IGNORECASE | re.DOTALL)
_STATUSES = range(400, 600)


@dataclass(frozen=True, slots=True)
class ErrorWords:
    """``text`` is what the service says, ``types`` are its names for the error, and ``status`` is the HTTP status that
    the body states. ``is_error`` is set if the body is an error whatever its status, ``is_page`` for a web page."""

    text: str = ""
    types: tuple[str, ...] = ()
    status: int | None = None
    is_error: bool = False
    is_page: bool = False


def error_words(body: object) -> ErrorWords:
    """The words of ``body``: the text of a response, or what its JSON contains."""
    value = _parsed(body) if isinstance(body, str) else body
    if isinstance(value, str):
        return _of_text(value)
    found = list(_objects(value, 0))
    types = tuple(word for one in found for key in _TYPES if isinstance(word := one.get(key), str) and word)
    codes = (one.get(key) for one in found for key in _TYPES)
    status = next((code for code in codes if isinstance(code, int) and code in _STATUSES), None)
    is_error = bool(found) and (not _SIGNS.isdisjoint(found[0]) or "error" in types[:1]) and "content" not in found[0]
    text = ": ".join(_distinct(filter(None, map(_text_of, found))))
    return ErrorWords(text[:_MAX_WORDS], types, status, is_error)


def _of_text(text: str) -> ErrorWords:
    start = text[:MAX_BODY]
    if not re.match(r"\s*<(!doctype|html|head|body|\?xml|h1|title|center)", start, re.IGNORECASE):
        return ErrorWords(start.strip()[:_MAX_WORDS])
    named = _TITLE.search(start)
    words = named[2] if named else _UNSEEN.sub(" ", start[:_MAX_WORDS])
    return ErrorWords(" ".join(html.unescape(words).split()), is_page=True)


def _objects(value: object, depth: int) -> Iterator[dict[str, object]]:
    """The objects that may describe the error, the inner ones last. Texts that contain JSON count as it."""
    if isinstance(value, str):
        value = _parsed(value)
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, list):
        for item in cast("list[object]", value)[:_MAX_ITEMS]:
            yield from _objects(item, depth + 1)
    elif isinstance(value, dict):
        fields = {str(key).lower(): item for key, item in cast("dict[object, object]", value).items()}
        yield fields
        for key in _GROUPS:
            if key in fields:
                yield from _objects(fields[key], depth + 1)


def _text_of(fields: dict[str, object]) -> str:
    for key in _TEXTS:
        text = fields.get(key)
        if isinstance(text, str) and text.strip() and isinstance(_parsed(text), str):
            place = _place(fields.get("loc"))
            text = text.strip()[:_MAX_WORDS]
            return f"{place}: {text}" if place else text
    return ""


def _distinct(texts: Iterable[str]) -> list[str]:
    """The first of ``texts``, without those that others contain."""
    kept: list[str] = []
    for text in texts:
        if not any(text in other for other in kept):
            kept = [*(other for other in kept if other not in text), text]
    return kept[:_MAX_TEXTS]


def _place(value: object) -> str:
    """The field that is invalid, as some frameworks name it."""
    parts = cast("list[object]", value) if isinstance(value, list) else []
    return ".".join(str(part) for part in parts if isinstance(part, str | int) and part != "body")


def _parsed(text: str) -> object:
    """The object or list that ``text`` is as JSON, else ``text``."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return cast("object", value) if isinstance(value, dict | list) else text
