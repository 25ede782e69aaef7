"""What a client says about itself in ``initialize``, read leniently: what is not there or not understood it cannot."""

from dataclasses import dataclass

from deputy_server.rpc.json import dig, is_object


@dataclass(frozen=True, slots=True)
class Client:
    """A client's abilities."""

    subagents: bool = False
    """It shows children as sessions of their own."""
    notices: bool = False
    """It shows what the user has to know beside the conversation."""
    reads_files: bool = False
    """It gives files as the editor has them, unsaved text included."""
    writes_files: bool = False


def read_client(params: object) -> Client:
    """The client behind the parameters of ``initialize``."""
    able = dig(params, "clientCapabilities")
    return Client(
        subagents=is_object(dig(able, "subagents")),
        notices=is_object(dig(able, "session", "notices")),
        reads_files=dig(able, "fs", "readTextFile") is True,
        writes_files=dig(able, "fs", "writeTextFile") is True,
    )
