"""The slash commands ``/rewind`` and ``/fork``. They act before their turn begins, because they change or copy what is
before it; the turn shows what they have done."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from deputy_agents.domain.errors import DeputyError, InvalidRequest, WrongState
from deputy_agents.domain.message import text_of
from deputy_agents.domain.turn import CommandResult
from deputy_agents.guidance.commands import parse_call
from deputy_agents.ports.store import CheckpointRecord
from deputy_agents.session.rewind import Rewind, Rewound
from deputy_agents.text import visible

MAX_LISTED = 20
"""Checkpoints that are listed."""

_PARTS: Mapping[str, tuple[bool, bool]] = {"files": (True, False), "conversation": (False, True)}
"""What of files and conversation goes back."""
_SKIP = "skip"
_HOW_TO_REWIND = (
    "To go back to one, send `/rewind` with its number or id. Add `files` or `conversation` to go back with only one."
)
_HOW_TO_SKIP = "Nothing was changed. To leave out these files, send the command again with `skip`."
_USAGE = "Use `/rewind NUMBER`, and if you like `files` or `conversation`, and `skip`."


class HistoryCommands:
    """The commands of the session of ``rewind``, in the folder ``cwd``."""

    def __init__(self, rewind: Rewind, cwd: Path) -> None:
        self._rewind = rewind
        self._cwd = cwd
        self._commands: Mapping[str, Callable[[str], Awaitable[CommandResult]]] = {
            "rewind": self._run_rewind,
            "fork": self._run_fork,
        }

    async def run(self, text: str) -> CommandResult | None:
        """Carries out the command that the prompt ``text`` calls; ``None`` if it calls none of these.

        Raises:
            WrongState: an agent works.
        """
        name, arguments = parse_call(text) or ("", "")
        if (command := self._commands.get(name)) is None:
            return None
        try:
            return await command(arguments)
        except WrongState:
            raise
        except DeputyError as error:
            return CommandResult(str(error))

    async def _run_rewind(self, arguments: str) -> CommandResult:
        if not arguments:
            return CommandResult(await self._listed())
        which, *words = arguments.split()
        parts = [word for word in words if word in _PARTS]
        if len(parts) > 1 or set(words) - {*parts, _SKIP}:
            raise InvalidRequest(_USAGE, "prompt")
        files, conversation = _PARTS[parts[0]] if parts else (True, True)
        record = await self._rewind.checkpoints.find(which)
        rewound = await self._rewind.rewind(
            record.checkpoint_id, files=files, conversation=conversation, skip_conflicts=_SKIP in words
        )
        done = _SKIP in words or not rewound.conflicts
        return CommandResult(self._report(record, rewound, done=done), rewound.prompt)

    async def _run_fork(self, arguments: str) -> CommandResult:
        record = await self._rewind.checkpoints.find(arguments) if arguments else None
        forked = await self._rewind.fork(record and record.checkpoint_id)
        at = f" as it was before *{visible(record.title)}*" if record else ""
        text = f"The session{at} continues in a new one too: `{forked}`. Open it from the list of sessions."
        return CommandResult(text, forked=forked)

    async def _listed(self) -> str:
        listed = list(await self._rewind.checkpoints.list())[:MAX_LISTED]
        if not listed:
            return "There is no checkpoint yet: each prompt makes one."
        rows = [
            (
                f"{number}",
                f"`{one.record.checkpoint_id}`",
                visible(one.record.title),
                f"{one.files}",
                f"+{one.added} −{one.removed}",
            )
            for number, one in enumerate(listed, start=1)
        ]
        head = "| | checkpoint | before | files | lines |\n|--:|---|---|--:|--:|"
        table = "\n".join([head, *(f"| {' | '.join(row)} |" for row in rows)])
        return f"{table}\n\n{_HOW_TO_REWIND}"

    def _report(self, record: CheckpointRecord, rewound: Rewound, *, done: bool) -> str:
        conflicts = [f"- `{self._name(path)}` cannot go back: {reason}" for path, reason in rewound.conflicts]
        if not done:
            return "\n".join([*conflicts, "", _HOW_TO_SKIP])
        files = f"Restored: {self._names(rewound.files)}." if rewound.files else "No file was changed."
        where = f"*{visible(record.title)}*" if record.is_left else f"before *{visible(record.title)}*"
        lines = [f"Went back to {where}. {files}", *conflicts]
        if rewound.prompt is not None:
            lines += ["", "The prompt was:", *(f"> {visible(line)}" for line in text_of(rewound.prompt).split("\n"))]
        return "\n".join([*lines, "", "To undo this, send `/rewind 1`."])

    def _names(self, paths: Sequence[str]) -> str:
        return ", ".join(f"`{self._name(path)}`" for path in paths)

    def _name(self, path: str) -> str:
        return visible(str(Path(path).relative_to(self._cwd) if Path(path).is_relative_to(self._cwd) else path))
