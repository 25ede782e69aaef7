"""The wire contract between Deputy and editors, as code.

Deputy speaks LSP 3.17 and later over stdio, TCP or WebSocket, and adds methods below `deputy/`. What is marked as not
in this version is agreed upon, and the server does not have it yet.

Over TCP (framed as over stdio) and WebSocket (one message in each text frame, without headers) several clients of the
same machine share a server. A client shows the server's token first: in `initializationOptions.token` over TCP, as
`Authorization: Bearer` over WebSocket; a wrong one ends the connection. Each has its own documents and abilities.
Sessions and settings are the server's: settings that one client sends hold for all. `exit` ends the connection alone.

Field names are camelCase, times are RFC 3339 strings in UTC, ids are opaque strings, and every path is a `file:` URI.
Positions and ranges are those of LSP, counted from 0 in the position encoding that was negotiated. Where the Agent
Client Protocol has the concept, names and enum values are its own; the tool status `cancelled` is Deputy's addition.

Unknown fields are ignored, in both directions. Within version 1 fields, methods and enum values may be added, and none
is renamed or dropped. A field that is absent and one that is `null` mean the same, unless its type names `null`.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from deputy_protocol import agent as agent
    from deputy_protocol import base as base
    from deputy_protocol import command as command
    from deputy_protocol import context as context
    from deputy_protocol import definition as definition
    from deputy_protocol import editor as editor
    from deputy_protocol import event as event
    from deputy_protocol import metrics as metrics
    from deputy_protocol import permission as permission
    from deputy_protocol import process as process
    from deputy_protocol import rule as rule
    from deputy_protocol import session as session
    from deputy_protocol import transcript as transcript

PROTOCOL_VERSION: Final = 1
"""Sent by both sides in their capabilities; see `capabilities`."""

_PAYLOADS = frozenset(
    {
        "agent",
        "base",
        "command",
        "context",
        "definition",
        "editor",
        "event",
        "metrics",
        "permission",
        "process",
        "rule",
        "session",
        "transcript",
    }
)


def __getattr__(name: str) -> ModuleType:
    # Payloads cost milliseconds to import, and start-up needs only the names in the table of methods: a module comes
    # when something in it is first asked for.
    if name in _PAYLOADS:
        return import_module(f"deputy_protocol.{name}")
    raise AttributeError(name)
