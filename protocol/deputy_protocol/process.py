"""Commands that agents run in the background."""

from enum import StrEnum

from pydantic import StrictInt

from deputy_protocol.base import Flag, Params, Wire


class ProcessStatus(StrEnum):
    """State of a process."""

    RUNNING = "running"
    EXITED = "exited"


class ProcessInfo(Wire):
    """A background command."""

    process_id: str
    agent_id: str
    command: str
    cwd: str
    """URI of its folder."""
    status: ProcessStatus
    started_at: str
    ended_at: str | None = None
    exit_code: StrictInt | None = None
    """Negative when a signal ended it; absent while it runs."""


class ProcessListResult(Wire):
    """Background commands of a session."""

    processes: tuple[ProcessInfo, ...]


class ProcessStopParams(Params):
    """Which process."""

    session_id: str
    process_id: str


class ProcessStopResult(Wire):
    """Answered when the process and its children are gone."""

    stopped: Flag
    """False when it had ended before."""
