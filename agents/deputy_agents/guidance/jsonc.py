"""JSON with comments and trailing commas, as users write settings files: read, and changed in place."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deputy_agents.validation_errors import InvalidJson, parse_json

_STRING = r"\"(?:[^\"\\]|\\.)*\\?(?:\"|\Z)"
_STRING_OR_COMMA = re.compile(rf"{_STRING}|,", re.DOTALL)
_STRING_OR_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_BLACK = re.compile(r"[^\r\n]")
_SPACE = re.compile(r"\s*")
_LINE_END = re.compile(r"\r?\n")
_MAX_KEYS = 10_000


def parse_jsonc(text: str) -> object:
    """Parse ``text``. Lines and columns of errors are those of ``text``.

    Raises:
        InvalidJson: it is not JSON, comments and trailing commas aside.
    """
    return parse_json(without_comments(text))


def without_comments(text: str) -> str:
    """``text`` with spaces instead of comments and trailing commas: every other character keeps its place."""
    text = _with_blank_comments(text)
    parts: list[str] = []
    at = 0
    for match in _STRING_OR_COMMA.finditer(text):
        parts.append(text[at : match.start()])
        following = _SPACE.match(text, match.end())
        trailing = match[0] == "," and following and text[following.end() : following.end() + 1] in {"}", "]"}
        parts.append(" " if trailing else match[0])
        at = match.end()
    return "".join([*parts, text[at:]])


def _with_blank_comments(text: str) -> str:
    return _STRING_OR_COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else _BLACK.sub(" ", match[0]), text)


def with_value(text: str, keys: Sequence[str], value: object) -> str:
    """``text`` with ``value`` at the path ``keys``. All else, comments included, stays as it is. Lines end as before.

    Raises:
        InvalidJson: ``text`` is not valid, or has something other than an object on the way to the value.
    """
    after = _with_value(text if text.strip() else "{}\n", keys, value)
    return _LINE_END.sub("\r\n", after) if "\r\n" in text else after


def _with_value(text: str, keys: Sequence[str], value: object) -> str:
    parse_jsonc(text)
    plain = without_comments(text)
    at = _skip(plain, 0)
    for depth, key in enumerate(keys):
        members = _object_members(plain, at, keys[:depth])
        found = next((one for one in reversed(members) if one.key == key), None)
        if found is None:
            return _inserted(text, plain, at, members, key, _nested(keys[depth + 1 :], value))
        at = found.value
    indent = _indent_at(text, at)
    return text[:at] + _dumped(value, indent) + text[_value_end(plain, at) :]


# -- members of an object ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Member:
    """Where the parts of a member start, and where its value ends."""

    key: str
    start: int
    value: int
    end: int


def _members(plain: str, at: int) -> Iterator[_Member]:
    """The members of the object that starts at ``at``, in valid JSON."""
    at = _skip(plain, at + 1)
    for _ in range(_MAX_KEYS):
        if plain[at] == "}":
            return
        key, end = json.JSONDecoder().raw_decode(plain, at)
        value = _skip(plain, _skip(plain, end) + 1)
        end = _value_end(plain, value)
        yield _Member(str(key), at, value, end)
        at = _skip(plain, end)
        at = _skip(plain, at + 1) if plain[at] == "," else at
    raise InvalidJson(f"an object has more than {_MAX_KEYS} members", 1)


def _object_members(plain: str, at: int, path: Sequence[str]) -> list[_Member]:
    """The members of the value at ``path``, which starts at ``at``.

    Raises:
        InvalidJson: it is not an object.
    """
    if plain[at] != "{":
        raise InvalidJson(f"{'.'.join(path) or 'the file'} is not an object", plain.count("\n", 0, at) + 1)
    return list(_members(plain, at))


def _value_end(plain: str, at: int) -> int:
    return json.JSONDecoder().raw_decode(plain, at)[1]


def _skip(plain: str, at: int) -> int:
    """The first place from ``at`` on that is no space."""
    match = _SPACE.match(plain, at)
    return match.end() if match else at


def _nested(keys: Sequence[str], value: object) -> object:
    for key in reversed(keys):
        value = {key: value}
    return value


def _inserted(text: str, plain: str, at: int, members: Sequence[_Member], key: str, value: object) -> str:
    """``text`` with a new last member of the object that starts at ``at``."""
    if not members:
        indent = _indent_at(text, at)
        inner, close = indent + "  ", _value_end(plain, at) - 1
        kept = text[at + 1 : close].rstrip()
        member = f"\n{inner}{json.dumps(key, ensure_ascii=False)}: {_dumped(value, inner)}\n{indent}"
        return text[: at + 1] + kept + member + text[close:]
    last = members[-1]
    indent = _indent_at(text, last.start)
    member = f"{json.dumps(key, ensure_ascii=False)}: {_dumped(value, indent)}"
    # A trailing comma, and a comment at the end of the line, belong to the member before.
    comma = _skip(_with_blank_comments(text), last.end)
    following = text[comma] == ","
    end = comma + 1 if following else last.end
    before = text[: last.end] + ("" if following else ",") + text[last.end : end]
    line = text.find("\n", end)
    if "\n" not in text[at : last.start]:
        return f"{before} {member}{text[end:]}"
    if line < 0 or plain[end:line].strip():
        line = end
    return f"{before}{text[end:line]}\n{indent}{member}{',' if following else ''}{text[line:]}"


def _dumped(value: object, indent: str) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", f"\n{indent}")


def _indent_at(text: str, at: int) -> str:
    """The indentation of the line of ``at``."""
    start = text.rfind("\n", 0, at) + 1
    return text[start : _SPACE.match(text[:at], start).end()]  # pyright: ignore[reportOptionalMemberAccess]


def line_of(text: str, keys: Sequence[str | int]) -> int:
    """The line, counted from 1, of the value at the path ``keys`` in valid ``text``; that of the last part of the path
    that there is."""
    plain = without_comments(text)
    at = _skip(plain, 0)
    line = plain.count("\n", 0, at) + 1
    for key in keys:
        if isinstance(key, int):
            items = list(_items(plain, at)) if plain[at : at + 1] == "[" else []
            if key >= len(items):
                break
            at = items[key][0]
        else:
            members = _members(plain, at) if plain[at : at + 1] == "{" else ()
            found = next((one for one in members if one.key == key), None)
            if found is None:
                break
            at, line = found.value, plain.count("\n", 0, found.start) + 1
            continue
        line = plain.count("\n", 0, at) + 1
    return line


def _items(plain: str, at: int) -> Iterator[tuple[int, int]]:
    """Where each item of the array that starts at ``at`` starts and ends, in valid JSON."""
    at = _skip(plain, at + 1)
    for _ in range(_MAX_KEYS):
        if plain[at] == "]":
            return
        end = _value_end(plain, at)
        yield at, end
        at = _skip(plain, end)
        at = _skip(plain, at + 1) if plain[at] == "," else at
    raise InvalidJson(f"an array has more than {_MAX_KEYS} items", 1)


def with_item(text: str, keys: Sequence[str], item: object) -> str:
    """``text`` with ``item`` at the end of the array at the path ``keys``, which is made if it is absent. All else,
    comments included, stays as it is. Lines end as before.

    Raises:
        InvalidJson: ``text`` is not valid, or has something other than an array there.
    """
    found = _array_at(text, keys)
    if found is None:
        return with_value(text, keys, [item])
    plain, at = found
    items = list(_items(plain, at))
    if items:
        after = _after_item(text, plain, at, items[-1], item)
    else:
        indent = _indent_at(text, at)
        kept = text[at + 1 : _value_end(plain, at) - 1].rstrip()
        added = f"\n{indent}  {_dumped(item, f'{indent}  ')}\n{indent}"
        after = text[: at + 1] + kept + added + text[_value_end(plain, at) - 1 :]
    return _LINE_END.sub("\r\n", after) if "\r\n" in text else after


def without_item(text: str, keys: Sequence[str], index: int) -> str:
    """``text`` without one item of the array at the path ``keys``. All else, comments included, stays as it is.

    Raises:
        InvalidJson: ``text`` is not valid, or has no such item there.
    """
    found = _array_at(text, keys)
    items = list(_items(*found)) if found else []
    if index >= len(items):
        raise InvalidJson(f"{'.'.join(keys)} has no item {index + 1}", 1)
    blank = _with_blank_comments(text)
    start, end = items[index]
    comma = _skip(blank, end)
    if blank[comma] == ",":
        end = comma + 1
    elif index:  # the comma after the item before goes
        comma = _skip(blank, items[index - 1][1])
        text = f"{text[:comma]}{text[comma + 1 :]}"
        start, end = start - 1, end - 1
    line, after = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    alone = after >= 0 and not text[line:start].strip() and not text[end:after].strip()
    return text[:line] + text[after + 1 :] if alone else text[:start] + text[end:].removeprefix(" ")


def _array_at(text: str, keys: Sequence[str]) -> tuple[str, int] | None:
    """``text`` without comments, and where the array at the path ``keys`` starts; ``None`` if there is nothing."""
    if not text.strip():
        return None
    parse_jsonc(text)
    plain = without_comments(text)
    at = _skip(plain, 0)
    for depth, key in enumerate(keys):
        members = _object_members(plain, at, keys[:depth])
        found = next((one for one in reversed(members) if one.key == key), None)
        if found is None:
            return None
        at = found.value
    if plain[at] != "[":
        raise InvalidJson(f"{'.'.join(keys)} is not an array", plain.count("\n", 0, at) + 1)
    return plain, at


def _after_item(text: str, plain: str, at: int, last: tuple[int, int], item: object) -> str:
    """``text`` with ``item`` after the ``last`` item of the array that starts at ``at``."""
    start, end = last
    # A trailing comma, and a comment at the end of the line, belong to the item before.
    comma = _skip(_with_blank_comments(text), end)
    following = text[comma] == ","
    cut = comma + 1 if following else end
    before = text[:end] + ("" if following else ",") + text[end:cut]
    indent = _indent_at(text, start)
    if "\n" not in text[at:start]:
        return f"{before} {_dumped(item, indent)}{text[cut:]}"
    line = text.find("\n", cut)
    if line < 0 or plain[cut:line].strip():
        line = cut
    return f"{before}{text[cut:line]}\n{indent}{_dumped(item, indent)}{',' if following else ''}{text[line:]}"
