"""Changes that agents made to files, kept so that they can be reviewed and undone."""

from dataclasses import dataclass
from enum import StrEnum


class Approval(StrEnum):
    """What approved a change: the user, a rule, the permission mode, or the sandbox, which confines the command that
    made it; ``NONE`` if nothing had to, or it is not known."""

    USER = "user"
    RULE = "rule"
    MODE = "mode"
    SANDBOX = "sandbox"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class FileForm:
    """How the text of a file is stored. ``mode`` has the permission bits; ``None`` if they are not known. The text of a
    ``binary`` file has one character for each byte."""

    codec: str = "utf-8"
    bom: bytes = b""
    binary: bool = False
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of one file by one tool call. ``before`` and ``after`` are the complete texts; ``None`` means that there
    is no file. ``path`` is absolute, with links resolved; ``time`` is in seconds since the epoch."""

    change_id: str
    agent_id: str
    run: int
    tool_call_id: str
    path: str
    before: str | None
    after: str | None
    time: float = 0.0
    withheld: bool = False
    """Both texts are empty, because they contain a secret."""
    turn_id: str = ""
    """The turn in which it was made."""
    approved: Approval = Approval.NONE
    before_form: FileForm | None = None
    """``None`` if the change did not concern it."""
    after_form: FileForm | None = None
    forgotten: bool = False
    """The store has deleted the texts of this change and of earlier ones of the file, as there were too many."""
