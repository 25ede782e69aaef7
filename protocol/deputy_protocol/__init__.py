"""The wire contract between Deputy and its clients, as code.

Deputy speaks LSP 3.17 or later over stdio, TCP or WebSocket, and adds the methods below `deputy/` that this page
describes.

Over TCP (framed as over stdio) and WebSocket (one message per text frame, without headers), several clients on the same
machine can share a server. Each client first presents the server's token: in `initializationOptions.token` over TCP, as
`Authorization: Bearer` over WebSocket. A wrong token ends the connection. Each client has its own documents and
capabilities. Sessions and settings are shared: settings sent by one client apply to all. `exit` ends only the
connection.

Field names are camelCase, times are RFC 3339 strings in UTC, ids are opaque strings, and paths are `file:` URIs.
Positions and ranges are those of LSP: counted from 0, in the negotiated position encoding. Where the Agent Client
Protocol has a concept, Deputy uses its names and enum values; the tool status `cancelled` is Deputy's addition.

Both sides ignore unknown fields. Within version 1, fields, methods and enum values may be added; none is renamed or
removed. An absent field and a `null` field mean the same, unless the field's type includes `null`.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from deputy_protocol import agent as agent
    from deputy_protocol import base as base
    from deputy_protocol import checkpoint as checkpoint
    from deputy_protocol import command as command
    from deputy_protocol import context as context
    from deputy_protocol import definition as definition
    from deputy_protocol import editor as editor
    from deputy_protocol import event as event
    from deputy_protocol import metrics as metrics
    from deputy_protocol import model as model
    from deputy_protocol import permission as permission
    from deputy_protocol import process as process
    from deputy_protocol import review as review
    from deputy_protocol import rule as rule
    from deputy_protocol import session as session
    from deputy_protocol import transcript as transcript
    from deputy_protocol import user_input as user_input

PROTOCOL_VERSION: Final = 1
"""Both sides send it in their capabilities; see `capabilities`."""

_PAYLOADS = frozenset(
    {
        "agent",
        "base",
        "checkpoint",
        "command",
        "context",
        "definition",
        "editor",
        "event",
        "metrics",
        "model",
        "permission",
        "process",
        "review",
        "rule",
        "session",
        "transcript",
        "user_input",
    }
)


def __getattr__(name: str) -> ModuleType:
    # Importing the payloads takes milliseconds and startup needs only method names, so each module is imported on
    # first access.
    if name in _PAYLOADS:
        return import_module(f"deputy_protocol.{name}")
    raise AttributeError(name)
