"""The command ``deputy``. Editors wait for ``serve`` and ``acp`` to start, so these skip the full command line."""

import os
import sys


def main() -> None:
    """Entry point of ``deputy`` and ``python -P -m deputy_server``."""
    _open_streams()
    if sys.argv[1:2] == ["serve"]:
        from deputy_server.serve import main as serve

        sys.exit(serve(sys.argv[2:]))
    if sys.argv[1:] == ["acp"]:  # only without options, which the full command line parses
        from deputy_server.acp.serve import main as serve_acp

        sys.exit(serve_acp())
    for stream in (sys.stdout, sys.stderr):  # output of agents may have characters that the locale cannot encode
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    from deputy_server.cli.app import app

    try:
        app()
    except OSError as error:  # for example, the disk is full
        from deputy_server.terminal.output import discard

        discard(sys.stdout.fileno())
        where = f": {error.filename}" if error.filename else ""
        sys.exit(f"deputy: {(error.strerror or type(error).__name__).lower()}{where}")


def _open_streams() -> None:
    """Open the standard streams that the caller closed. Otherwise the next file to be opened would get the descriptor
    of one, and output would be written to that file."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


if __name__ == "__main__":
    if not sys.flags.safe_path:
        # `python -m` searches the current folder first. That is the user's workspace, and its modules must not be
        # imported instead of ours.
        del sys.path[0]
    main()
