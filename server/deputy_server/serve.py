"""``deputy serve``: its own small command line, as importing the big one costs more than starting the server."""

import argparse
import gc
import os
from collections.abc import Sequence
from pathlib import Path

from deputy_agents.domain.errors import InvalidRequest
from deputy_server.serve_options import Endpoint, Options, Transport


def main(arguments: Sequence[str]) -> int:
    """Serves as told by ``arguments``; the exit code of the process."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        options = _options(given)
    except InvalidRequest as error:
        parser.error(str(error))
    if problem := options.problem():
        parser.error(problem)
    # Importing makes many objects and no garbage; collecting meanwhile costs a fifth of the start-up.
    gc.disable()
    import anyio

    from deputy_server.lsp import light

    light.load()
    if options.endpoint is None:
        from deputy_server.lsp.stdio import serve
    else:
        from deputy_server.lsp.sockets import serve

    gc.freeze()
    gc.enable()
    return anyio.run(serve, options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="deputy serve", description="Serve language clients.")
    carriers = parser.add_mutually_exclusive_group()
    carriers.add_argument(
        "--stdio", action="store_true", help="one client, over standard input and output (the default)"
    )
    carriers.add_argument("--tcp", metavar="[HOST:]PORT", help="clients of this machine that connect by TCP")
    carriers.add_argument("--ws", metavar="[HOST:]PORT", help="clients of this machine that connect by WebSocket")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="what clients of --tcp and --ws must know; else it is taken from DEPUTY_TOKEN, or made up and printed",
    )
    parser.add_argument("--record", metavar="FILE", help="write what is said to models and by them to a new file")
    parser.add_argument("--replay", metavar="FILE", help="answer from such a file, in place of a model")
    return parser


def _options(given: argparse.Namespace) -> Options:
    """Raises InvalidRequest: they cannot be followed."""
    record, replay = (Path(name) if name else None for name in (given.record, given.replay))
    carried = {Transport.TCP: given.tcp, Transport.WEBSOCKET: given.ws}
    endpoint = next((Endpoint.read(kind, text) for kind, text in carried.items() if text is not None), None)
    if endpoint is None and given.token_file is not None:
        raise InvalidRequest("--token-file is for --tcp and --ws")
    if endpoint is None:
        return Options(record, replay)
    if given.token_file is not None:
        return Options(record, replay, endpoint, _read_token(given.token_file))
    return Options(record, replay, endpoint, os.environ.get("DEPUTY_TOKEN", "").strip())


def _read_token(name: str) -> str:
    try:
        token = Path(name).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise InvalidRequest(f"--token-file: {name} cannot be read") from None
    if len(token.split()) != 1:
        raise InvalidRequest(f"--token-file: {name} must hold one token, and nothing else")
    return token
