"""The settings files of the user and of a project: which settings they may have, and where each value comes from.

``~/.deputy/settings.json`` may have any setting, as the default for ``deputy run`` and for every editor that does not
send it. ``.deputy/settings.json`` of a project may have rules, hooks and MCP servers.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import cast

from deputy_agents.domain.errors import InvalidRequest, ToolError
from deputy_agents.files import disk
from deputy_agents.files.paths import config_folder
from deputy_agents.guidance.jsonc import parse_jsonc, with_value
from deputy_agents.guidance.settings_writer import change_file
from deputy_agents.guidance.workspace_settings import FILE, read_user_settings, read_workspace_settings
from deputy_agents.hooks.config import parse_hooks
from deputy_agents.validation_errors import InvalidJson
from deputy_protocol.errors import InvalidParams
from deputy_protocol.settings import Settings
from deputy_protocol.validate import parse
from deputy_server.setting_names import NOT_IN_FILES, Setting, all_settings, unknown_in_file

IN_PROJECTS = ("hooks", "mcpServers", "permissions.rules")
"""The settings that a project may have. Those of the user and of the project apply together."""
ENVIRONMENT = {"model": "DEPUTY_MODEL", "baseUrl": "ANTHROPIC_BASE_URL"}
"""Variables that apply when a setting is absent."""

_LOCK_TIMEOUT = 5.0
_LOCK_POLL = 0.02


class Scope(StrEnum):
    USER = "user"
    PROJECT = "project"


def takes(name: str, value: object) -> bool:
    """Whether ``value`` is valid for a setting."""
    *above, last = name.split(".")
    nested: dict[str, object] = {last: value}
    for key in reversed(above):
        nested = {key: nested}
    try:
        parse(Settings, _without_hook_object(nested))
    except InvalidParams:
        return False
    return True


def value_at(values: object, name: str) -> object:
    """The value at the path ``name`` in nested objects, or ``None``."""
    for key in name.split("."):
        values = cast("Mapping[str, object]", values).get(key) if isinstance(values, dict) else None
    return values


# -- files ---------------------------------------------------------------------------------------------------------


def file_of(scope: Scope) -> Path:
    """
    Raises:
        InvalidRequest: the account has no home folder.
    """
    if scope is Scope.PROJECT:
        return Path.cwd().resolve().joinpath(*FILE)
    folder = config_folder(os.environ)
    if folder is None:
        raise InvalidRequest("This account has no home folder, so it has no settings file.")
    return folder / FILE[-1]


def read_file(scope: Scope) -> dict[str, object]:
    """The JSON object in a settings file; empty if there is no file. Blocks.

    Raises:
        InvalidRequest: the file cannot be read, or is invalid.
    """
    return _parsed(file_of(scope), _text(scope))


def _text(scope: Scope) -> str:
    try:
        found = (
            disk.read_text(file_of(scope).parent, FILE[-1:])
            if scope is Scope.USER
            else disk.read_text(Path.cwd().resolve(), FILE)
        )
    except ToolError as error:
        raise InvalidRequest(str(error)) from None
    return "" if found is None else found.text


def _parsed(file: Path, text: str) -> dict[str, object]:
    try:
        values: object = parse_jsonc(text) if text.strip() else {}
    except InvalidJson as error:
        raise InvalidRequest(f"{file}:{error.line}: {error}") from None
    if not isinstance(values, dict):
        raise InvalidRequest(f"{file}: must be a JSON object.")
    return cast("dict[str, object]", values)


def write_value(scope: Scope, name: str, value: object) -> None:
    """Write one value to a settings file, which keeps its comments, and is replaced as a whole. Blocks.

    Raises:
        InvalidRequest: the setting may not be in this file, the value is invalid, or the file cannot be written.
    """
    if scope is Scope.PROJECT and name not in IN_PROJECTS:
        raise InvalidRequest(f"A project cannot set {name}, only {', '.join(IN_PROJECTS)}. Use --user.")
    change_file(file_of(scope), lambda text: _with_value(scope, text, name, value))


def _with_value(scope: Scope, text: str, name: str, value: object) -> str:
    """``text``, that of a settings file, with one more value. Raises as :func:`write_value`."""
    file = file_of(scope)
    try:
        text = with_value(text, name.split("."), value)
    except InvalidJson as error:
        raise InvalidRequest(f"{file}:{error.line}: {error}") from None
    values = _parsed(file, text)
    try:
        parse(Settings, _without_hook_object(values))
    except InvalidParams as error:
        raise InvalidRequest(str(error)) from None
    _, problems = parse_hooks(values, str(file))
    if name == "hooks" and problems:
        raise InvalidRequest(problems[0].reason)
    return text


def _without_hook_object(values: Mapping[str, object]) -> Mapping[str, object]:
    """``values`` as they can be validated as settings: files may have hooks as in the settings of Claude Code, which
    :func:`parse_hooks` validates."""
    return {key: value for key, value in values.items() if key != "hooks" or not isinstance(value, dict)}


def file_problems(scope: Scope) -> tuple[str, ...]:
    """What keeps parts of a settings file from being used, and names that are no settings. Blocks."""
    user = scope is Scope.USER
    read = read_user_settings(file_of(scope).parent) if user else read_workspace_settings(Path.cwd().resolve())
    problems = [str(one) for one in read.problems]
    if not problems and scope is Scope.USER and (unused := UserDefaults().problem):
        problems = [unused]
    if problems:
        return tuple(problems)
    text = _text(scope)
    return tuple(unknown_in_file(str(file_of(scope)), text, _parsed(file_of(scope), text)))


# -- what applies --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Source:
    """A value of a setting and where it comes from: a scope, ``default``, or the name of a variable."""

    setting: Setting
    value: object
    source: str


def sources(environ: Mapping[str, str]) -> Iterator[Source]:
    """The values that apply in this folder without an editor. Settings that add up have one row for each file.

    Raises:
        InvalidRequest: a file is invalid.
    """
    files = {scope: read_file(scope) for scope in Scope}
    for one in all_settings():
        found = [
            Source(one, value, scope.value)
            for scope, values in files.items()
            if (scope is Scope.USER or one.name in IN_PROJECTS) and (value := value_at(values, one.name)) is not None
        ]
        variable = ENVIRONMENT.get(one.name, "")
        if not found and environ.get(variable):
            found = [Source(one, environ[variable], variable)]
        yield from found or [Source(one, one.default, "default")]


class UserDefaults:
    """The user's settings file, as defaults below what a client sends. Reads the file once. Blocks."""

    def __init__(self) -> None:
        self.problem: str | None = None
        """Why the file is not used."""
        self.unknown: tuple[str, ...] = ()
        """Names in the file that are no settings."""
        self._values: dict[str, object] = {}
        if config_folder(os.environ) is None:
            return
        try:
            text = _text(Scope.USER)
            values = _parsed(file_of(Scope.USER), text)
            parse(Settings, _without_hook_object(values))
        except InvalidRequest as error:
            self.problem = f"Your own settings are not used. {error}"
            return
        except InvalidParams as error:
            self.problem = f"Your own settings are not used. {file_of(Scope.USER)}: {error}"
            return
        self.unknown = tuple(unknown_in_file(str(file_of(Scope.USER)), text, values))
        # Rules, hooks and MCP servers of this file apply to every session already.
        self._values = {key: value for key, value in values.items() if key not in {*IN_PROJECTS, *NOT_IN_FILES}}
        if isinstance(permissions := self._values.get("permissions"), dict):
            kept = cast("dict[str, object]", permissions)
            self._values["permissions"] = {key: value for key, value in kept.items() if key != "rules"}

    def below(self, settings: Settings) -> Settings:
        """``settings``, with the user's values for what they do not contain."""
        if not self._values:
            return settings
        return Settings.model_validate(
            _merged(self._values, settings.model_dump(mode="json", by_alias=True, exclude_unset=True))
        )


def _merged(below: Mapping[str, object], above: Mapping[str, object]) -> dict[str, object]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(under, dict) and isinstance(value, dict):
            merged[key] = _merged(cast("dict[str, object]", under), cast("dict[str, object]", value))
        else:
            merged[key] = value
    return merged
