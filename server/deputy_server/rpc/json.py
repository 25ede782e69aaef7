"""JSON values of unknown shape, looked at safely."""

from typing import TypeAlias, TypeGuard, cast

JsonObject: TypeAlias = dict[str, object]


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Whether ``value``, which was read from JSON, is an object (whose keys are strings then)."""
    return isinstance(value, dict)


def dig(value: object, *keys: str) -> object:
    """The value at the end of a path of keys, or ``None`` where the path breaks off."""
    for key in keys:
        if not is_object(value):
            return None
        value = value.get(key)
    return value


def items(value: object) -> list[object]:
    """The elements of an array; of anything else, none."""
    return cast(list[object], value) if isinstance(value, list) else []
