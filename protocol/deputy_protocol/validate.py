"""Reading what came over the wire: one way in, and one error that names the field."""

from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

from pydantic import BaseModel, ValidationError

from deputy_protocol.errors import ErrorCode, InvalidParamsData

_M = TypeVar("_M", bound=BaseModel)
_SHOWN = 3
_MAX_REASON = 300
_TAGS = ("type", "outcome")


class InvalidParams(ValueError):
    """Parameters that do not validate. The text names the fields; ``field`` and ``reason`` are of the first one."""

    code = ErrorCode.INVALID_PARAMS

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        shown = [f"{field}: {reason}" if field else reason for field, reason in problems[:_SHOWN]]
        super().__init__("; ".join(shown) + ("; …" if len(problems) > _SHOWN else ""))
        self.field, self.reason = problems[0]

    @property
    def data(self) -> InvalidParamsData:
        return InvalidParamsData(field=self.field, reason=self.reason)


def parse(model: type[_M], raw: object, *, at: str = "") -> _M:
    """``raw``, decoded JSON, as a ``model``; absent (``None``) stands for an object without fields.

    ``at`` is the JSON path of ``raw`` itself, put in front of the fields that are named.

    Raises:
        InvalidParams: ``raw`` does not validate.
    """
    given: object = {} if raw is None else raw
    try:
        return model.model_validate(given, by_name=False)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        # An array with a bad element is told once, by the element.
        inner = [e["loc"] for e in found]
        told = [
            e for e in found if not any(len(loc) > len(e["loc"]) and loc[: len(e["loc"])] == e["loc"] for loc in inner)
        ]
        raise InvalidParams([(_path(e["loc"], given, at), _reason(e["type"], e["msg"])) for e in told]) from None


_NEEDED = {
    "model_type": "an object is needed",
    "model_attributes_type": "an object is needed",
    "dict_type": "an object is needed",
    "mapping_type": "an object is needed",
    "tuple_type": "an array is needed",
    "list_type": "an array is needed",
    "string_type": "a string is needed",
    "bool_type": "true or false is needed",
    "int_type": "a whole number is needed",
    "float_type": "a number is needed",
    "missing": "it is required",
    "string_pattern_mismatch": "it does not have the form that is needed",
}
"""Reasons in the words of JSON, by pydantic's type of error."""


def _reason(kind: str, message: str) -> str:
    return _NEEDED.get(kind) or _bounded(message.replace("Tuple should", "it should").replace(" after validation", ""))


def _bounded(reason: str) -> str:
    return reason if len(reason) <= _MAX_REASON else reason[: _MAX_REASON - 1] + "…"


def _path(location: Sequence[int | str], raw: object, at: str) -> str:
    """The JSON path of a location, without the tags that pydantic puts in where it has chosen among shapes."""
    path, value, tagged = at, raw, False
    for position, step in enumerate(location):
        last = position == len(location) - 1
        if isinstance(step, str) and not last and not tagged and _is_tag(step, value):
            tagged = True
            continue
        tagged = False
        if isinstance(step, int):
            path += f"[{step}]"
            value = cast("Sequence[object]", value)[step] if isinstance(value, list | tuple) else None
        else:
            path += f".{step}" if path else step
            value = cast("Mapping[str, object]", value).get(step) if isinstance(value, Mapping) else None
    return path


def _is_tag(step: str, value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    fields = cast("Mapping[str, object]", value)
    return any(fields.get(tag) == step for tag in _TAGS)
