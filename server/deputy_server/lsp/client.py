"""The client's identity and capabilities from ``initialize``.

A capability that is missing or invalid counts as unsupported, and never fails the request. Reading only what Deputy
uses is also much faster than structuring all of LSP's capabilities.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lsprotocol import types
from pygls.uris import from_fs_path

from deputy_protocol.errors import InvalidParams
from deputy_server.convert.uris import local_path
from deputy_server.rpc.json import dig, is_object, items

_ENCODINGS = tuple(kind.value for kind in types.PositionEncodingKind)


@dataclass(frozen=True, slots=True)
class Client:
    """A client's identity and capabilities. ``process_id`` is the editor's, if the client sent it."""

    name: str = ""
    process_id: int | None = None
    folders: tuple[types.WorkspaceFolder, ...] = ()
    position_encoding: str = types.PositionEncodingKind.Utf16.value
    work_done_progress: bool = False
    apply_edit: bool = False
    document_changes: bool = False
    show_document: bool = False
    """It opens documents on request."""
    lens_refresh: bool = False
    """It reloads code lenses on request."""
    action_literals: bool = False
    """It accepts code actions that are not plain commands."""
    delete_files: bool = False
    """It deletes files as part of an edit."""
    change_annotations: bool = False
    """It shows the labels of edits."""
    events: bool = False
    """It accepts ``deputy/event``."""
    permissions: bool = False
    """It answers ``deputy/permission/request``."""
    input: bool = False
    """It answers ``deputy/input/request``."""
    diagnostics: bool = False
    """It answers ``deputy/editor/diagnostics``."""
    navigation: bool = False
    """It answers ``deputy/editor/definition`` and the other navigation requests."""
    review: bool = False
    """It shows unreviewed hunks itself."""
    trace: types.TraceValue = types.TraceValue.Off
    """The initial level of ``$/logTrace``."""
    options: object = None
    """``initializationOptions`` as received."""


def read_client(params: object) -> Client:
    """Read the parameters of ``initialize``.

    Raises:
        InvalidParams: the parameters or their ``capabilities`` are not an object.
    """
    if not is_object(params):
        raise InvalidParams([("", "must be an object")])
    capabilities = dig(params, "capabilities")
    if not is_object(capabilities):
        raise InvalidParams([("capabilities", "must be an object")])
    deputy = dig(capabilities, "experimental", "deputy")
    edits = dig(capabilities, "workspace", "workspaceEdit")
    pid = dig(params, "processId")
    name = dig(params, "clientInfo", "name")
    return Client(
        name=name if isinstance(name, str) else "",
        process_id=pid if isinstance(pid, int) and not isinstance(pid, bool) and pid > 0 else None,
        folders=_folders(params),
        position_encoding=_encoding(dig(capabilities, "general", "positionEncodings")),
        work_done_progress=dig(capabilities, "window", "workDoneProgress") is True,
        apply_edit=dig(capabilities, "workspace", "applyEdit") is True,
        document_changes=dig(edits, "documentChanges") is True,
        show_document=dig(capabilities, "window", "showDocument", "support") is True,
        lens_refresh=dig(capabilities, "workspace", "codeLens", "refreshSupport") is True,
        action_literals=is_object(dig(capabilities, "textDocument", "codeAction", "codeActionLiteralSupport")),
        delete_files="delete" in items(dig(edits, "resourceOperations")),
        change_annotations=is_object(dig(edits, "changeAnnotationSupport")),
        events=dig(deputy, "events") is True,
        permissions=dig(deputy, "permissions") is True,
        input=dig(deputy, "input") is True,
        diagnostics=dig(deputy, "diagnostics") is True,
        navigation=dig(deputy, "navigation") is True,
        review=dig(deputy, "review") is True,
        trace=_trace(dig(params, "trace")),
        options=dig(params, "initializationOptions"),
    )


def _encoding(offered: object) -> str:
    """Return the first supported encoding that the client offers; LSP's default is UTF-16."""
    known = (name for name in items(offered) if isinstance(name, str) and name in _ENCODINGS)
    return next(known, types.PositionEncodingKind.Utf16.value)


def _trace(value: object) -> types.TraceValue:
    return next((kind for kind in types.TraceValue if kind.value == value), types.TraceValue.Off)


def _folders(params: object) -> tuple[types.WorkspaceFolder, ...]:
    """Return the workspace folders; older clients send one root instead."""
    listed = [dig(folder, "uri") for folder in items(dig(params, "workspaceFolders"))]
    uris = [uri for uri in listed or [_root(params)] if isinstance(uri, str)]
    return tuple(types.WorkspaceFolder(uri, uri.rsplit("/", 1)[-1]) for uri in uris)


def _root(params: object) -> object:
    path = dig(params, "rootPath")
    return dig(params, "rootUri") or (from_fs_path(path) if isinstance(path, str) else None)


def local_paths(uris: Sequence[str]) -> tuple[Path, ...]:
    """Return the existing local folders among ``uris``, with symlinks resolved and without duplicates."""
    paths = (path for uri in uris if (path := local_path(uri)) is not None)
    return tuple(dict.fromkeys(path for path in paths if os.path.isdir(path)))  # noqa: PTH112 - this one never raises
