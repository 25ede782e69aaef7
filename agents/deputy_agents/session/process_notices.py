"""Notices for agents about background processes that have ended."""

import json

from deputy_agents.domain.event import StatusChanged
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.run.effect import Notice
from deputy_agents.run.host import Host, emit
from deputy_agents.session.roster import Roster
from deputy_agents.session.supervisor import Supervisor
from deputy_agents.session.turn_scheduler import TurnScheduler
from deputy_agents.shell.background import BackgroundProcess, EndedBy, process_state, signal_name
from deputy_agents.text import cut, visible

OUTPUT_LINES = 20
"""Last lines of the output that a notice has."""
OUTPUT_CHARS = 2000
"""Last characters of the output that a notice has."""

MAX_SHOWN = 200
"""Characters of a command that the user sees."""

_OUTPUT_BYTES = 4 * OUTPUT_CHARS

_CAUSES = {
    EndedBy.TIMEOUT: "It reached its timeout.",
    EndedBy.USER: "The user stopped it.",
    EndedBy.OTHER_AGENT: "Another agent stopped it.",
    EndedBy.RUN_END: "It was stopped because the sub-agent that had started it has ended.",
}


class ProcessNotices:
    """Notifies the agent that started a process when it ends; the primary agent, if that agent has ended."""

    def __init__(self, host: Host, supervisor: Supervisor, roster: Roster, turns: TurnScheduler) -> None:
        self._host = host
        self._supervisor = supervisor
        self._roster = roster
        self._turns = turns

    def ended(self, process: BackgroundProcess) -> None:
        """Notifies an agent of the end of ``process``. If nobody has stopped it and the primary agent is idle, the user
        sees it too, and a turn starts as at the end of a background task."""
        if process.ended_by is EndedBy.STARTER or self._turns.closed:
            return
        primary_id = self._roster.primary_id
        driver = self._supervisor.drivers.get(process.agent_id)
        if driver is None or (driver.agent.is_child and driver.stopping):
            driver = self._supervisor.drivers[primary_id]
        driver.feed(Notice(self._text(process, driver.agent.id), process.process_id))
        if process.agent_id == primary_id and process.ended_by in (EndedBy.ITSELF, EndedBy.TIMEOUT):
            if self._turns.running is None:
                emit(self._host, driver.agent, StatusChanged(AgentStatus.IDLE, detail=_for_user(process)))
            self._turns.task_ended()

    def _text(self, process: BackgroundProcess, reader_id: str) -> str:
        """``{process_id, command, cwd, status, exit_code, signal?, sub_agent?, cause?, output}``, as the tool
        ``process`` returns it, with the end of the output."""
        fields = process_state(process)
        if process.agent_id != reader_id:
            fields["sub_agent"] = self._roster.agent(process.agent_id).info.label
        if process.ended_by in _CAUSES:
            fields["cause"] = _CAUSES[process.ended_by]
        fields["output"] = _end(self._host.background_processes.output(process.process_id, _OUTPUT_BYTES))
        return json.dumps(fields, ensure_ascii=False)


def _end(output: str) -> str:
    lines = output.rstrip("\n").split("\n")
    text = "\n".join(lines[-OUTPUT_LINES:])
    omitted = len(lines) > OUTPUT_LINES or len(text) > OUTPUT_CHARS
    return f"[…] {text[-OUTPUT_CHARS:]}" if omitted else text


def _for_user(process: BackgroundProcess) -> str:
    code = process.code or 0
    how = f"exit code {code}" if code >= 0 else f"signal {signal_name(-code)}"
    if process.ended_by is EndedBy.TIMEOUT:
        how = "timeout"
    return f"background process ended ({how}): {cut(visible(process.text.strip()), MAX_SHOWN)}"
