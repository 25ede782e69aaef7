"""Scenarios as data: what models say and people do, and which events come of it. ``tests/scenarios/README.md`` tells
how they are written."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

from ruamel.yaml import YAML

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.domain.message import Message, Reply, StopReason, Text, ToolUse, Usage
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.settings import Settings
from deputy_agents.model.scripted import say, use
from deputy_agents.ports.model import ModelRequest
from deputy_agents.project.facts import TITLE
from deputy_protocol.settings import Settings as WireSettings
from deputy_server.convert.settings import settings_from_wire
from tests.support.core import ALLOW, DENY, Core, Person, core, silent, task_of
from tests.support.delegation import define
from tests.support.event_lines import lines_of, matches, message_lines, named

Json: TypeAlias = dict[str, Any]
MODEL = "m"
PEOPLE: Mapping[str, Callable[[], Person]] = {
    "allow": lambda: Person(ALLOW),
    "deny": lambda: Person(DENY),
    "silent": silent,
}
_KEYS = frozenset(
    "shows files agents settings mode person model do events never agents_at_the_end heard".split()  # noqa: SIM905
)


@dataclass
class Scenario:
    """One file. :meth:`play` fails where what happens is not what is written."""

    data: Json
    _lines: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    _gates: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))
    _core: Core | None = None

    @classmethod
    def read(cls, file: Path) -> "Scenario":
        data = cast("Json", YAML(typ="safe").load(file.read_text("utf-8")))  # pyright: ignore[reportUnknownMemberType]
        assert data.keys() <= _KEYS, f"unknown: {data.keys() - _KEYS}"
        return cls(data)

    async def play(self, workspace: Path) -> None:
        for path, text in self.data.get("files", {}).items():
            (workspace / path).parent.mkdir(parents=True, exist_ok=True)
            (workspace / path).write_text(text)
        for name, fields in self.data.get("agents", {}).items():
            define(workspace, name, [json.dumps(key) + ": " + json.dumps(value) for key, value in fields.items()])
        people = [PEOPLE[self.data["person"]]()] if "person" in self.data else []
        async with core(workspace, self._say, *people, settings=self._settings()) as c:
            self._core = c
            if "mode" in self.data:
                c.session.permissions.mode = PermissionMode(self.data["mode"])
            turns = [turn for step in self.data["do"] if (turn := await self._do(step)) is not None]
            for turn in turns:
                await c.finish(turn)
            turns = c.session.turns
            await self._when(lambda: all(node.status.ended for node in c.session.agents()[1:]) and not turns.running)
            self._check()

    # -- the script ------------------------------------------------------------------------------------------------

    def _settings(self) -> Settings:
        wire = WireSettings.model_validate({"model": MODEL, **self.data.get("settings", {})})
        return settings_from_wire(wire, MODEL)

    def _say(self, request: ModelRequest) -> Reply | Awaitable[Reply]:
        who = "primary" if request.depth == 0 else task_of(request).split("\n")[0]
        script = self.data["model"]
        left = self._lines.setdefault(request.agent_id, list(script[who] if who in script else script["*"]))
        assert left, f"{who} has nothing more to say"
        return self._reply(who, left.pop(0))

    def _reply(self, who: str, line: Any) -> Reply | Awaitable[Reply]:
        match line:
            case {"hold": held}:
                return self._held(who, held)
            case {"fails": kind, **rest}:
                raise ModelError(rest.get("saying", kind), ModelErrorKind(kind))
            case "never":
                return self._held("nobody", "never")
            case str():
                return say(line)
            case {"says": text, **rest}:
                return say(text, StopReason(rest.get("stop", "end_turn")), Usage(*rest.get("used", (0, 0))))
            case _:
                return self._calls(line if isinstance(line, list) else [line])

    async def _held(self, who: str, line: Any) -> Reply:
        await self._gates[who].wait()
        reply = self._reply(who, line)
        assert isinstance(reply, Reply)
        return reply

    def _calls(self, parts: list[Any]) -> Reply:
        content: list[Text | ToolUse] = []
        for part in parts:
            if isinstance(part, str):
                content.append(Text(part))
            else:
                ((name, input),) = part.items()
                content.append(use(name, **self._with_ids(input)))
        return Reply(Message("assistant", tuple(content)), StopReason.TOOL_USE)

    def _with_ids(self, input: Any) -> Any:
        """``<label>`` is the id of that agent."""
        text = json.dumps(input)
        for agent_id, label in self._labels().items():
            text = text.replace(f"<{label}>", agent_id)
        return json.loads(text)

    # -- what people do --------------------------------------------------------------------------------------------

    async def _do(self, step: Json) -> Any:
        ((what, argument),) = step.items()
        c = self._running
        match what:
            case "prompt":
                return c.start(argument)
            case "queue":
                return c.start(argument, queue=True)
            case "until":
                await self._when(partial(self._happened, argument))
            case "release":
                self._gates[argument].set()
            case "cancel":
                await c.session.cancel_agent(self._id(argument))
            case "cancel turn":
                await c.session.turns.cancel()
            case "cancel all":
                await c.session.cancel()
            case "tell":
                ((label, text),) = argument.items()
                c.session.steer(self._id(label), text)
            case _:
                raise AssertionError(f"nobody knows how to {what}")
        return None

    async def _when(self, holds: Callable[[], bool]) -> None:
        await self._running.until(holds)
        await self._running.caught_up()

    def _happened(self, pattern: str) -> bool:
        return any(matches(pattern, line) for line in lines_of(self._running.events))

    # -- what must have come of it ---------------------------------------------------------------------------------

    def _check(self) -> None:
        c = self._running
        lines = list(lines_of(c.events))
        story = "\n".join(lines)
        _in_order(self.data["events"], lines, story)
        for pattern in self.data.get("never", ()):
            assert not any(matches(pattern, line) for line in lines), f"{pattern!r} happened:\n{story}"
        if "agents_at_the_end" in self.data:
            nodes = [f"{'  ' * node.info.depth}{node.info.label}: {node.status}" for node in c.session.agents()]
            assert nodes == self.data["agents_at_the_end"]
        for who, wanted in self.data.get("heard", {}).items():
            request = c.requests(None if who == "primary" else who)[-1]
            heard = [line for line in message_lines(request.messages) if not line.startswith(f"user: {TITLE}")]
            last = [named(line, self._labels()) for line in heard]
            assert len(last) == len(wanted), last
            assert all(map(matches, wanted, last)), last

    @property
    def _running(self) -> Core:
        assert self._core is not None
        return self._core

    def _labels(self) -> dict[str, str]:
        return {node.info.agent_id: node.info.label for node in self._running.session.agents()}

    def _id(self, label: str) -> str:
        return next(agent_id for agent_id, each in self._labels().items() if each == label)


def _in_order(wanted: list[str | list[str]], lines: list[str], story: str) -> None:
    """Each of ``wanted`` comes after the one before it; of a list, all in any order."""
    at = 0
    for entry in wanted:
        ends: list[int] = []
        for pattern in [entry] if isinstance(entry, str) else entry:
            found = next((index for index in range(at, len(lines)) if matches(pattern, lines[index])), None)
            assert found is not None, f"{pattern!r} did not happen, or not after the lines before it:\n{story}"
            ends.append(found + 1)
        at = max(ends)
