"""Background processes."""

from deputy_agents.shell.background import BackgroundProcess
from deputy_protocol import process as wire_process
from deputy_protocol.base import rfc3339
from deputy_server.convert.uris import uri_of


def process_to_wire(command: BackgroundProcess) -> wire_process.ProcessInfo:
    return wire_process.ProcessInfo(
        process_id=command.process_id,
        agent_id=command.agent_id,
        command=command.text,
        cwd=uri_of(command.cwd),
        status=wire_process.ProcessStatus.RUNNING if command.code is None else wire_process.ProcessStatus.EXITED,
        started_at=rfc3339(command.started_at),
        ended_at=None if command.ended_at is None else rfc3339(command.ended_at),
        exit_code=command.code,
    )
