"""Changes settings files: as a whole or not at all, one process at a time, and with their comments."""

import errno
import os
import stat
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, cast

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.rule import Rule
from deputy_agents.guidance.jsonc import parse_jsonc, with_item, without_item
from deputy_agents.guidance.rules import parse_rules
from deputy_agents.validation_errors import InvalidJson

_RULES: Final = ("permissions", "rules")
_LOCK_TIMEOUT: Final = 5.0
_LOCK_POLL: Final = 0.02
_MAX_SIZE: Final = 4 * 1024 * 1024


def add_rules(file: Path, rules: Sequence[Rule]) -> None:
    """Add those of ``rules`` to a settings file that it does not have. Blocks for a bounded time.

    Raises:
        InvalidRequest: the file is invalid, would be, or cannot be written.
    """

    def add(text: str) -> str:
        for rule in rules:
            if _entry(rule) not in _entries(text):
                text = with_item(text, _RULES, _entry(rule))
        return text

    change_file(file, add)


def remove_rule(file: Path, rule: Rule) -> bool:
    """Remove ``rule`` from a settings file, wherever it is there; whether it was. Raises as :func:`add_rules`."""
    found = False

    def remove(text: str) -> str:
        nonlocal found
        while (index := next((i for i, one in enumerate(_entries(text)) if one == _entry(rule)), None)) is not None:
            found = True
            text = without_item(text, _RULES, index)
        return text

    if os.path.lexists(file):
        change_file(file, remove)
    return found


def change_file(file: Path, change: Callable[[str], str]) -> None:
    """Replace the text of a settings file, empty if there is none, by what ``change`` makes of it. Blocks for a bounded
    time.

    Raises:
        InvalidRequest: the file is invalid, would be, or cannot be written.
    """
    if file.is_symlink():
        raise InvalidRequest(f"{file} is a link, which Deputy does not follow. Replace it by a file.")
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(file.parent):
            before = _text(file)
            after = change(before)
            _check(after, file)
            if after != before:
                _replace(file, after)
    except InvalidJson as error:
        raise InvalidRequest(f"{file}:{error.line}: {error}") from None
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be written: {error.strerror}") from None


def _entry(rule: Rule) -> dict[str, str]:
    pattern = {} if rule.pattern is None else {"pattern": rule.pattern}
    return {"tool": rule.tool, **pattern, "action": rule.decision.value}


def _entries(text: str) -> Sequence[object]:
    value: object = parse_jsonc(text) if text.strip() else {}
    for key in _RULES:
        value = cast("dict[str, object]", value).get(key) if isinstance(value, dict) else None
    return cast("Sequence[object]", value) if isinstance(value, list) else ()


def _check(text: str, file: Path) -> None:
    if text.strip():
        _, problems = parse_rules(parse_jsonc(text), str(file))
        if problems:
            raise InvalidRequest(str(problems[0]))


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(_MAX_SIZE + 1)
    except FileNotFoundError:
        return ""
    if len(data) > _MAX_SIZE:
        raise InvalidRequest(f"{file} is too large.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest(f"{file}: not valid UTF-8") from None


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Keep other processes from writing settings in ``folder`` meanwhile, so that no value is lost. Waits for a bounded
    time, and raises OSError after it."""
    import fcntl  # POSIX only

    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        until = time.monotonic() + _LOCK_TIMEOUT
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise OSError(errno.EAGAIN, "another process is writing there") from None
                time.sleep(_LOCK_POLL)
        yield
    finally:
        os.close(handle)


def _replace(file: Path, text: str) -> None:
    """Write ``file`` so that a reader sees the old text or the new one. Its permissions stay."""
    mode = stat.S_IMODE(file.stat().st_mode) if file.exists() else 0o600
    with NamedTemporaryFile(
        "w", dir=file.parent, prefix=".settings-", delete=False, encoding="utf-8", newline=""
    ) as spare:
        try:
            spare.write(text)
            spare.flush()
            os.fsync(spare.fileno())
            Path(spare.name).chmod(mode)
            Path(spare.name).replace(file)
        except BaseException:
            Path(spare.name).unlink(missing_ok=True)
            raise
