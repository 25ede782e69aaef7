"""Reads hooks from the list ``hooks`` in the settings file of a workspace or of the user.

::

    {"hooks": [{"on": "after_tool", "tools": ["edit_file", "write_file"], "run": "ruff format \\"$DEPUTY_FILE\\""}]}
"""

from collections.abc import Sequence
from typing import Annotated, Final, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deputy_agents import validation_errors
from deputy_agents.domain.hook import MAX_TIMEOUT, Hook, When
from deputy_agents.domain.problem import Problem

MAX_HOOKS: Final = 50


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    on: When
    run: Annotated[str, Field(min_length=1, max_length=10_000)]
    tools: Annotated[tuple[str, ...], Field(max_length=100)] = ()
    timeout: Annotated[float, Field(strict=True, gt=0, le=MAX_TIMEOUT)] = 60.0


def parse_hooks(settings: object, file: str) -> tuple[tuple[Hook, ...], tuple[Problem, ...]]:
    """The hooks in ``settings``, the JSON value of ``file``, and problems."""
    listed = cast("dict[str, object]", settings).get("hooks") if isinstance(settings, dict) else None
    if listed is None:
        return (), ()
    if not isinstance(listed, list) or len(cast("list[object]", listed)) > MAX_HOOKS:
        return (), (Problem(file, 1, f"hooks must be a list of at most {MAX_HOOKS}"),)
    return _hooks(cast("list[object]", listed), file)


def _hooks(listed: Sequence[object], source: str) -> tuple[tuple[Hook, ...], tuple[Problem, ...]]:
    """The valid hooks of a list, and problems of the others."""
    hooks: list[Hook] = []
    problems: list[Problem] = []
    for index, raw in enumerate(listed):
        try:
            entry = _Entry.model_validate(raw)
        except ValidationError as error:
            problems.append(Problem(source, 1, f"hook {index + 1}: {validation_errors.describe(error)}"))
        else:
            hooks.append(Hook(entry.on, entry.run, entry.tools, entry.timeout, source))
    return tuple(hooks), tuple(problems)
