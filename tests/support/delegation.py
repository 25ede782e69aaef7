"""Helpers for tests of the delegation tools: replies that call one, definitions on disk, and parsing of results."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deputy_agents.domain.message import Reply, Text, ToolUse
from deputy_agents.model.scripted import call, calls, use
from deputy_agents.ports.model import ModelRequest
from tests.support.core import answers

Json = dict[str, Any]

DELEGATION_TOOLS = {"spawn_agent", "spawn_agents", "task", "code_search", "code_review", "planner"}


def fan_out(*tasks: str | Json) -> Reply:
    """A reply that calls ``spawn_agents``."""
    return call("spawn_agents", tasks=[{"task": task} if isinstance(task, str) else task for task in tasks])


def background_use(prompt: str, kind: str = "general", **more: object) -> ToolUse:
    return use("task", description=f"do {prompt}", prompt=prompt, subagent_type=kind, **more)


def background(*prompts: str, kind: str = "general") -> Reply:
    """A reply that calls ``task`` once for each prompt."""
    return calls([background_use(prompt, kind) for prompt in prompts])


def aggregate(content: str) -> list[Json]:
    """The entries of a result of ``spawn_agents``, without the agent ids, which are checked to be unique."""
    found = json.loads(content)
    assert list(found) == ["sub_agent_results"]
    entries: list[Json] = found["sub_agent_results"]
    ids = [entry.pop("agent_id") for entry in entries]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    return entries


def success(task: str, result: str) -> Json:
    return {"task": task, "outcome": {"success": {"result": result}}}


def failure(task: str, kind: str, error: str) -> Json:
    return {"task": task, "outcome": {"failure": {"error": error, "error_kind": kind}}}


def accepted(request: ModelRequest) -> list[Json]:
    """The results of the ``task`` calls in the last message of a request."""
    return [json.loads(answer) for answer in answers(request)]


def reported_ends(request: ModelRequest) -> list[Json]:
    """The ends of background children reported in all messages of a request."""
    texts = [block.text for message in request.messages for block in message.content if isinstance(block, Text)]
    return [json.loads(text) for text in texts if text.startswith('{"task_id"')]


def tools_of(request: ModelRequest) -> set[str]:
    return {tool.name for tool in request.tools}


def define(workspace: Path, name: str, fields: Sequence[str] = (), prompt: str = "Follow the instructions.") -> Path:
    """Writes a definition into the workspace; ``fields`` are lines of its frontmatter."""
    file = workspace / ".deputy" / "agents" / f"{name}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = ["---", f"name: {name}", f"description: The agent {name}.", *fields, "---", prompt, ""]
    file.write_text("\n".join(lines))
    return file
