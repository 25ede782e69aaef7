"""How often an afternoon of work asks the user: with the defaults and three lasting answers, and when each command
asks and no answer lasts."""

import subprocess
from pathlib import Path

import pytest

from deputy_agents.domain.event import PermissionRequest
from deputy_agents.domain.message import Reply
from deputy_agents.domain.settings import Settings, ShellSettings
from deputy_agents.model.scripted import calls, say, use
from deputy_agents.ports.permission import Selected
from tests.support.core import ALLOW, Cast, Person, core

PROMPTS = 40
READING = (
    *("git status --short", "git diff --stat", "git log --oneline -5", "ls -la src", "cat src/app.py | head -40"),
    *("grep -n def src/app.py", "wc -l src/app.py src/util.py", "git diff -- src/app.py", "find . -name '*.py'"),
    *("sed -n '1,20p' src/util.py", "git show --stat HEAD", "head -20 README.md", "git blame -L 1,2 README.md"),
    *("tail -5 README.md", "git branch --show-current"),
)
LASTING = {
    "shell(make test 2>&1 | tail -5)": "allow_project",
    "shell(git add src/app.py)": "allow_user",
    "edit_file(src/app.py)": "allow_session",
}
"""The three requests that are answered with more than a single approval."""


def edit(number: int) -> tuple[str, dict[str, object]]:
    """Two of three edits are in the file that the afternoon is about."""
    path = "src/util.py" if number % 3 == 2 else "src/app.py"
    return "edit_file", {"path": path, "old_string": f"line {number}\n", "new_string": f"LINE {number}\n"}


def afternoon() -> list[list[tuple[str, dict[str, object]]]]:
    """The tool calls of each prompt: three, of which most look around, as agents do."""
    turns: list[list[tuple[str, dict[str, object]]]] = []
    for number in range(PROMPTS):
        look = ("shell", {"command": READING[number % len(READING)]})
        read = ("read_file", {"path": "src/util.py" if number % 3 == 2 else "src/app.py"})
        match number % 4:
            case 0:
                turns.append([look, read, ("grep", {"pattern": "line", "path": "src"})])
            case 1:
                turns.append([look, read, edit(number)])
            case 2:
                turns.append([read, edit(number), ("shell", {"command": "make test 2>&1 | tail -5"})])
            case _:
                last = "git add src/app.py" if number % 8 == 3 else READING[(number + 7) % len(READING)]
                turns.append(
                    [look, ("shell", {"command": READING[(number + 3) % len(READING)]}), ("shell", {"command": last})]
                )
    return turns


def project(root: Path) -> None:
    (root / "src").mkdir()
    for name in ("app.py", "util.py"):
        (root / "src" / name).write_text("".join(f"line {n}\n" for n in range(PROMPTS)))
    (root / "README.md").write_text("# Sample\n\nA project.\n")
    (root / "Makefile").write_text("test:\n\t@echo tested\n")
    for words in (("init", "--quiet", "-b", "main"), ("add", "."), ("commit", "--quiet", "-m", "first")):
        identity = ("-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgSign=false")
        subprocess.run(["git", *identity, *words], cwd=root, check=True, capture_output=True, timeout=30)


async def requests_of(root: Path, *, reading: bool, lasting: bool) -> tuple[int, int]:
    """The number of tool calls of the afternoon, and of permission requests."""
    left = dict(LASTING)

    def answer(request: PermissionRequest) -> Selected:
        return Selected(left.pop(request.title, "allow_once")) if lasting else ALLOW

    person = Person(answer)
    lines: list[Reply] = []
    for turn in afternoon():
        # One after the other: an edit needs that the file was read, and a lasting answer counts from the next call on.
        lines += [*(calls([use(name, **input)]) for name, input in turn), say("Done.")]
    settings = Settings(shell=ShellSettings(isolated=False))
    async with core(root, Cast(lines), person, settings=settings, reading=reading) as c:
        for number in range(PROMPTS):
            await c.turn(f"prompt {number}")
        made = sum(len(turn) for turn in afternoon())
        results = [str(block) for request in c.requests() for block in request.messages[-1].content]
        assert not any("Not run" in text for text in results)
    assert not lasting or not left
    return made, len(person.asked)


@pytest.mark.requirement("Q1")
@pytest.mark.requirement("Q2")
@pytest.mark.asyncio
async def test_an_afternoon_asks_at_most_a_quarter_as_often(tmp_path: Path) -> None:
    counts: dict[str, int] = {}
    for name, is_after in (("before", False), ("after", True)):
        root = tmp_path / name / "project"
        root.mkdir(parents=True)
        project(root)
        made, counts[name] = await requests_of(root, reading=is_after, lasting=is_after)
        assert made == 120
    print(f"permission requests in 40 prompts with 120 tool calls: {counts}")
    assert counts["before"] > 60
    assert counts["after"] <= counts["before"] / 4, counts
