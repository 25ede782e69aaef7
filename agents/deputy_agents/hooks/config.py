"""Reads hooks from ``hooks`` in the settings file of a workspace or of the user: a list, or an object as in the
settings of Claude Code.

::

    {"hooks": [{"on": "after_tool", "tools": ["edit_file", "write_file"], "run": "ruff format \\"$DEPUTY_FILE\\""}]}
    {"hooks": {"PostToolUse": [{"matcher": "Edit|Write", "hooks": [{"type": "command", "command": "./format.sh"}]}]}}
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Final, Literal, TypeAlias, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deputy_agents import validation_errors
from deputy_agents.domain.hook import CLAUDE_EVENTS, MAX_TIMEOUT, Hook, When
from deputy_agents.domain.problem import Problem
from deputy_agents.patterns.ecma import Pattern, compile_pattern
from deputy_agents.patterns.linear import PatternError
from deputy_agents.text import cut, visible

MAX_HOOKS: Final = 50
_EVENTS: Final = {name: when for when, name in CLAUDE_EVENTS.items()}
_NAMES: Final = re.compile(r"[\w|, -]*")
"""A matcher without a character of an expression lists complete names."""

M = TypeVar("M", bound=BaseModel)
_Command = Annotated[str, Field(min_length=1, max_length=10_000)]
_Matcher = Annotated[str, Field(max_length=1000)]
_Timeout = Annotated[float, Field(strict=True, gt=0, le=MAX_TIMEOUT)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    on: When
    run: _Command
    tools: Annotated[tuple[str, ...], Field(max_length=100)] = ()
    matcher: _Matcher = ""
    timeout: _Timeout = 60.0
    strict: bool = True


class _ClaudeHook(BaseModel):
    """Fields without a meaning here are ignored, except ``if``: without it, the hook would run too often."""

    type: Literal["command"]
    command: _Command
    timeout: Annotated[float, Field(strict=True, gt=0)] = 60.0
    condition: Annotated[None, Field(alias="if")] = None


class _ClaudeGroup(BaseModel):
    matcher: _Matcher = ""
    hooks: tuple[object, ...]


Keys: TypeAlias = tuple[str | int, ...]
"""A place in the JSON value of a settings file."""


class _Rejected(Exception):
    """The part of the hooks at ``keys`` is invalid."""

    def __init__(self, keys: Keys, reason: str) -> None:
        super().__init__(reason)
        self.keys = keys


def compile_matcher(matcher: str) -> Pattern | None:
    """The pattern of a matcher, which lists complete names with ``|``, or is a regular expression. ``None``: it matches
    everything.

    Raises:
        PatternError: it is invalid.
    """
    if matcher in ("", "*"):
        return None
    if not _NAMES.fullmatch(matcher):
        return compile_pattern(matcher)
    names = "|".join(name for part in re.split(r"[|,]", matcher) if (name := part.strip()))
    return compile_pattern(f"^(?:{names})$")


def parse_hooks(
    settings: object, file: str, line_of: Callable[[Keys], int] = lambda _: 1
) -> tuple[tuple[Hook, ...], tuple[Problem, ...]]:
    """The hooks in ``settings``, the JSON value of ``file``, and problems. ``line_of`` returns the line of a place."""
    listed = cast("dict[str, object]", settings).get("hooks") if isinstance(settings, dict) else None
    if listed is None:
        return (), ()
    if isinstance(listed, dict):
        found = list(_claude_hooks(cast("dict[str, object]", listed), file))
    elif isinstance(listed, list):
        found = list(_listed_hooks(cast("list[object]", listed), file))
    else:
        found = [_Rejected(("hooks",), "hooks must be a list, or an object by event")]
    hooks = tuple(one for one in found if isinstance(one, Hook))
    problems = [Problem(file, line_of(one.keys), str(one)) for one in found if isinstance(one, _Rejected)]
    if len(hooks) > MAX_HOOKS:
        return (), (Problem(file, 1, f"hooks must be a list of at most {MAX_HOOKS}"),)
    return hooks, tuple(problems)


def _listed_hooks(listed: Sequence[object], source: str) -> Iterator[Hook | _Rejected]:
    for index, raw in enumerate(listed[: MAX_HOOKS + 1]):
        keys, place = ("hooks", index), f"hook {index + 1}"
        try:
            entry = _validated(_Entry, raw, keys, place)
            matcher = _compiled(entry.matcher, keys, place)
        except _Rejected as error:
            yield error
        else:
            yield Hook(entry.on, entry.run, entry.tools, entry.timeout, source, matcher, entry.strict)


def _claude_hooks(events: Mapping[str, object], source: str) -> Iterator[Hook | _Rejected]:
    for event, groups in events.items():
        keys: Keys = ("hooks", event)
        place = f"hooks.{cut(visible(event), 40)}"
        if (when := _EVENTS.get(event)) is None:
            yield _Rejected(keys, f"{place}: there is no such event.{_suggestion(event)}")
        elif not isinstance(groups, list):
            yield _Rejected(keys, f"{place}: must be a list")
        else:
            for index, group in enumerate(cast("list[object]", groups)):
                yield from _claude_group(when, group, (*keys, index), f"{place}[{index}]", source)


def _claude_group(when: When, raw: object, keys: Keys, place: str, source: str) -> Iterator[Hook | _Rejected]:
    try:
        group = _validated(_ClaudeGroup, raw, keys, place)
        matcher = _compiled(group.matcher, keys, place)
    except _Rejected as error:
        yield error
        return
    for index, item in enumerate(group.hooks):
        try:
            one = _validated(_ClaudeHook, item, (*keys, "hooks", index), f"{place}.hooks[{index}]")
        except _Rejected as error:
            yield error
        else:
            timeout = min(one.timeout, MAX_TIMEOUT)
            yield Hook(when, one.command, (), timeout, source, matcher, strict=False)


def _validated(model: type[M], raw: object, keys: Keys, place: str) -> M:
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise _Rejected(keys, f"{place}: {validation_errors.describe(error)}") from None


def _compiled(matcher: str, keys: Keys, place: str) -> Pattern | None:
    try:
        return compile_matcher(matcher)
    except PatternError as error:
        raise _Rejected(keys, f"{place}: matcher: {error}") from None


def _suggestion(event: str) -> str:
    close = get_close_matches(event.casefold(), [name.casefold() for name in _EVENTS], n=1, cutoff=0.6)
    name = next((name for name in _EVENTS if close and name.casefold() == close[0]), None)
    return f" Did you mean {name}?" if name else f" Use one of: {', '.join(_EVENTS)}."
