"""The rules that the user has added to personal settings files of projects by answers. A folder from elsewhere may come
with such a file too: what it allows counts only if it is one of these."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import cast

from deputy_agents.domain.rule import Rule
from deputy_agents.files.private_json import PrivateJson
from deputy_agents.permission.rule_patterns import rule_text


class AnsweredRules:
    """Stored in a file that only the user can read; without a ``path``, they last as long as the process. All methods
    block; concurrent changes by several threads or processes are all stored."""

    def __init__(self, path: Path | None = None) -> None:
        self._file = PrivateJson(path)

    def of(self, root: Path) -> frozenset[str]:
        """The rules that were added for the project in ``root``, as text."""
        return frozenset(self._read().get(str(root), ()))

    def add(self, root: Path, rules: Iterable[Rule]) -> None:
        """
        Raises:
            OSError: the file cannot be written.
        """
        self._change(root, lambda known: [*known, *(text for text in map(answered_text, rules) if text not in known)])

    def remove(self, root: Path, rule: Rule) -> None:
        """Raises as :meth:`add`."""
        self._change(root, lambda known: [text for text in known if text != answered_text(rule)])

    def _change(self, root: Path, change: Callable[[list[str]], list[str]]) -> None:
        with self._file.changing():
            folders = dict(self._read())
            folders[str(root)] = change(list(folders.get(str(root), ())))
            self._file.write({path: rules for path, rules in folders.items() if rules})

    def _read(self) -> Mapping[str, list[str]]:
        """All of them; none if the file cannot be read, so that the user is asked again."""
        read = self._file.read()
        if not isinstance(read, dict):
            return {}
        listed = cast("Mapping[str, object]", read).items()
        return {
            path: [str(one) for one in cast("list[object]", rules)] for path, rules in listed if isinstance(rules, list)
        }


def answered_text(rule: Rule) -> str:
    """``rule`` with its decision, as it is stored."""
    return f"{rule.decision.value} {rule_text(rule)}"
