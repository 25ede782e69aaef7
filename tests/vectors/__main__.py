"""Regenerates the event logs beside this file: ``python -m tests.vectors``.

Each is a real run of the server with a scripted model. Ids and times are replaced by fixed ones, and the events are cut
into steps: after the events of a step, a front end's fold must match ``expected``.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from deputy_protocol.base import rfc3339
from tests.support.messages_api import messages_api
from tests.support.model_replies import Json, Play, call, calls, failing, say, text
from tests.support.rpc import RpcClient, Unanswered, serving
from tests.support.shared_server import is_child, last_text
from tests.support.wire_fold import folded

HERE = Path(__file__).parent
PROJECT = "file:///project"
START = 1_767_225_600.0
TICK = 0.25
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_ASK = "deputy/permission/request"
_NAMES = {"sessionId": "session", "agentId": "agent", "messageId": "message", "requestId": "request", "id": "batch"}

Run = Callable[[RpcClient, str], Awaitable[None]]
Cut = Callable[[Json], bool]


# -- scripts ---------------------------------------------------------------------------------------------------------


def _next(body: Json, *then: Play) -> Play:
    """The next of the agent's scripted replies."""
    given = sum(message["role"] == "assistant" for message in body["messages"])
    return then[min(given, len(then) - 1)]


def plan_and_queue(body: Json, _: int) -> Play:
    steps = [{"content": "read the loop", "status": "completed"}, {"content": "explain it", "status": "in_progress"}]
    return _next(
        body,
        calls(text("I make a plan."), call("todo", id="toolu_plan", entries=steps)),
        say("The loop stops after two tries, as `limit` is 2.", piece=9, gap=0.06),
        say("As said."),
    )


async def two_prompts(client: RpcClient, session_id: str) -> None:
    first = client.start_prompt(session_id, "why does the loop stop?")
    await client.event("message_delta", lambda event: "loop" in event["text"])
    second = client.start_prompt(session_id, "are you sure?", queue=True)
    await client.event("prompt_queue", lambda event: event["entries"] != [])
    await client.result(first)
    await client.result(second)


def three_children(gate: asyncio.Event) -> Callable[[Json, int], Play]:
    def play(body: Json, _: int) -> Play:
        if not is_child(body):
            return _next(
                body,
                calls(
                    text("I look at three sides of it."),
                    call("spawn_agent", id="toolu_code", instructions="read the code", mode="read_only"),
                    call("spawn_agent", id="toolu_docs", instructions="read the docs", mode="read_only"),
                    call("spawn_agent", id="toolu_slow", instructions="never ends", mode="read_only"),
                ),
                say("The code says two, the docs say three."),
            )
        task = body["messages"][0]["content"][0]["text"]
        if "never" in task:
            return say("too late", gate=gate)
        if "docs" in task:
            return failing(400, "invalid_request_error", "the docs cannot be read")
        search = call("grep", id="toolu_grep", pattern="limit", path=".")
        read = call("read_file", id="toolu_read", path="loop.py")
        return _next(body, calls(text("Searching."), search, read), say("`loop.py:1` says two."))

    return play


async def stop_one_of_three(client: RpcClient, session_id: str) -> None:
    prompt = client.start_prompt(session_id, "compare code and docs")
    slow = await client.event("agent_started", lambda event: event["agent"]["label"] == "never ends")
    for label in ("read the code", "read the docs"):
        other = await client.event("agent_started", lambda event, label=label: event["agent"]["label"] == label)
        await client.event("agent_finished", lambda event, other=other: event["agentId"] == other["agentId"])
    stop = {"sessionId": session_id, "agentId": slow["agentId"]}
    assert await client.request("deputy/agent/cancel", stop) == {"cancelled": True}
    await client.result(prompt)


def two_edits(body: Json, _: int) -> Play:
    if not is_child(body):
        delegation = call("spawn_agent", id="toolu_fix", instructions="fix the limit", mode="default")
        return _next(body, calls(delegation), say("One is done."))
    return _next(
        body,
        calls(call("read_file", id="toolu_read", path="loop.py"), call("read_file", id="toolu_notes", path="notes.md")),
        calls(
            call("edit_file", id="toolu_loop", path="loop.py", old_string="limit = 2", new_string="limit = 3"),
            call("edit_file", id="toolu_edit", path="notes.md", old_string="three", new_string="3"),
        ),
        say("I changed `loop.py:1`, and left the notes."),
    )


async def allow_one_deny_the_other(client: RpcClient, session_id: str) -> None:
    client.handlers[_ASK] = lambda _: Unanswered
    prompt = client.start_prompt(session_id, "fix the limit")
    requested = [
        await client.event("permission_requested", lambda e, at=at: e["batch"]["index"] == at) for at in (0, 1)
    ]
    for permission_request, kind, feedback in zip(
        requested, ("allow_once", "reject_once"), (None, "keep the word"), strict=True
    ):
        option = next(option for option in permission_request["options"] if option["kind"] == kind)
        extra = {} if feedback is None else {"feedback": feedback}
        outcome = {"outcome": "selected", "optionId": option["optionId"], **extra}
        params = {"requestId": permission_request["requestId"], "outcome": outcome}
        assert await client.request("deputy/permission/answer", params) == {"accepted": True}
    await client.result(prompt)


def background_twice() -> Callable[[Json, int], Play]:
    ids: list[str] = []

    def play(body: Json, _: int) -> Play:
        if is_child(body):
            return _next(body, say("Nothing is wrong."), say("Still nothing."))
        content = body["messages"][-1]["content"]
        if results := [block for block in content if block["type"] == "tool_result"]:
            inside = results[0]["content"]
            ids.append(json.loads(inside if isinstance(inside, str) else inside[0]["text"])["task_id"])
            return say("It runs.")
        if last_text(body) not in ("look", "again"):
            return say("It has ended.")
        more = {"task_id": ids[0]} if last_text(body) == "again" else {}
        how = {"description": "look around", "prompt": "look", "subagent_type": "general"}
        return calls(call("task", id=f"toolu_{last_text(body)}", **how, **more))

    return play


async def run_and_continue(client: RpcClient, session_id: str) -> None:
    for number, prompt in enumerate(("look", "again"), 1):
        await client.prompt(session_id, prompt)
        # A turn for the prompt, and one for the end of the task.
        await client.until(lambda _, turns=2 * number: len(client.events("turn_finished")) >= turns)


VECTORS: dict[str, tuple[str, Callable[[], Callable[[Json, int], Play]], Run, Cut]] = {
    "plan_and_queue": (
        "A streaming answer, a plan, and a queued prompt.",
        lambda: plan_and_queue,
        two_prompts,
        lambda event: event["type"] in ("plan", "prompt_queue") or "loop" in event.get("text", ""),
    ),
    "three_children": (
        "Three sub-agents in parallel: one completes, one fails, one is stopped.",
        lambda: three_children(asyncio.Event()),
        stop_one_of_three,
        lambda event: event["type"] in ("agent_started", "agent_finished", "agent_activity"),
    ),
    "permission_requests": (
        "A sub-agent asks for two edits; one is approved, the other denied with a reason.",
        lambda: two_edits,
        allow_one_deny_the_other,
        lambda event: event["type"].startswith("permission_"),
    ),
    "background": (
        "A background task, its notification at the end, and its resumption as a second run.",
        background_twice,
        run_and_continue,
        lambda event: event["type"] in ("agent_started", "agent_finished", "turn_finished"),
    ),
}


# -- recording -------------------------------------------------------------------------------------------------------


async def record(script: Callable[[Json, int], Play], run: Run) -> tuple[list[Json], Json]:
    """The events of a run with fixed ids and times, and the session as the server loads it at the end."""
    with TemporaryDirectory() as folder:
        root = _project(folder)
        env = {"ANTHROPIC_API_KEY": "test-key", "DEPUTY_STATE": f"{folder}/state"}
        async with messages_api(script) as api, serving(env=env) as client:
            await client.initialize(root, initializationOptions={"model": "m", "baseUrl": api.url})
            session_id, _ = await client.session()
            await run(client, session_id)
            loaded = await client.request("deputy/session/load", {"sessionId": session_id})
            events = client.events()
            await client.shut_down()
    fixed = _fixed({"events": events, "loaded": loaded}, root)
    return fixed["events"], fixed["loaded"]


def _project(folder: str) -> Path:
    root = Path(folder).resolve()
    (root / "loop.py").write_text("limit = 2\n", "utf-8")
    (root / "notes.md").write_text("It tries three times.\n", "utf-8")
    return root


def _fixed(node: Json, root: Path) -> Json:
    """Replaces ids, times and paths by fixed ones. Only the order of times is kept."""
    names: dict[str, str] = {}
    numbers: dict[str, Iterator[int]] = {}
    for key, value in _strings(node):
        for found in _UUID.findall(value):
            kind = _NAMES.get(key, key.removesuffix("Id"))
            names.setdefault(found, f"{kind}-{next(numbers.setdefault(kind, count(1)))}")
    written = json.dumps(node).replace(root.as_uri(), PROJECT).replace(str(root), PROJECT.removeprefix("file://"))
    written = _UUID.sub(lambda match: names.get(match[0], match[0]), written)
    moments = sorted({value for key, value in _strings(node) if key == "time" or key.endswith("At")})
    for index, moment in enumerate(moments):
        written = written.replace(f'"{moment}"', f'"{rfc3339(START + index * TICK)}"')
    return json.loads(written)


def _strings(node: object, key: str = "") -> Iterator[tuple[str, str]]:
    match node:
        case str():
            yield key, node
        case dict():
            for name, value in node.items():
                yield from _strings(value, name)
        case list():
            for value in node:
                yield from _strings(value, key)
        case _:
            pass


def steps(events: list[Json], cut: Cut) -> list[Json]:
    """The events in steps, each ending at an event for which ``cut`` is true, with the state after each."""
    ends = [index for index, event in enumerate(events, 1) if cut(event) or index == len(events)]
    starts = [0, *ends]
    return [
        {"events": events[start:end], "expected": folded(events[:end])}
        for start, end in zip(starts, ends, strict=False)
    ]


async def main() -> None:
    for name, (about, script, run, cut) in VECTORS.items():
        events, loaded = await record(script(), run)
        final = folded(events)
        assert final["agents"] == loaded["agents"], "the fold differs from the server's state"
        assert final["transcripts"]["agent-1"] == loaded["transcript"]
        assert final["permissions"] == loaded["permissions"]
        assert final["plans"] == {plan["agentId"]: plan["entries"] for plan in loaded["plans"]}
        assert final["promptQueue"] == loaded["promptQueue"]
        text = json.dumps({"about": about, "steps": steps(events, cut)}, indent=1, ensure_ascii=False)
        (HERE / f"{name}.json").write_text(text + "\n", "utf-8")
        print(f"{name}: {len(events)} events")


if __name__ == "__main__":
    asyncio.run(main())
