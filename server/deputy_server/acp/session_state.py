"""What a client shows of a session outside its conversation: title, mode, model, commands and usage."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deputy_agents.domain.event import Event, UsageChanged
from deputy_agents.domain.message import Usage
from deputy_agents.domain.model_card import Effort
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.guidance.items import SlashCommand
from deputy_agents.session.session import Session
from deputy_server.acp import options
from deputy_server.rpc.json import JsonObject


@dataclass(frozen=True, slots=True)
class _State:
    title: str
    mode: PermissionMode
    model: str
    effort: Effort | None
    commands: tuple[SlashCommand, ...] = ()


class SessionState:
    """The state of one session as the client has received it; ``models`` are offered for selection."""

    def __init__(self, session: Session, models: Sequence[str]) -> None:
        self._session = session
        self._models = models
        self._sent = _State(session.record.title, session.permissions.mode, session.record.model, session.record.effort)

    def initial(self) -> JsonObject:
        """The state in the response that opens the session."""
        return {"modes": options.modes(self._session), "configOptions": self.config_options()}

    def config_options(self) -> list[JsonObject]:
        return options.config_options(self._session, self._models)

    def updates(self) -> Iterator[JsonObject]:
        """Updates for what has changed since the last call."""
        session, before = self._session, self._sent
        now = self._sent = _State(
            session.record.title,
            session.permissions.mode,
            session.record.model,
            session.record.effort,
            tuple(session.customizations.slash_commands.values()),
        )
        if now.title != before.title:
            yield {"sessionUpdate": "session_info_update", "title": now.title}
        if now.mode is not before.mode:
            yield {"sessionUpdate": "current_mode_update", "currentModeId": now.mode.value}
        if (now.mode, now.model, now.effort) != (before.mode, before.model, before.effort):
            yield {"sessionUpdate": "config_option_update", "configOptions": self.config_options()}
        if now.commands != before.commands:
            yield {"sessionUpdate": "available_commands_update", "availableCommands": list(map(_command, now.commands))}


class UsageTotals:
    """The use of the primary agent's context window, and the cost of all agents. With ``known``, the client has already
    received the past usage."""

    def __init__(self, session: Session, *, known: bool) -> None:
        self._session = session
        self._totals = {agent_id: node.usage for agent_id, node in session.view.agents.items()} if known else {}

    def take(self, event: Event) -> JsonObject | None:
        """Add ``event``, and return the update that it causes, if any."""
        if not isinstance(event.body, UsageChanged) or event.agent_id is None:
            return None
        self._totals[event.agent_id] = event.body.usage
        context = event.body.context
        if event.agent_id != self._session.primary_id or context is None:
            return None
        update: JsonObject = {"sessionUpdate": "usage_update", "used": context.used, "size": context.window}
        costs = [usage.cost for usage in self._totals.values() if usage.cost is not None]
        return update | {"cost": {"amount": sum(costs), "currency": "USD"}} if costs else update


def turn_usage(usage: Usage) -> JsonObject:
    """The usage of a turn, for the response to its prompt."""
    return {
        "totalTokens": _tokens(usage),
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cachedReadTokens": usage.cache_read_tokens,
        "cachedWriteTokens": usage.cache_write_tokens,
    }


def _tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens


def _command(command: SlashCommand) -> JsonObject:
    hint = {"input": {"hint": command.argument_hint}} if command.argument_hint else {}
    return {"name": command.name, "description": command.description, **hint}
