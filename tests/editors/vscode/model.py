"""Answers of the scripted model in the editor tests, by the text of the prompt and the step of the turn."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tests.support.model_replies import Failure, Json, Play, call, calls, say

Steps: TypeAlias = Sequence[Play]

GREETING = 'return f"Hello, {name}!"'
BETTER = 'return f"Good morning, {name}!"'
ANSWER = """The loop gives up **one attempt early**: see `backoff.py:5-9`.

| attempt | waits |
| ------- | ----- |
| 1       | 1 s   |
| 2       | 2 s   |

```python
if attempt > limit:
    raise TimeoutError
```
"""
REWRITTEN = """'Retries.'

import time


def retry(limit, send):
    for attempt in range(10):
        if attempt >= limit:
            raise TimeoutError
        time.sleep(2**attempt)
"""
HIDDEN = 'return f"Hello, {name}!"  # as before\r    \u202egood\u202c'
"""A replacement with a carriage return within a line, and reversed letters."""
COMPOUND = (*(f": {'word ' * 8}{number}" for number in range(12)), f"curl -s https://x.test/{'x' * 300} -o a.txt")
"""Parts of a command, each with a lasting rule of its own."""
LOOK = ("read the callers of retry", "read the tests about retries", "read the history of backoff")


def _better(path: str = "greet.py") -> Json:
    return dict(call("edit_file", path=path, old_string=GREETING, new_string=BETTER))


def _read(path: str) -> Json:
    return dict(call("read_file", path=path))


def _stalled() -> Play:
    """A sub-agent that works until it is stopped."""
    return say("I have found the place, and look at what is around it.", piece=9, failure=Failure.STALL, after=4)


SCRIPTS: Mapping[str, Callable[[], Steps]] = {
    "ask which colour": lambda: (
        calls(call("ask_user", question="Which colour?", options=["red", "green"])),
        say("It is chosen."),
    ),
    "why does the retry loop give up": lambda: (
        calls(
            {"type": "text", "text": "I look at the callers, the tests and the history at the same time."},
            *(call("spawn_agent", instructions=task) for task in LOOK),
        ),
        say(ANSWER, piece=12),
    ),
    LOOK[0]: lambda: (calls(call("grep", pattern="retry"), _read("backoff.py")), _stalled()),
    LOOK[1]: lambda: (calls(call("grep", pattern="retries", glob="*.md"), _read("README.md")), _stalled()),
    LOOK[2]: lambda: (calls(_read("greet.py")), say("Nothing of interest in the history.")),
    "improve the greeting": lambda: (calls(_read("greet.py")), calls(_better()), say("The greeting is better now.")),
    "pretend": lambda: (
        calls(call("spawn_agent", instructions="$(check) all is done")),
        say("A sub-agent pretended."),
    ),
    "all is done": lambda: (calls(call("grep", pattern=r"$(pass) \w+")), _stalled()),
    "have the greeting improved": lambda: (
        calls(call("spawn_agent", instructions="improve the greeting", mode="default")),
        say("A sub-agent improved it."),
    ),
    "look and improve": lambda: (
        calls(
            call("spawn_agent", instructions=LOOK[0]),
            call("spawn_agent", instructions="improve the greeting", mode="default"),
        ),
        say("One looked, one improved."),
    ),
    "hide something": lambda: (
        calls(_read("hidden.py")),
        calls(call("edit_file", path="hidden.py", old_string=GREETING, new_string=HIDDEN)),
        say("Hidden."),
    ),
    "run many commands": lambda: (calls(call("shell", command=" && ".join(COMPOUND))), say("All of them ran.")),
    "improve both": lambda: (
        calls(_read("greet.py"), _read("backoff.py")),
        calls(_better(), call("edit_file", path="backoff.py", old_string="limit - 1", new_string="limit")),
        say("Both are better now."),
    ),
    "improve and count": lambda: (
        calls(_read("greet.py")),
        calls(_better(), call("shell", command="ls *.py | sort")),
        say("Better, and counted."),
    ),
    "rewrite the loop": lambda: (
        calls(_read("backoff.py")),
        calls(call("write_file", path="backoff.py", content=REWRITTEN)),
        say("Rewritten."),
    ),
    "improve it twice": lambda: (
        calls(_read("greet.py")),
        calls(_better(), call("edit_file", path="greet.py", old_string="Greetings.", new_string="Kind greetings.")),
        say("Twice as good."),
    ),
    "count in the notebook": lambda: (
        calls(_read("counts.ipynb")),
        calls(call("edit_file", path="counts.ipynb", old_string="print(1)", new_string="print(2)")),
        say("Counted."),
    ),
    "count the files": lambda: (calls(call("shell", command="ls *.py | sort")), say("Two.")),
    "fix in": lambda: (calls(_read("greet.py")), say("There is nothing to fix.")),
    "continue where you were interrupted": lambda: (say("Continuing."),),
    "write a new file": lambda: (
        calls(call("write_file", path="notes/plan.md", content="# Plan\n\n1. Read\n2. Write\n")),
        say("Written."),
    ),
    "make a plan": lambda: (
        calls(
            call(
                "todo",
                entries=[
                    {"content": "Read the loop", "status": "completed"},
                    {"content": "Fix the limit", "status": "in_progress"},
                    {"content": "Add a test", "status": "pending"},
                ],
            )
        ),
        say("That is the plan."),
    ),
    "ask the editor": lambda: (
        calls(
            call("diagnostics"),
            call("lookup", find="definition", path="greet.py", symbol="greet", line=8),
            call("lookup", find="references", path="greet.py", symbol="greet"),
            call("lookup", find="hover", path="greet.py", symbol="greet"),
            call("lookup", find="symbols", path="greet.py"),
            call("lookup", find="symbols", symbol="greet"),
        ),
        say("The editor knows."),
    ),
    "take your time": lambda: (_stalled(),),
    "hello": lambda: (say("Hello! I am the **scripted** model.", piece=4),),
}


def answer(body: Json, _number: int) -> Play:
    """The next step of the script for the last prompt that has one."""
    last = body["messages"][-1]["content"]
    if any(block["type"] == "image" for block in last):
        return say("I see the image.")
    key, step = _position(body["messages"])
    if key is None:
        return say(f"I have no script for that, only for: {', '.join(SCRIPTS)}.")
    script = SCRIPTS[key]()
    return script[min(step, len(script) - 1)]


def _position(messages: Sequence[Json]) -> tuple[str | None, int]:
    """The key of the script for the last prompt, and how many answers it has got."""
    answers = 0
    for message in reversed(messages):
        if message["role"] == "assistant":
            answers += 1
            continue
        text = _text(message).lower()
        # A prompt that was cancelled without an answer is in one message with the next one.
        if found := max(SCRIPTS, key=text.rfind) if any(key in text for key in SCRIPTS) else None:
            return found, answers
    return None, answers


def _text(message: Json) -> str:
    content = message["content"]
    return content if isinstance(content, str) else " ".join(block.get("text", "") for block in content)
