"""Minimal file tools over a real folder, sufficient for a model that calls them and reads their results."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from deputy_agents.domain.message import Message, Reply, Text, ToolResult, ToolUse, tool_uses
from deputy_agents.ports.model import Model, ModelRequest, ToolSpec

READING = ("grep", "glob", "list_dir", "read_file")
EDITING = (*READING, "edit_file")
LEADING = (*EDITING, "spawn_agent")

Input = Mapping[str, object]
Answer = tuple[str, bool]
"""The content of a result, and whether it is an error."""


def specs(*names: str) -> tuple[ToolSpec, ...]:
    return tuple(ToolSpec(name, name, {"type": "object"}) for name in names)


class FileTools:
    """Executes calls. ``deny`` may return an error for a call, like a user who denies it."""

    def __init__(self, root: Path, deny: Callable[[ToolUse], str | None] = lambda use: None) -> None:
        self.root = root
        self.deny = deny
        self.read: set[str] = set()

    def answer(self, use: ToolUse) -> ToolResult:
        content, is_error = self._answer(use)
        return ToolResult(use.id, content, is_error)

    def _answer(self, use: ToolUse) -> Answer:
        if (denial := self.deny(use)) is not None:
            return denial, True
        try:
            return getattr(self, f"_{use.name}")(use.input), False
        except (OSError, KeyError, ValueError) as error:
            return f"{error}", True

    def _files(self, input: Input) -> list[Path]:
        base = self.root / str(input.get("path", "."))
        if not base.exists():
            raise ValueError(f"There is no file or folder {input['path']}.")
        found = [base] if base.is_file() else sorted(path for path in base.rglob("*") if path.is_file())
        pattern = input.get("glob")
        return [path for path in found if pattern is None or self._globbed(path, str(pattern))]

    def _globbed(self, path: Path, pattern: str) -> bool:
        options = re.search(r"\{(.*)\}", pattern)
        patterns = [pattern.replace(options[0], option) for option in options[1].split(",")] if options else [pattern]
        return any(path.relative_to(self.root).match(one.replace("/**", "/*")) for one in patterns)

    def _grep(self, input: Input) -> str:
        pattern = re.compile(str(input["pattern"]))
        hits = [
            f"{path.relative_to(self.root)}:{number}:{line}"
            for path in self._files(input)
            for number, line in enumerate(path.read_text().splitlines(), 1)
            if pattern.search(line)
        ]
        return "\n".join(hits) or "[no matches]"

    def _glob(self, input: Input) -> str:
        found = [path for path in self._files({}) if self._globbed(path, str(input["pattern"]).removeprefix("**/"))]
        return "\n".join(str(path.relative_to(self.root)) for path in found) or "[no files]"

    def _list_dir(self, input: Input) -> str:
        entries = sorted((self.root / str(input["path"])).iterdir())
        return "\n".join(f"{path.name}/" if path.is_dir() else path.name for path in entries) or "[empty folder]"

    def _read_file(self, input: Input) -> str:
        path = str(input["path"])
        lines = (self.root / path).read_text().splitlines()
        start = int(str(input.get("offset", 1)))
        limit = int(str(input.get("limit", 2000)))
        self.read.add(path)
        page = [f"{number:>6}\t{line}" for number, line in enumerate(lines, 1)][start - 1 : start - 1 + limit]
        return "\n".join(page) or f"[{path} is empty]"

    def _edit_file(self, input: Input) -> str:
        path, old = str(input["path"]), str(input["old_string"])
        if path not in self.read:
            raise ValueError(f"{path} has not been read.")
        text = (self.root / path).read_text()
        count = text.count(old)
        if count == 0 or (count > 1 and not input.get("replace_all")):
            raise ValueError(f"old_string occurs {count} times in {path}.")
        (self.root / path).write_text(text.replace(old, str(input["new_string"])))
        return f"Edited {path}."


async def ask(model: Model, request: ModelRequest) -> Reply:
    events = [event async for event in model.stream(request)]
    reply = events[-1]
    assert isinstance(reply, Reply)
    return reply


async def run_agent(
    model: Model, task: str, tools: FileTools, names: tuple[str, ...], history: tuple[Message, ...] = ()
) -> tuple[Message, ...]:
    """A complete turn: requests replies and executes calls (including sub-agents) until the model has finished."""
    messages = (*history, Message("user", (Text(task),)))
    for _ in range(20):
        reply = await ask(model, ModelRequest("any", "", messages, specs(*names)))
        messages = (*messages, reply.message)
        uses = tool_uses(reply.message)
        if not uses:
            return messages
        assert {use.name for use in uses} <= set(names)
        results = [await _result(model, use, tools) for use in uses]
        messages = (*messages, Message("user", tuple(results)))
    raise AssertionError("the model did not finish the turn")


async def _result(model: Model, use: ToolUse, tools: FileTools) -> ToolResult:
    if use.name != "spawn_agent":
        return tools.answer(use)
    if (denial := tools.deny(use)) is not None:
        return ToolResult(use.id, denial, is_error=True)
    names = READING if use.input["mode"] == "read_only" else EDITING
    fresh = FileTools(tools.root, tools.deny)
    messages = await run_agent(model, str(use.input["instructions"]), fresh, names)
    last = messages[-1].content[-1]
    assert isinstance(last, Text)
    return ToolResult(use.id, last.text)
