"""A client that knows Deputy says so in `capabilities.experimental.deputy` of its `initialize` request. Each flag
stands for a part that the client handles, and falls back alone: a client without `permissions`, for instance, gets its
questions by `window/showMessageRequest`. Without the object the client is a plain LSP client.

The server answers with `serverInfo` (`name` is `deputy`), `capabilities.experimental.deputy` and the names of its
commands in `capabilities.executeCommandProvider.commands`. Its `methods` and commands are what this server has: a
method of this page that is not among them is answered with error -32601. Settings come in `initializationOptions`, and
later by `workspace/didChangeConfiguration` in the section `deputy`. Nothing else needs to be agreed upon, and no
question is asked of the user at start.
"""

from deputy_protocol.base import Count, Flag, Params, Wire


class ClientCapabilities(Params):
    """`capabilities.experimental.deputy` of a client."""

    protocol_version: Count = 1
    events: Flag = False
    """It handles the notification `deputy/event`."""
    permissions: Flag = False
    """It answers the request `deputy/permission/request`."""
    diff_preview: Flag = False
    """It can show the old and new text of a preview itself."""
    diagnostics: Flag = False
    """It answers the request `deputy/editor/diagnostics`."""
    navigation: Flag = False
    """It answers the requests `deputy/editor/definition`, `references`, `hover` and `symbols`."""


class ModelInfo(Wire):
    """A model that the server offers. Any other name may be asked for as well."""

    id: str
    name: str


class ServerCapabilities(Wire):
    """`capabilities.experimental.deputy` of the server."""

    protocol_version: Count
    methods: tuple[str, ...]
    """Names of the methods below `deputy/` that this server answers or sends."""
    definitions: tuple[str, ...]
    """Names of the agent definitions."""
    models: tuple[ModelInfo, ...]
