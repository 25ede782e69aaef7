"""The command ``deputy``. Editors wait for ``serve`` and ``acp`` to start, so these skip the full command line."""

import os
import sys
from collections.abc import Iterator


def main() -> None:
    """Entry point of ``deputy`` and ``python -P -m deputy_server``."""
    if sys.platform == "win32":  # owning and ending processes is POSIX throughout
        sys.exit("Deputy does not run on Windows itself. Install and start it in WSL, the Windows Subsystem for Linux.")
    if sys.argv[1:] == ["--version"]:  # editors look at it before they start a server
        from deputy_protocol.version import VERSION

        sys.stdout.write(f"deputy {VERSION}\n")
        return
    from deputy_agents.shell.hidden_memory import hide_memory  # late, because `python -m` has to fix the path first

    _open_streams()
    hide_memory()
    if sys.argv[1:2] == ["serve"]:
        from deputy_server.serve import main as serve

        sys.exit(serve(sys.argv[2:]))
    if sys.argv[1:] == ["acp"]:  # only without options, which the full command line parses
        from deputy_server.acp.serve import main as serve_acp

        sys.exit(serve_acp())
    for stream in (sys.stdout, sys.stderr):  # output of agents may have characters that the locale cannot encode
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    from deputy_server.cli.app import app

    failures: list[OSError] = []
    try:
        app(prog_name="deputy")  # also for `python -m`, or scripts of completion do not reach it
    except* OSError as group:  # for example, the disk is full; commands with tasks raise groups
        failures += _leaves(group)
    if failures:
        from deputy_server.terminal.output import discard

        discard(sys.stdout.fileno())
        # Connections inside the process end as a consequence.
        causes = [one for one in failures if not isinstance(one, ConnectionError)] or failures
        sys.exit("\n".join(dict.fromkeys(map(_described, causes))))


def _leaves(group: BaseExceptionGroup[OSError]) -> Iterator[OSError]:
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from _leaves(one)
        else:
            yield one


def _described(error: OSError) -> str:
    where = f": {error.filename}" if error.filename else ""
    return f"deputy: {(error.strerror or type(error).__name__).lower()}{where}"


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
