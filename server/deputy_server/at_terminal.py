"""What a server for editors says to a user who starts it in a terminal, where it would seem to hang."""

import sys

_TEXT = """\
`deputy {command}` is for editors: they start it, and exchange messages with it over standard input and output.
It waits for such messages now. Press Ctrl-D to end it.

  deputy demo                 watch agents work here, in the terminal
  deputy run "..."            run one prompt here
  {page:<26}  use Deputy in your editor
"""


def explain(command: str, page: str) -> None:
    """Explain ``deputy <command>`` on standard error if the input is a terminal. ``page`` documents its use."""
    if sys.stdin.isatty() and sys.stderr.isatty():
        from deputy_server.documentation import page as address  # late, because it reads the installed metadata

        sys.stderr.write(_TEXT.format(command=command, page=address(page)))
        sys.stderr.flush()
