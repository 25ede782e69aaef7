"""A client that supports Deputy declares it in `capabilities.experimental.deputy` of its `initialize` request. Each
flag stands for one feature and has its own fallback: without `permissions`, for example, the client receives permission
requests as `window/showMessageRequest`. A client that does not send this object is treated as a plain LSP client.

The server returns `serverInfo` (`name` is `deputy`), `capabilities.experimental.deputy`, and the names of its commands
in `capabilities.executeCommandProvider.commands`. `methods` and these commands are what the server supports; any other
method on this page returns error -32601. Settings are sent in `initializationOptions`, and later with
`workspace/didChangeConfiguration` in the section `deputy`. No further negotiation is needed, and the server asks the
user nothing at startup.
"""

from deputy_protocol.base import Count, Flag, Params, Wire


class ClientCapabilities(Params):
    """`capabilities.experimental.deputy` of a client."""

    protocol_version: Count = 1
    """Protocol version that the client supports."""
    events: Flag = False
    """The client handles the notification `deputy/event`."""
    permissions: Flag = False
    """The client answers the request `deputy/permission/request`."""
    input: Flag = False
    """The client answers the request `deputy/input/request`."""
    diff_preview: Flag = False
    """The client can show the old and new text of a preview as a diff."""
    diagnostics: Flag = False
    """The client answers the request `deputy/editor/diagnostics`."""
    navigation: Flag = False
    """The client answers the requests `deputy/editor/definition`, `references`, `hover` and `symbols`."""
    review: Flag = False
    """The client shows unreviewed changes itself. It gets no code lenses for them."""


class ModelInfo(Wire):
    """A model that the server offers. Clients may also request any other model by name."""

    id: str
    name: str


class ServerCapabilities(Wire):
    """`capabilities.experimental.deputy` of the server."""

    protocol_version: Count
    """Protocol version of the server."""
    methods: tuple[str, ...]
    """Names of the methods below `deputy/` that the server handles or sends."""
    definitions: tuple[str, ...]
    """Names of the agent definitions."""
    models: tuple[ModelInfo, ...]
    """Models to offer to the user."""
