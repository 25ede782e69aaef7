"""Handlers of ``deputy/checkpoint/*``, ``deputy/session/rewind`` and ``deputy/session/fork``, and of their commands."""

from pathlib import Path

from anyio import to_thread

from deputy_agents.session.rewind import Rewound
from deputy_agents.session.session import Session
from deputy_agents.text import visible
from deputy_protocol.checkpoint import (
    CheckpointListResult,
    CheckpointParams,
    CheckpointPreviewResult,
    OnConflict,
    SessionForkParams,
    SessionRewindParams,
    SessionRewindResult,
)
from deputy_protocol.session import SessionNewResult, SessionParams
from deputy_server.convert.checkpoint import checkpoints_to_wire, plan_to_wire, rewound_to_wire
from deputy_server.lsp.connection import Connection
from deputy_server.rpc.endpoint import Response


async def list_checkpoints(connection: Connection, params: SessionParams) -> CheckpointListResult:
    checkpoints = (await connection.session(params.session_id)).rewind.checkpoints
    return checkpoints_to_wire(await checkpoints.list(), checkpoints.coverage.notes)


async def preview(connection: Connection, params: CheckpointParams) -> CheckpointPreviewResult:
    session = await connection.session(params.session_id)
    return await to_thread.run_sync(plan_to_wire, await session.rewind.plan(params.checkpoint_id))


async def rewind(connection: Connection, params: SessionRewindParams) -> SessionRewindResult:
    session = await connection.session(params.session_id)
    return rewound_to_wire(await _rewind(session, params))


async def rewind_command(connection: Connection, params: SessionRewindParams) -> SessionRewindResult:
    session = await connection.session(params.session_id)
    rewound = await _rewind(session, params)
    if not connection.client.events:
        connection.window.show(_message(rewound, Path(session.record.cwd)))
    return rewound_to_wire(rewound)


async def _rewind(session: Session, params: SessionRewindParams) -> Rewound:
    skip = params.on_conflict is OnConflict.SKIP
    return await session.rewind.rewind(
        params.checkpoint_id, files=params.files, conversation=params.conversation, skip_conflicts=skip
    )


def _message(rewound: Rewound, cwd: Path) -> str:
    """The result for a client that does not show it itself."""

    def name(path: str) -> str:
        return visible(str(Path(path).relative_to(cwd) if Path(path).is_relative_to(cwd) else path))

    restored = f"Restored: {', '.join(map(name, rewound.files))}" if rewound.files else "No file was changed."
    return "\n".join([restored, *(f"Left unchanged: {name(path)}. {reason}" for path, reason in rewound.conflicts)])


async def fork(connection: Connection, params: SessionForkParams) -> Response[SessionNewResult]:
    runtime, folders = connection.app.runtime, connection.folders
    cwd = Path((await runtime.record(params.session_id)).cwd)
    session = await runtime.fork(
        connection.setup.settings,
        params.session_id,
        params.checkpoint_id,
        roots=await folders.roots_of(cwd),
        buffers=connection.shared_buffers(),
    )
    folders.latest[cwd] = session.id
    feed = connection.subscriptions.add(session, after=0)
    result = SessionNewResult(session_id=session.id, agent_id=session.primary_id)
    return Response(result, lambda: feed.start(connection.tasks))
