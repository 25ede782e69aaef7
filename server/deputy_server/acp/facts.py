"""What a client shows of a session beside its conversation: title, mode, model, commands, and what it costs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deputy_agents.domain.event import Event, UsageChanged
from deputy_agents.domain.message import Usage
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.guidance.items import SlashCommand
from deputy_agents.session.session import Session
from deputy_server.acp import options
from deputy_server.rpc.json import JsonObject


@dataclass(frozen=True, slots=True)
class _Known:
    title: str
    mode: PermissionMode
    model: str
    commands: tuple[SlashCommand, ...] = ()


class Facts:
    """Of one session; ``models`` are those worth offering."""

    def __init__(self, session: Session, models: Sequence[str]) -> None:
        self._session = session
        self._models = models
        self._known = _Known(session.record.title, session.permission_mode, session.record.model)

    def setup(self) -> JsonObject:
        """What the answer that opens the session tells."""
        return {
            "modes": options.modes(self._session),
            "configOptions": options.config_options(self._session, self._models),
        }

    def config_options(self) -> list[JsonObject]:
        return options.config_options(self._session, self._models)

    def news(self) -> Iterator[JsonObject]:
        """Updates of what has changed since the client was told."""
        session, before = self._session, self._known
        now = self._known = _Known(
            session.record.title,
            session.permission_mode,
            session.record.model,
            tuple(session.slash_commands.values()),
        )
        if now.title != before.title:
            yield {"sessionUpdate": "session_info_update", "title": now.title}
        if now.mode is not before.mode:
            yield {"sessionUpdate": "current_mode_update", "currentModeId": now.mode.value}
        if (now.mode, now.model) != (before.mode, before.model):
            yield {"sessionUpdate": "config_option_update", "configOptions": self.config_options()}
        if now.commands != before.commands:
            yield {"sessionUpdate": "available_commands_update", "availableCommands": list(map(_command, now.commands))}


class Spending:
    """How full the primary's window is, and what all agents have cost. ``known`` says that what was before is not told
    again."""

    def __init__(self, session: Session, *, known: bool) -> None:
        self._session = session
        self._totals = {one: node.usage for one, node in session.view.agents.items()} if known else {}

    def take(self, event: Event) -> JsonObject | None:
        """The update that ``event`` makes necessary, if any."""
        if not isinstance(event.body, UsageChanged) or event.agent_id is None:
            return None
        now, before = event.body.usage, self._totals.get(event.agent_id, Usage())
        self._totals[event.agent_id] = now
        if event.agent_id != self._session.primary_id or not _tokens(now):
            return None
        update: JsonObject = {
            "sessionUpdate": "usage_update",
            "used": max(0, _tokens(now) - _tokens(before)),
            "size": self._session.settings.cards.card(self._session.record.model).window,
        }
        costs = [usage.cost for usage in self._totals.values() if usage.cost is not None]
        return update | {"cost": {"amount": sum(costs), "currency": "USD"}} if costs else update


def usage(used: Usage) -> JsonObject:
    """What a turn has used."""
    return {
        "totalTokens": _tokens(used),
        "inputTokens": used.input_tokens,
        "outputTokens": used.output_tokens,
        "cachedReadTokens": used.cache_read_tokens,
        "cachedWriteTokens": used.cache_write_tokens,
    }


def _tokens(used: Usage) -> int:
    return used.input_tokens + used.output_tokens + used.cache_read_tokens + used.cache_write_tokens


def _command(command: SlashCommand) -> JsonObject:
    hint = {"input": {"hint": command.argument_hint}} if command.argument_hint else {}
    return {"name": command.name, "description": command.description, **hint}
