"""``deputy serve``: its own small command line, as importing the big one costs more than starting the server."""

import argparse
import gc
from collections.abc import Sequence
from pathlib import Path

from deputy_server.options import Options


def main(arguments: Sequence[str]) -> int:
    """Serves as told by ``arguments``; the exit code of the process."""
    parser = argparse.ArgumentParser(prog="deputy serve", description="Serve a language client.")
    parser.add_argument("--stdio", action="store_true", help="over standard input and output (the default)")
    parser.add_argument("--record", metavar="FILE", help="write what is said to models and by them to a new file")
    parser.add_argument("--replay", metavar="FILE", help="answer from such a file, in place of a model")
    given = parser.parse_args(arguments)
    options = Options(*(Path(name) if name else None for name in (given.record, given.replay)))
    if problem := options.problem():
        parser.error(problem)
    # Importing makes many objects and no garbage; collecting meanwhile costs a fifth of the start-up.
    gc.disable()
    import anyio

    from deputy_server.lsp import light

    light.load()
    from deputy_server.lsp.stdio import serve

    gc.freeze()
    gc.enable()
    return anyio.run(serve, options)
