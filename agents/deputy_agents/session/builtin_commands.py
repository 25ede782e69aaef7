"""Carries out the slash commands of Deputy that act within their turn. Each runs as a turn of its own, so that clients
show it like a prompt with its answer, prompts wait for it, and it can be cancelled; the model does not see it."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from deputy_agents.domain.errors import DeputyError, InvalidRequest, WrongState, check_length
from deputy_agents.domain.message import Text
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.turn import Work
from deputy_agents.guidance.commands import parse_call
from deputy_agents.guidance.library import Library
from deputy_agents.run.context_usage import Compaction, ContextUsage
from deputy_agents.run.host import Host
from deputy_agents.session.context import SessionContext
from deputy_agents.session.model_choice import ModelChoice
from deputy_agents.session.permissions import SessionPermissions
from deputy_agents.session.record_keeper import RecordKeeper
from deputy_agents.session.roster import Roster
from deputy_agents.session.supervisor import Supervisor
from deputy_agents.session.turn_scheduler import TurnScheduler
from deputy_agents.text import visible

MAX_KEEP = 2000
"""Characters of what to keep of a conversation."""

_PART_NAMES = {
    "system": "System prompt",
    "tools": "Tools",
    "mcp": "MCP tools",
    "instructions": "Instructions",
    "messages": "Messages",
    "results": "Tool results",
    "free": "Free",
}
_CLEARED = (
    "The model no longer receives the conversation so far. The transcript is still complete. To get the conversation "
    "back, rewind it to an earlier prompt."
)


class BuiltinCommands:
    """The commands of one session."""

    def __init__(
        self,
        host: Host,
        supervisor: Supervisor,
        roster: Roster,
        library: Library,
        choice: ModelChoice,
        permissions: SessionPermissions,
        turns: TurnScheduler,
        keeper: RecordKeeper,
    ) -> None:
        self.context = SessionContext(supervisor, roster, library)
        self._host = host
        self._choice = choice
        self._permissions = permissions
        self._turns = turns
        self._keeper = keeper
        self._commands: Mapping[str, Callable[[str], Awaitable[str]]] = {
            "compact": self._compact,
            "context": self._context,
            "clear": self._clear,
            "model": self._model,
            "mode": self._mode,
        }

    def work(self, text: str) -> Work | None:
        """What the prompt ``text`` asks Deputy to do; ``None`` if it is for the model."""
        name, arguments = parse_call(text) or ("", "")
        command = self._commands.get(name)
        return None if command is None else partial(command, arguments)

    async def compact(self, keep: str = "") -> Compaction:
        """Runs ``/compact`` and returns the sizes before and after.

        Raises:
            WrongState: a turn runs, or the turn was cancelled.
            InvalidRequest: ``keep`` is too long.
            ModelError: the model cannot write a summary now.
        """
        check_length(keep, "keep", MAX_KEEP)
        if self._turns.running is not None:
            raise WrongState("A turn is running in this session. Stop it, or wait until it ends.")
        ended: list[Compaction | DeputyError] = []

        async def work() -> str:
            try:
                ended.append(sizes := await self.context.compact(keep.strip()))
            except DeputyError as error:
                ended.append(error)
                raise
            return _compacted(sizes)

        shown = f"/compact {keep}".strip()
        await self._turns.accept((Text(shown),), shown, "command", work=work).result()
        end = ended[0] if ended else WrongState("The compaction was cancelled.")
        if isinstance(end, DeputyError):
            raise end
        return end

    async def _compact(self, arguments: str) -> str:
        check_length(arguments, "keep", MAX_KEEP)
        return _compacted(await self.context.compact(arguments))

    async def _context(self, arguments: str) -> str:
        del arguments
        return usage_text(await self.context.usage(), self._keeper.record.model)

    async def _clear(self, arguments: str) -> str:
        del arguments
        await self.context.clear()
        return _CLEARED

    async def _model(self, arguments: str) -> str:
        if arguments:
            self._choice.change(arguments)
            await self._keeper.save()
            return f"The model is now `{visible(self._keeper.record.model)}`."
        record, host = self._keeper.record, self._host
        effort = record.effort or host.settings.effort
        facts = [f"thinking {host.thinking.value}", *([f"effort {effort.value}"] if effort else [])]
        return (
            f"The model is `{visible(record.model)}` ({', '.join(facts)}). To change it, send `/model NAME`. "
            "`deputy models` lists the models of your service."
        )

    async def _mode(self, arguments: str) -> str:
        modes = [mode.value for mode in PermissionMode]
        if arguments and arguments not in modes:
            raise InvalidRequest(f"There is no permission mode {arguments!r}. Use one of: {', '.join(modes)}.", "mode")
        if arguments:
            self._permissions.mode = PermissionMode(arguments)
            await self._keeper.save()
        mode = self._permissions.mode.value
        if arguments and mode != arguments:
            return f"The permission mode stays `{mode}`, because this workspace is not trusted."
        if arguments:
            return f"The permission mode is now `{mode}`."
        return f"The permission mode is `{mode}`. To change it, send `/mode` with one of: {', '.join(modes)}."


def usage_text(usage: ContextUsage, model: str) -> str:
    """``usage`` as Markdown."""
    share = usage.used / usage.window
    lines = [
        f"`{visible(model)}`: {usage.used:,} of {usage.window:,} tokens used ({share:.0%}).",
        "",
        "| part | tokens | share |",
        "|---|--:|--:|",
        *(
            f"| {_PART_NAMES[part.name]} | {part.tokens:,} | {part.tokens / usage.window:.1%} |"
            for part in usage.parts
            if part.tokens
        ),
        "",
        f"The conversation is compacted above {usage.compacts_at:,} tokens, or when you send `/compact`.",
    ]
    if usage.cached_share is not None:
        lines.append(f"{usage.cached_share:.0%} of the last request came from the provider's cache.")
    return "\n".join(lines)


def _compacted(sizes: Compaction) -> str:
    if not sizes.done:
        return "There is nothing to compact yet."
    return f"The conversation has {sizes.after:,} tokens now, instead of {sizes.before:,}."
