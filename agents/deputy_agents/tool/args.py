"""Tool inputs: one pydantic model per tool defines both the JSON Schema sent to the model and the validation."""

from collections.abc import Mapping
from functools import cache
from typing import Generic, TypeVar, cast

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import ToolKind
from deputy_agents.files.place import Place
from deputy_agents.ports.model import ToolSpec
from deputy_agents.text import cut, visible
from deputy_agents.tool.base import ToolContext


class Args(BaseModel):
    """Base of all inputs. Unknown fields are errors, so that the model learns of a misspelled field."""

    model_config = ConfigDict(extra="forbid")


class PathArgs(Args):
    """An input with one path. :meth:`locate` stores the resolved place, so that the call uses the place that the gate
    decided about."""

    path: str
    _place: Place | None = PrivateAttr(default=None)

    async def locate(self, context: ToolContext) -> Place:
        """Resolve the path and store the result for :meth:`located` and :meth:`relocate`.

        Raises:
            ToolError: the path leads out of the workspace or cannot be resolved.
        """
        self._place = await context.workspace.locate(self.path, context.cwd)
        return self._place

    async def located(self, context: ToolContext) -> Place:
        """The stored result of :meth:`locate`. This is safe for reading: the workspace opens the place link by link
        from its root, so that a read returns what the gate decided about, or fails."""
        return self._place or await self.locate(context)

    async def relocate(self, context: ToolContext) -> Place:
        """Resolve the path again.

        Raises:
            ToolError: it leads to another place than at the time of :meth:`locate`.
        """
        now = await context.workspace.locate(self.path, context.cwd)
        if self._place and now.leads_elsewhere_than(self._place):
            raise ToolError(f"{visible(self.path)} leads to another file than when the call was checked. Try again.")
        return now


A = TypeVar("A", bound=Args)


class ArgsTool(Generic[A]):
    """Base of the tools whose input is a pydantic model."""

    def __init__(self, name: str, kind: ToolKind, args: type[A], description: str) -> None:
        self._args = args
        self._kind = kind
        self._spec = ToolSpec(name, description, schema_of(args))

    @property
    def name(self) -> str:
        return self._spec.name

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    @property
    def kind(self) -> ToolKind:
        return self._kind

    def parse(self, input: Mapping[str, object]) -> A:
        """Validate the input; a field that is ``null`` counts as absent.

        Raises:
            ToolError: the input is invalid; the message names each invalid field.
        """
        return parse_args(self._args, input)


@cache
def schema_of(args: type[Args]) -> Mapping[str, object]:
    """The JSON Schema of an input, without titles (they repeat the names) and without ``null`` for optional fields
    (models send better input when ``null`` is not offered). Cached: each agent has its own tools, and pydantic takes
    milliseconds to build a schema."""
    schema = args.model_json_schema()
    fields = cast("dict[str, dict[str, object]]", schema.get("properties", {}))
    rest = {key: value for key, value in schema.items() if key not in ("title", "description")}
    return {**rest, "properties": {name: _simplified(field) for name, field in fields.items()}}


def parse_args(args: type[A], input: Mapping[str, object]) -> A:
    """Validate ``input`` as ``args``; a field that is ``null`` counts as absent.

    Raises:
        ToolError: the input is invalid; the message names each invalid field.
    """
    try:
        return args.model_validate({key: value for key, value in input.items() if value is not None})
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        known = ", ".join(args.model_fields)
        raise ToolError(
            cut("; ".join(_error_text(item["loc"], item["type"], item["msg"], known) for item in errors), 1000)
        ) from None


def _simplified(field: dict[str, object]) -> dict[str, object]:
    choices = cast("list[dict[str, object]]", field.get("anyOf", []))
    if len(choices) == 2 and choices[1] == {"type": "null"}:
        field = {**choices[0], **{key: value for key, value in field.items() if key not in ("anyOf", "default")}}
    return {key: value for key, value in field.items() if key != "title"}


def _error_text(location: tuple[int | str, ...], error_type: str, message: str, known: str) -> str:
    name = visible(".".join(map(str, location)))
    match error_type:
        case "extra_forbidden":
            return f"{name}: unknown field; the fields are: {known or 'none'}"
        case "model_type":
            return f"{name}: must be an object"
        case "string_pattern_mismatch":  # the only pattern in any input is that of non-blank text
            return f"{name}: must not be blank"
        case _:
            return f"{name}: {message[0].lower()}{message[1:]}"
