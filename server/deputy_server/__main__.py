"""The command ``deputy``. Serving is what editors wait for, so it starts without the command line's machinery."""

import sys


def main() -> None:
    """Entry point of ``deputy`` and ``python -P -m deputy_server``."""
    if sys.argv[1:2] == ["serve"]:
        from deputy_server.serve import main as serve

        sys.exit(serve(sys.argv[2:]))
    if sys.argv[1:] == ["acp"]:  # the same; with options it is not as quick
        from deputy_server.acp.serve import main as serve_acp

        sys.exit(serve_acp())
    from deputy_server.cli import app

    app()


if __name__ == "__main__":
    if not sys.flags.safe_path:
        # `python -m` looks for modules in the current folder first, which is the user's workspace: nothing that lies
        # there may be imported later on in place of our own.
        del sys.path[0]
    main()
