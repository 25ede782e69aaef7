"""The client's capabilities from ``initialize``. A capability that is missing or invalid counts as unsupported."""

from dataclasses import dataclass

from deputy_server.rpc.json import dig, is_object


@dataclass(frozen=True, slots=True)
class Client:
    """A client's capabilities."""

    subagents: bool = False
    """It shows sub-agents as sessions."""
    notices: bool = False
    """It shows messages to the user outside the conversation."""
    fills_forms: bool = False
    """It shows forms to the user."""
    opens_urls: bool = False
    """It shows URLs to the user and opens them."""
    reads_files: bool = False
    """It returns files as the editor has them, with unsaved changes."""
    writes_files: bool = False


def read_client(params: object) -> Client:
    """Read the parameters of ``initialize``."""
    capabilities = dig(params, "clientCapabilities")
    return Client(
        subagents=is_object(dig(capabilities, "subagents")),
        notices=is_object(dig(capabilities, "session", "notices")),
        fills_forms=is_object(dig(capabilities, "elicitation", "form")),
        opens_urls=is_object(dig(capabilities, "elicitation", "url")),
        reads_files=dig(capabilities, "fs", "readTextFile") is True,
        writes_files=dig(capabilities, "fs", "writeTextFile") is True,
    )
