"""The options of a session: permission mode, model and effort."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.model_card import Effort
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.session.session import Session
from deputy_server.rpc.json import JsonObject

_DEFAULT: Final = "default"
"""The effort from the agent definition or the settings."""
_MODES: Mapping[PermissionMode, tuple[str, str]] = {
    PermissionMode.PLAN: ("Plan", "Reads and plans. Changes nothing."),
    PermissionMode.DEFAULT: ("Ask", "Ask first: before it changes files or runs commands."),
    PermissionMode.ACCEPT_EDITS: (
        "Accept edits",
        "Review after: changes files in the workspace, which you keep or undo later. Asks for everything else.",
    ),
    PermissionMode.BYPASS: ("Bypass", "Never asks. Deny rules still apply."),
}


def modes(session: Session) -> JsonObject:
    """The available modes and the current one."""
    return {
        "currentModeId": session.permissions.mode.value,
        "availableModes": [
            {"id": mode.value, "name": name, "description": description} for mode, (name, description) in _MODES.items()
        ],
    }


def config_options(session: Session, models: Iterable[str]) -> list[JsonObject]:
    """Modes, models and the efforts of the model, for clients with configuration options; ``models`` are offered in
    addition to the current one."""
    model = session.record.model
    offered = [{"value": name, "name": name} for name in dict.fromkeys((model, *models))]
    available = [
        {"value": mode.value, "name": name, "description": description} for mode, (name, description) in _MODES.items()
    ]
    options = [
        _select("mode", "Permissions", session.permissions.mode.value, available),
        _select("model", "Model", model, offered),
    ]
    efforts = session.host.settings.cards.card(model).efforts
    if efforts:
        levels = [{"value": _DEFAULT, "name": "Default"}, *({"value": one, "name": one.title()} for one in efforts)]
        current = session.record.effort or _DEFAULT
        options.append(_select("effort", "Effort", current, levels, category="thought_level"))
    return options


def choose(session: Session, option: str, value: object) -> None:
    """Set an option.

    Raises:
        InvalidRequest: unknown option or value.
    """
    if option not in _SETTERS:
        raise InvalidRequest(f"configId: unknown option {option!r}. Use one of: {', '.join(_SETTERS)}.", "configId")
    if not isinstance(value, str):
        raise InvalidRequest("value: must be a string.", "value")
    _SETTERS[option](session, value)


def set_mode(session: Session, value: str) -> None:
    """Set the permission mode.

    Raises:
        InvalidRequest: unknown mode.
    """
    known = [mode.value for mode in PermissionMode]
    if value not in known:
        raise InvalidRequest(f"Unknown mode {value!r}. Use one of: {', '.join(known)}.", "modeId")
    session.permissions.mode = PermissionMode(value)


def set_effort(session: Session, value: str) -> None:
    """Set the effort.

    Raises:
        InvalidRequest: unknown level.
    """
    if value != _DEFAULT and value not in set(Effort):
        raise InvalidRequest(f"Unknown effort {value!r}. Use one of: {', '.join((_DEFAULT, *Effort))}.", "value")
    session.model_choice.change(effort=_DEFAULT if value == _DEFAULT else Effort(value))


def _select(
    option: str, name: str, current: str, options: list[dict[str, str]], category: str | None = None
) -> JsonObject:
    return {
        "id": option,
        "name": name,
        "category": category or option,
        "type": "select",
        "currentValue": current,
        "options": options,
    }


_SETTERS: Mapping[str, Callable[[Session, str], None]] = {
    "mode": set_mode,
    "model": Session.set_model,
    "effort": set_effort,
}
