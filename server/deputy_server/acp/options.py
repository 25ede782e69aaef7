"""What a user can choose for a session: the permission mode and the model."""

from collections.abc import Callable, Iterable, Mapping

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.session.session import Session
from deputy_server.rpc.json import JsonObject

_MODES: Mapping[PermissionMode, tuple[str, str]] = {
    PermissionMode.PLAN: ("Plan", "Reads and plans; changes nothing."),
    PermissionMode.DEFAULT: ("Ask", "Asks before files are changed and commands are run."),
    PermissionMode.ACCEPT_EDITS: (
        "Accept edits",
        "Changes files of the workspace without asking; asks for the rest.",
    ),
    PermissionMode.BYPASS: ("Bypass", "Asks nothing. What a rule denies stays denied."),
}


def modes(session: Session) -> JsonObject:
    """The modes, and the one that holds."""
    return {
        "currentModeId": session.permission_mode.value,
        "availableModes": [
            {"id": mode.value, "name": name, "description": description} for mode, (name, description) in _MODES.items()
        ],
    }


def config_options(session: Session, models: Iterable[str]) -> list[JsonObject]:
    """The same and the models, for clients that know options; ``models`` are worth offering beside the current one."""
    model = session.record.model
    offered = [{"value": name, "name": name} for name in dict.fromkeys((model, *models))]
    kinds = [
        {"value": mode.value, "name": name, "description": description} for mode, (name, description) in _MODES.items()
    ]
    return [
        _select("mode", "Permissions", session.permission_mode.value, kinds),
        _select("model", "Model", model, offered),
    ]


def choose(session: Session, option: str, value: object) -> None:
    """
    Raises:
        InvalidRequest: there is no such option, or no such value of it.
    """
    if option not in _SETTERS:
        raise InvalidRequest(f"configId: there is no option {option!r}; there are {', '.join(_SETTERS)}.", "configId")
    if not isinstance(value, str):
        raise InvalidRequest("value: a string is needed.", "value")
    _SETTERS[option](session, value)


def set_mode(session: Session, value: str) -> None:
    """
    Raises:
        InvalidRequest: there is no such mode.
    """
    known = [mode.value for mode in PermissionMode]
    if value not in known:
        raise InvalidRequest(f"There is no mode {value!r}; there are {', '.join(known)}.", "modeId")
    session.permission_mode = PermissionMode(value)


def _select(of: str, name: str, current: str, options: list[dict[str, str]]) -> JsonObject:
    return {"id": of, "name": name, "category": of, "type": "select", "currentValue": current, "options": options}


_SETTERS: Mapping[str, Callable[[Session, str], None]] = {"mode": set_mode, "model": Session.set_model}
