"""The input of a tool: one pydantic model, from which come the schema that the model reads and the validation."""

from collections.abc import Mapping
from functools import cache
from typing import Generic, TypeVar, cast

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import ToolKind
from deputy_agents.files.workspace import Place
from deputy_agents.ports.model import ToolSpec
from deputy_agents.text import cut, visible
from deputy_agents.tool.base import ToolContext


class Args(BaseModel):
    """Base of all inputs. Fields that it does not know are errors: a model that misspells one must hear of it."""

    model_config = ConfigDict(extra="forbid")


class PathArgs(Args):
    """An input that names one place. The first look binds it: what the gate decided about is what is used."""

    path: str
    _place: Place | None = PrivateAttr(default=None)

    async def look(self, context: ToolContext) -> Place:
        """Where the path leads now, kept for :meth:`use`.

        Raises:
            ToolError: out of the workspace, or nowhere.
        """
        self._place = await context.workspace.locate(self.path, context.cwd)
        return self._place

    async def bound(self, context: ToolContext) -> Place:
        """Where the path led when it was looked at. Enough for reading: the place is opened link by link from its
        root, so what is read is what the gate decided about, or nothing."""
        return self._place or await self.look(context)

    async def use(self, context: ToolContext) -> Place:
        """Where the path leads now.

        Raises:
            ToolError: not to where it led when it was looked at.
        """
        now = await context.workspace.locate(self.path, context.cwd)
        if self._place and (now.path, now.secret) != (self._place.path, self._place.secret):
            raise ToolError(f"{visible(self.path)} leads to another file than when the call was checked; try again.")
        return now


A = TypeVar("A", bound=Args)


class ArgsTool(Generic[A]):
    """What tools with a pydantic model for their input share."""

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
        """The validated input; a ``null`` counts as left out.

        Raises:
            ToolError: naming each field that does not fit.
        """
        return parse_args(self._args, input)


@cache
def schema_of(args: type[Args]) -> Mapping[str, object]:
    """The JSON Schema of an input. Titles only repeat the names, and an optional field is simply left out: models send
    better input when they are not offered ``null``. Made once: every agent gets tools of its own, and pydantic takes
    milliseconds for it."""
    schema = args.model_json_schema()
    fields = cast("dict[str, dict[str, object]]", schema.get("properties", {}))
    kept = {key: value for key, value in schema.items() if key not in ("title", "description")}
    return {**kept, "properties": {name: _plain(field) for name, field in fields.items()}}


def parse_args(args: type[A], input: Mapping[str, object]) -> A:
    """An ``args`` of ``input``; a ``null`` counts as left out.

    Raises:
        ToolError: naming each field that does not fit.
    """
    try:
        return args.model_validate({key: value for key, value in input.items() if value is not None})
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        known = ", ".join(args.model_fields)
        raise ToolError(
            cut("; ".join(_fault(item["loc"], item["type"], item["msg"], known) for item in faults), 1000)
        ) from None


def _plain(field: dict[str, object]) -> dict[str, object]:
    choices = cast("list[dict[str, object]]", field.get("anyOf", []))
    if len(choices) == 2 and choices[1] == {"type": "null"}:
        field = {**choices[0], **{key: value for key, value in field.items() if key not in ("anyOf", "default")}}
    return {key: value for key, value in field.items() if key != "title"}


def _fault(where: tuple[int | str, ...], kind: str, message: str, known: str) -> str:
    name = visible(".".join(map(str, where)))
    match kind:
        case "extra_forbidden":
            return f"{name}: there is no such field, only {known or 'none at all'}"
        case "model_type":
            return f"{name}: it must be an object"
        case "string_pattern_mismatch":  # no input has another pattern than that of a text that is not blank
            return f"{name}: it must not be blank"
        case _:
            return f"{name}: {message[0].lower()}{message[1:]}"
