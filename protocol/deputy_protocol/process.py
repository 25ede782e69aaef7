"""A background process is a shell command that an agent started with `background`. It continues to run while the agent
works. When it ends, the agent is notified as at the end of a background task."""

from enum import StrEnum

from pydantic import StrictInt

from deputy_protocol.base import Flag, Params, Wire


class ProcessStatus(StrEnum):
    """State of a background process."""

    RUNNING = "running"
    EXITED = "exited"


class ProcessInfo(Wire):
    """A background process."""

    process_id: str
    agent_id: str
    """The agent that started it."""
    command: str
    cwd: str
    """URI of the folder in which it runs."""
    status: ProcessStatus
    started_at: str
    ended_at: str | None = None
    exit_code: StrictInt | None = None
    """Negative when a signal ended the process; absent while it runs."""


class ProcessListResult(Wire):
    """The background processes of a session."""

    processes: tuple[ProcessInfo, ...]


class ProcessStopParams(Params):
    """The background process to stop."""

    session_id: str
    process_id: str


class ProcessStopResult(Wire):
    """The result of stopping a process. It arrives when the process and its child processes have ended."""

    stopped: Flag
    """False when the process had already ended."""
