"""Answers of the scripted model in these tests, by the text of the prompt."""

import asyncio
import json

from tests.support.facts import without_facts
from tests.support.model_replies import Json, Play, call, calls, say, text
from tests.support.shared_server import is_child, last_text


def _task(body: Json) -> str:
    return last_text({"messages": body["messages"][:1]})


def _last_prompt(body: Json) -> str:
    contents = [m["content"] for m in body["messages"] if m["role"] == "user"]
    texts = [block["text"] for content in contents for block in content if block["type"] == "text"]
    return without_facts(texts)[-1]


def _has_only_results(body: Json) -> bool:
    """Whether the last message has only tool results, and no text of a user."""
    return all(block["type"] == "tool_result" for block in body["messages"][-1]["content"])


def _spawn(task: str, mode: str = "read_only") -> dict[str, object]:
    return dict(call("spawn_agent", instructions=task, mode=mode))


COMPOUND = [*(f": {'word ' * 5}{number}" for number in range(30)), f"curl -s https://x.test/{'x' * 300} -o a.txt"]
"""Parts of a command, each with a lasting rule of its own."""

_ROUNDS = {
    "compound": lambda: calls(call("shell", command=" && ".join(COMPOUND))),
    "look": lambda: calls(text("Two sides."), _spawn("read the code"), _spawn("read the notes")),
    "three": lambda: calls(_spawn("never ends, one"), _spawn("never ends, two"), _spawn("never ends, three")),
    "edit": lambda: calls(_spawn("fix the limit", "default")),
    "question": lambda: calls(call("ask_user", question="Which colour?", options=["red", "green"])),
    "edits": lambda: calls(_spawn("fix both", "default")),
    "twice": lambda: calls(_spawn("fix twice", "default")),
    "many": lambda: calls(*(call("write_file", path=f"new{n}.txt", content=f"{n}\n") for n in range(12))),
    "above": lambda: calls(_spawn("fix above", "default")),
    "top": lambda: calls(_spawn("fix the top", "default")),
    "steered": lambda: calls(_spawn("fix and listen", "default")),
    "typed": lambda: calls(call("code_search", query="where is the limit")),
    "plan": lambda: calls(
        call("todo", entries=[{"content": "look", "status": "completed"}, {"content": "act", "status": "in_progress"}])
    ),
    "wait": lambda: say("too late", gate=asyncio.Event()),
    "stream": lambda: say("A long answer. " * 40, piece=6, gap=0.005),
    "shell": lambda: calls(call("shell", command="touch \u202etxt.a")),
}


def _user_content(body: Json) -> str:
    """All user content that an agent got, including tool results."""
    return json.dumps([message["content"] for message in body["messages"] if message["role"] == "user"])


def _child(body: Json, task: str) -> Play:
    if "never" in task or "where is the limit" in task:
        return say("too late", gate=asyncio.Event())
    rounds = sum(message["role"] == "assistant" for message in body["messages"])
    if task.startswith("fix"):
        loop = call("edit_file", path="loop.py", old_string="limit = 2", new_string="limit = 3")
        notes = call("edit_file", path="notes.md", old_string="two", new_string="three")
        rest = call("edit_file", path="loop.py", old_string="rest = 0", new_string="rest = 1")
        top = call("edit_file", path="loop.py", old_string="# tries", new_string="# all tries")
        above = call("edit_file", path="loop.py", old_string="# tries", new_string="# new\n# tries")
        both = {"both": (loop, notes), "twice": (loop, rest), "top": (top,), "above": (above,)}.get(
            task.rsplit(maxsplit=1)[-1], (loop,)
        )
        reads = calls(call("read_file", path="loop.py"), call("read_file", path="notes.md"))
        answer = "I got your message." if "check the rest" in _user_content(body) else "It is done, see `loop.py:2`."
        return (reads, calls(*both), say(answer))[min(rounds, 2)]
    return (calls(call("read_file", path="loop.py")), say(f"I have {task}: `loop.py:2`."))[min(rounds, 1)]


def script(body: Json, _: int) -> Play:
    if is_child(body):
        return _child(body, _task(body))
    if _has_only_results(body):
        return say("All is done.")
    rounds = _ROUNDS.get(_last_prompt(body).partition(" ")[0])
    return rounds() if rounds else say(f"You said: {_last_prompt(body)}")
