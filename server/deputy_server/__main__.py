"""The command ``deputy``. Serving is what editors wait for, so it starts without the command line's machinery."""

import os
import sys


def main() -> None:
    """Entry point of ``deputy`` and ``python -P -m deputy_server``."""
    _open_streams()
    if sys.argv[1:2] == ["serve"]:
        from deputy_server.serve import main as serve

        sys.exit(serve(sys.argv[2:]))
    if sys.argv[1:] == ["acp"]:  # the same; with options it is not as quick
        from deputy_server.acp.serve import main as serve_acp

        sys.exit(serve_acp())
    for stream in (sys.stdout, sys.stderr):  # whatever letters the locale knows: what agents say has all of them
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    from deputy_server.cli.app import app

    try:
        app()
    except OSError as error:  # the disk that the output goes to is full, for example
        from deputy_server.terminal.output import discard

        discard(sys.stdout.fileno())
        where = f": {error.filename}" if error.filename else ""
        sys.exit(f"deputy: {(error.strerror or type(error).__name__).lower()}{where}")


def _open_streams() -> None:
    """Opens what the caller has closed of the standard streams. The next file to be opened would get the number of one,
    and what is printed would go into it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


if __name__ == "__main__":
    if not sys.flags.safe_path:
        # `python -m` looks for modules in the current folder first, which is the user's workspace: nothing that lies
        # there may be imported later on in place of our own.
        del sys.path[0]
    main()
