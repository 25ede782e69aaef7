"""Answers of the scripted model for editors without a plugin, by the text of the prompt."""

import asyncio

from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.shared_server import is_child, last_text

WRITE = ("write the first", "write the second")
LOOK = ("look for ever", "look briefly")


def script(body: Json, _: int) -> Play:
    """``edit``: two sub-agents change one file each. ``look``: two look, and one of them never ends."""
    answered = len(body["messages"]) > 1 and "tool_result" in str(body["messages"][-1])
    if is_child(body):
        return _child(last_text({"messages": body["messages"][:1]}), answered)
    if answered:
        return say("All is done, see `first.py:1`.")
    prompt = last_text(body)
    if prompt.startswith("edit"):
        return calls(*(call("spawn_agent", instructions=task, mode="default") for task in WRITE))
    if prompt.startswith("look"):
        return calls(*(call("spawn_agent", instructions=task) for task in LOOK))
    return say(f"You said: {prompt}")


def _child(task: str, answered: bool) -> Play:
    if answered:
        return say(f"I have done it: {task}.")
    if task in WRITE:
        name = task.rsplit(maxsplit=1)[-1]
        return calls(call("write_file", path=f"{name}.txt", content=f"the {name} text\n"))
    return say("found", gate=asyncio.Event() if task == LOOK[0] else None)
