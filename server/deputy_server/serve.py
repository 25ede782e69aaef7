"""``deputy serve``. It has its own small command line, because importing the full one takes longer than starting the
server."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from deputy_agents.collector import collector_paused
from deputy_agents.domain.errors import InvalidRequest
from deputy_server.at_terminal import explain
from deputy_server.serve_options import Address, ServeOptions, Transport


def main(arguments: Sequence[str]) -> int:
    """Run the server until it ends. Return the exit code of the process."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        options = _options(given)
    except InvalidRequest as error:
        parser.error(str(error))
    if problem := options.problem():
        parser.error(problem)
    if options.address is None:
        explain("serve", "any-editor")
    with collector_paused():  # a collection would take a fifth of the startup time
        import anyio

        from deputy_server.lsp import fast_lsprotocol

        fast_lsprotocol.load()
        if options.address is None:
            from deputy_server.lsp.stdio import serve
        else:
            from deputy_server.lsp.sockets import serve
    return anyio.run(serve, options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="deputy serve", description="Run the language server.")
    transports = parser.add_mutually_exclusive_group()
    transports.add_argument(
        "--stdio", action="store_true", help="serve one client over standard input and output (default)"
    )
    transports.add_argument("--tcp", metavar="[HOST:]PORT", help="serve clients on this machine over TCP")
    transports.add_argument("--ws", metavar="[HOST:]PORT", help="serve clients on this machine over WebSocket")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="file with the token that clients of --tcp and --ws must send; "
        "without it the token is DEPUTY_TOKEN, or is generated and printed",
    )
    parser.add_argument("--record", metavar="FILE", help="record model requests and responses to a new file")
    parser.add_argument("--replay", metavar="FILE", help="replay a recorded file instead of calling a model")
    return parser


def _options(given: argparse.Namespace) -> ServeOptions:
    """
    Raises:
        InvalidRequest: an option is invalid.
    """
    record, replay = (Path(name) if name else None for name in (given.record, given.replay))
    addresses = {Transport.TCP: given.tcp, Transport.WEBSOCKET: given.ws}
    address = next((Address.read(kind, text) for kind, text in addresses.items() if text is not None), None)
    if address is None and given.token_file is not None:
        raise InvalidRequest("--token-file requires --tcp or --ws")
    if address is None:
        return ServeOptions(record, replay)
    if given.token_file is not None:
        return ServeOptions(record, replay, address, _read_token(given.token_file))
    return ServeOptions(record, replay, address, os.environ.get("DEPUTY_TOKEN", "").strip())


def _read_token(name: str) -> str:
    try:
        token = Path(name).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise InvalidRequest(f"--token-file: {name} cannot be read") from None
    if len(token.split()) != 1:
        raise InvalidRequest(f"--token-file: {name} must contain exactly one token")
    return token
