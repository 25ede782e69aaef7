"""Handler of document links: the locations that a transcript names."""

from collections.abc import AsyncIterator
from itertools import islice
from pathlib import Path

from deputy_agents.domain.errors import ToolError
from deputy_agents.editor.references import Reference, references_at
from deputy_agents.files.place import PathKind
from deputy_agents.session.session import Session
from deputy_protocol.validate import parse
from deputy_server.convert.uris import uri_of
from deputy_server.lsp.connection import Connection
from deputy_server.lsp.documents import Document
from deputy_server.lsp.text_params import DocumentParams
from deputy_server.rpc.json import JsonObject

MAX_LINKS = 500
"""Links of one document."""


async def document_links(connection: Connection, raw: object) -> object:
    document = connection.documents.named(parse(DocumentParams, raw).text_document.uri)
    if document is None:
        return []
    file = connection.transcript_at(document)
    if file is None or not isinstance(file.reading, Session):
        return []
    info = file.reading.view.agents[file.agent_id].info
    cwd = Path(info.cwd or file.reading.record.cwd)
    return [link async for link in _links(document, file.reading, cwd)]


async def _links(document: Document, session: Session, cwd: Path) -> AsyncIterator[JsonObject]:
    """Links to the named locations that are files of the workspace."""
    targets: dict[str, str | None] = {}
    for reference, start, end in islice(references_at(document.source), MAX_LINKS):
        if reference.path not in targets:
            targets[reference.path] = await _target(session, reference.path, cwd)
        if (target := targets[reference.path]) is not None:
            yield {"range": document.range_of(start, end), "target": target + _anchor(reference)}


async def _target(session: Session, path: str, cwd: Path) -> str | None:
    try:
        place = await session.workspace.locate(path, cwd)
    except ToolError:
        return None
    return uri_of(str(place.path)) if place.kind is PathKind.FILE else None


def _anchor(reference: Reference) -> str:
    return f"#L{reference.start}" + ("" if reference.end is None else f"-L{reference.end}")
