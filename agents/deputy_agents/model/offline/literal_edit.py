"""The text of a file after an edit. Nothing is proposed that would break the file."""

from collections.abc import Iterator

from deputy_agents.model.offline.assignment import assigned_literals
from deputy_agents.model.offline.edit_request import EditKind, EditRequest
from deputy_agents.model.offline.syntax import is_prose, is_python, syntax_problem
from deputy_agents.model.offline.words import escaped

_PYTHON_WORDS = {"true": "True", "false": "False", "null": "None"}


class NotChanged(Exception):
    """A file stays as it is; the message is the reason. ``idle``: there is nothing to do in it."""

    def __init__(self, reason: str, *, idle: bool = False) -> None:
        super().__init__(reason)
        self.idle = idle


def edited(request: EditRequest, path: str, text: str) -> str:
    """``text``, the content of the file ``path``, after the edit.

    Raises:
        NotChanged: the edit does not apply, or the result might be broken.
    """
    change = _with_value if request.kind is EditKind.SET else _with_new_text
    after = change(request, path, text)
    if after == text:
        raise NotChanged("it is as requested", idle=True)
    if problem := syntax_problem(path, text, after):
        raise NotChanged(problem)
    return after


def search_pattern(request: EditRequest) -> str:
    """A regular expression, for any engine, for the lines to look at."""
    if request.kind is EditKind.REPLACE:
        return escaped(request.old)
    if request.kind is EditKind.RENAME:
        return rf"\b{escaped(request.old)}\b"
    last = request.old.rpartition(".")[2]
    return rf"\b{escaped(last)}\b[\"']?\s*(:[^=]*)?[:=]"


def _with_value(request: EditRequest, path: str, text: str) -> str:
    spans = assigned_literals(path, text, request.old)
    if not spans:
        raise NotChanged(f"no line assigns a number, a string, true, false or null to `{request.old}`", idle=True)
    for start, end in reversed(spans):
        text = text[:start] + _spelled(request.new, path, text[start:end]) + text[end:]
    return text


def _spelled(value: str, path: str, current: str) -> str:
    """``value``, a literal as in JSON, as the language of the file writes it."""
    if is_python(path) or current in _PYTHON_WORDS.values():
        return _PYTHON_WORDS.get(value, value)
    return "nil" if value == "null" and current == "nil" else value


def _with_new_text(request: EditRequest, path: str, text: str) -> str:
    if request.kind is EditKind.REPLACE:
        places = list(_occurrences(text, request.old))
    else:
        places = list(_whole_words(text, request.old))
        if places and not is_prose(path) and next(_whole_words(text, request.new), None) is not None:
            raise NotChanged(f"it already contains `{request.new}`")
    if not places:
        raise NotChanged("there is no exact match in its text", idle=True)
    parts: list[str] = []
    at = 0
    for place in places:
        parts += [text[at:place], request.new]
        at = place + len(request.old)
    return "".join([*parts, text[at:]])


def _occurrences(text: str, old: str) -> Iterator[int]:
    at = text.find(old) if old else -1
    while at >= 0:
        yield at
        at = text.find(old, at + len(old))


def _whole_words(text: str, name: str) -> Iterator[int]:
    """Where ``name`` stands alone. A name with a hyphen is not part of a longer one with more hyphens."""
    for at in _occurrences(text, name):
        around = text[at - 1 : at] + text[at + len(name) : at + len(name) + 1]
        if not any(char.isalnum() or char == "_" or (char == "-" and "-" in name) for char in around):
            yield at
