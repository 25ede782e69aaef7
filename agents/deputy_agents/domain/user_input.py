"""What agents and MCP servers ask the user for, apart from permission: a message, and a form or a URL."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

Value: TypeAlias = str | float | bool | tuple[str, ...]
"""What the user enters in a field: an integer field has a ``float`` without a fraction or an ``int``."""


class FieldType(StrEnum):
    STRING = "string"
    NUMBER = "number"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    """One of the options."""
    CHOICES = "choices"
    """Any number of the options."""


@dataclass(frozen=True, slots=True)
class FieldOption:
    value: str
    title: str


@dataclass(frozen=True, slots=True)
class InputField:
    """One field of a form. ``minimum`` and ``maximum`` limit a number; ``shortest`` and ``longest`` the characters of a
    text, or how many options are chosen. ``format`` is ``email``, ``uri``, ``date`` or ``date-time``."""

    name: str
    type: FieldType
    title: str = ""
    description: str = ""
    required: bool = True
    options: tuple[FieldOption, ...] = ()
    default: Value | None = None
    integer: bool = False
    minimum: float | None = None
    maximum: float | None = None
    shortest: int | None = None
    longest: int | None = None
    format: str = ""


@dataclass(frozen=True, slots=True)
class InputForm:
    """What the user is asked for: to fill in ``fields``, or to do something at ``url``. ``server`` is the MCP server
    that asks; empty if the agent does. ``about`` is the target in the title."""

    message: str
    fields: tuple[InputField, ...] = ()
    url: str | None = None
    server: str = ""
    about: str = ""

    @property
    def source(self) -> Literal["agent", "mcp"]:
        return "mcp" if self.server else "agent"

    @property
    def single_choice(self) -> InputField | None:
        """Its field, if it is nothing but one choice among options."""
        alone = self.fields[0] if len(self.fields) == 1 and self.url is None else None
        return alone if alone is not None and alone.type is FieldType.CHOICE else None


class InputAction(StrEnum):
    """What the user did with a form. Only ``ACCEPTED`` is an answer."""

    ACCEPTED = "accepted"
    DECLINED = "declined"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class FilledIn:
    """The values of an accepted form, validated."""

    values: Mapping[str, Value] = field(default_factory=dict[str, Value])
