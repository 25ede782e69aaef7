"""The command ``deputy``. Serving is what editors wait for, so it starts without the command line's machinery."""

import sys


def main() -> None:
    """Entry point of ``deputy`` and ``python -P -m deputy_server``."""
    if sys.argv[1:2] == ["serve"]:
        from deputy_server.serve import main as serve

        sys.exit(serve(sys.argv[2:]))
    from deputy_server.cli import app

    app()


if __name__ == "__main__":
    if not sys.flags.safe_path:
        # `python -m` looks for modules in the current folder first, which is the user's workspace: nothing that lies
        # there may be imported later on in place of our own.
        del sys.path[0]
    main()
