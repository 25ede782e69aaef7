"""Gives agents the facts of their project: all of them with the first prompt, what has changed with later ones.

They are part of the messages and not of the system prompt: what was sent once stays the same, so the provider's prompt
cache stays valid.
"""

import logging
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.message import Text
from deputy_agents.files.workspace import Workspace
from deputy_agents.ports.clock import Clock
from deputy_agents.project.facts import Facts, describe, describe_changes
from deputy_agents.project.git_state import branch_at, git_state
from deputy_agents.project.layout import Layout, layout_of
from deputy_agents.tool.ripgrep import list_files

logger = logging.getLogger(__name__)

WAIT: Final = 0.3
"""Seconds that a prompt waits for the facts. What is not known by then is left out."""
_LIMIT: Final = 5.0
"""Seconds for collecting them."""


class Briefing:
    """The facts about ``folder``, the folder of a session. :meth:`collect` reads those of Git and of the disk once."""

    def __init__(self, workspace: Workspace, folder: Path, clock: Clock) -> None:
        self._workspace = workspace
        self._clock = clock
        self._facts = Facts(self._today(), folder)
        self._given: Facts | None = None
        """What the primary agent knows, since the session was opened."""
        self._collected = anyio.Event()

    async def collect(self) -> None:
        """Runs once, beside the session."""
        try:
            if not self._workspace.is_empty:
                with anyio.move_on_after(_LIMIT):
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(self._read_git)
                        tasks.start_soon(self._read_layout)
        finally:
            self._collected.set()

    async def for_prompt(self) -> tuple[Text, ...]:
        """What the primary agent must receive with its next prompt: nothing if it knows everything."""
        with anyio.move_on_after(WAIT):
            await self._collected.wait()
        await to_thread.run_sync(self._update)
        before, self._given = self._given, self._facts
        text = describe(self._facts) if before is None else describe_changes(before, self._facts)
        return (Text(text),) if text else ()

    def for_task(self) -> tuple[Text, ...]:
        """What a sub-agent receives with its task."""
        return (Text(describe(self._facts)),)

    async def _read_git(self) -> None:
        git = await git_state(self._facts.folder)
        self._facts = replace(self._facts, git=git)

    async def _read_layout(self) -> None:
        layout = await self._layout()
        self._facts = replace(self._facts, layout=layout)

    async def _layout(self) -> Layout | None:
        try:
            place = await self._workspace.locate(".", self._facts.folder)
            async with self._workspace.working_directory(place) as folder:
                listing = await list_files(folder)
        except (OSError, ToolError) as error:
            logger.info("the files below %s cannot be listed: %s", self._facts.folder, error)
            return None
        return await to_thread.run_sync(layout_of, listing)

    def _update(self) -> None:
        git = self._facts.git
        if git is not None and git.head is not None:
            git = replace(git, branch=branch_at(git.head))
        self._facts = replace(self._facts, today=self._today(), git=git)

    def _today(self) -> date:
        return datetime.fromtimestamp(self._clock.time(), UTC).astimezone().date()
