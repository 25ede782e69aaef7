"""The names of settings, and those that are none: a misspelled one must not be dropped silently, as it may deny."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import cast, get_args

from pydantic import BaseModel

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.guidance.jsonc import line_of
from deputy_agents.text import cut, visible
from deputy_protocol.settings import Settings

NOT_IN_FILES = ("token", "trusted")
"""Settings of a connection, and of the trust in one folder."""
_MAX_NAME = 100
_NO_SETTINGS = frozenset({"$schema"})
"""Names that tools for JSON files use."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting by its name on the wire. ``secret``: its value may contain a secret."""

    name: str
    default: object
    secret: bool


def all_settings(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[Setting]:
    """Every setting that a file may have."""
    for field, info in model.model_fields.items():
        name = f"{prefix}{info.alias or field}"
        if isinstance(inner := info.annotation, type) and issubclass(inner, BaseModel):
            yield from all_settings(inner, f"{name}.")
        elif name not in NOT_IN_FILES:
            yield Setting(name, _default(name), secret=not info.repr)


def _default(name: str) -> object:
    value: object = Settings().model_dump(mode="json", by_alias=True)
    for key in name.split("."):
        value = cast("Mapping[str, object]", value).get(key) if isinstance(value, dict) else None
    return value


def setting(name: str) -> Setting:
    """
    Raises:
        InvalidRequest: there is no such setting; the message suggests one.
    """
    known = {one.name: one for one in all_settings()}
    if (found := known.get(name)) is not None:
        return found
    if name in NOT_IN_FILES:
        raise InvalidRequest(f"{name} has no effect in a file: the client of a session sends it.")
    spelled = {one.casefold(): one for one in known} | {one.rpartition(".")[2].casefold(): one for one in known}
    close = get_close_matches(name.casefold(), spelled, n=1, cutoff=0.6)
    hint = f" Did you mean {spelled[close[0]]}?" if close else " `deputy config list` shows all settings."
    raise InvalidRequest(f"There is no setting {name}.{hint}")


def unknown_settings(values: object, at: str = "") -> Sequence[str]:
    """A sentence for each name in ``values`` that is no setting, with its place below ``at``."""
    prefix = f"{at}." if at else ""
    return [f"{prefix}{visible(place)}: {reason}" for place, _, reason in _unknown(values, Settings, ())]


def unknown_in_file(file: str, text: str, values: object) -> Sequence[str]:
    """A sentence for each name in ``values``, the JSON object in ``file``, with its line in ``text``."""
    return [
        f"{file}:{line_of(text, keys)}: {visible(place)}: {reason}"
        for place, keys, reason in _unknown(values, Settings, ())
    ]


def _unknown(
    values: object, model: type[BaseModel], above: tuple[str | int, ...]
) -> Iterator[tuple[str, tuple[str | int, ...], str]]:
    """The place, path and reason of each unknown name."""
    if not isinstance(values, dict):
        return  # validation reports it
    known = {info.alias or field: info.annotation for field, info in model.model_fields.items()}
    for key, value in cast("Mapping[str, object]", values).items():
        keys = (*above, key)
        if key not in known:
            if above or key not in _NO_SETTINGS:
                yield _place(keys), keys, _reason(keys)
            continue
        inner = known[key]
        if (one := _model(inner)) is not None:
            yield from _unknown(value, one, keys)
        elif (one := next(filter(None, map(_model, get_args(inner))), None)) is not None and isinstance(value, list):
            for index, item in enumerate(cast("Sequence[object]", value)):
                yield from _unknown(item, one, (*keys, index))


def _model(annotation: object) -> type[BaseModel] | None:
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _place(keys: Sequence[str | int]) -> str:
    parts = [f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys]
    return cut("".join(parts).removeprefix("."), _MAX_NAME)


def _reason(keys: Sequence[str | int]) -> str:
    if any(isinstance(key, int) for key in keys):
        return "there is no such field."
    try:
        setting(".".join(map(str, keys)))
    except InvalidRequest as error:
        return visible(str(error))
    return "there is no such setting."
