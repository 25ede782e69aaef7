"""Recordings of model traffic: written while a session runs, and replayed by a scripted model.

A recording has one JSON object per line and request, in the order in which the requests ended: the agent (``agent``
counts from 1, with its ``depth`` and the start of its task), what was new in the request, and the reply. Secrets are
removed before anything is written. A recording can be attached to a bug report and replayed as a test.

A replay needs no key and no network. It follows the recording, not the requests: each agent gets the replies of the
recorded agent with the same depth and task, in order.
"""

import os
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread
from pydantic import BaseModel, ValidationError

from deputy_agents.domain.errors import InvalidRequest, ModelError, ModelErrorKind
from deputy_agents.domain.message import Message, Reply, Text
from deputy_agents.model.scripted import ScriptedModel
from deputy_agents.ports.model import Model, ModelEvent, ModelRequest, TextPart, ThinkingPart
from deputy_agents.redact import Redactor

_TASK_LENGTH = 200
"""Characters of a task by which an agent is recognized."""


class _Part(BaseModel):
    kind: Literal["text", "thinking"]
    text: str


class _Failure(BaseModel):
    message: str
    kind: ModelErrorKind
    retryable: bool
    retry_after: float | None = None
    action: str = ""


class _Line(BaseModel):
    """One request. ``messages`` follow the first ``known`` messages of the agent's previous request; ``system`` and
    ``tools`` are present if they changed. A line without ``reply`` and ``failure`` was cancelled."""

    version: Literal[1] = 1
    agent: int
    depth: int
    task: str
    model: str
    system: str | None = None
    tools: list[dict[str, object]] | None = None
    known: int = 0
    messages: list[Message] = []
    parts: list[_Part] = []
    reply: Reply | None = None
    failure: _Failure | None = None


class Recorder:
    """Writes to a new file at ``path``, readable only by its owner.

    Raises:
        OSError: the file exists or cannot be created.
    """

    def __init__(self, path: Path, redactor: Redactor) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "a", encoding="utf-8")
        self._redactor = redactor
        self._write_lock = anyio.Lock()
        self._agents: dict[str, int] = {}
        self._last_requests: dict[str, ModelRequest] = {}

    def wrap(self, model: Model) -> Model:
        """``model`` with its traffic recorded."""
        return _RecordedModel(model, self)

    def begin(self, request: ModelRequest) -> _Line:
        """The line of a request, without its reply."""
        number = self._agents.setdefault(request.agent_id, len(self._agents) + 1)
        before = self._last_requests.get(request.agent_id)
        self._last_requests[request.agent_id] = request
        known = len(before.messages) if before and request.messages[: len(before.messages)] == before.messages else 0
        line = _Line(
            agent=number,
            depth=request.depth,
            task=_task(request),
            model=request.model,
            known=known,
            messages=list(request.messages[known:]),
        )
        if before is None or (before.system, before.tools) != (request.system, request.tools):
            line.system = request.system
            line.tools = [{"name": tool.name, "input_schema": dict(tool.input_schema)} for tool in request.tools]
        return line

    async def write(self, line: _Line) -> None:
        with anyio.CancelScope(shield=True):  # a cancelled request is recorded too
            async with self._write_lock:
                await anyio.to_thread.run_sync(self._append, line)

    def _append(self, line: _Line) -> None:
        line.parts = _redacted(line.parts, self._redactor)
        redacted = _Line.model_validate(self._redactor.json(line.model_dump(mode="json")))
        self._file.write(redacted.model_dump_json(exclude_none=True) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class _RecordedModel:
    def __init__(self, model: Model, recorder: Recorder) -> None:
        self._model = model
        self._recorder = recorder

    async def prepare(self) -> None:
        await self._model.prepare()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        line = self._recorder.begin(request)
        try:
            async with aclosing(self._model.stream(request)) as events:
                async for event in events:
                    match event:
                        case TextPart(text):
                            line.parts.append(_Part(kind="text", text=text))
                        case ThinkingPart(text):
                            line.parts.append(_Part(kind="thinking", text=text))
                        case Reply():
                            line.reply = event
                        case _:
                            pass
                    yield event
        except ModelError as error:
            line.failure = _Failure(
                message=str(error),
                kind=error.kind,
                retryable=error.retryable,
                retry_after=error.retry_after,
                action=error.action,
            )
            raise
        finally:
            await self._recorder.write(line)


def _redacted(parts: list[_Part], redactor: Redactor) -> list[_Part]:
    """The stream may split a secret: if the joined text contains one, the parts are replaced by one redacted part."""
    result: list[_Part] = []
    for kind in ("thinking", "text"):
        same = [part for part in parts if part.kind == kind]
        whole = "".join(part.text for part in same)
        redacted = redactor.text(whole)
        result += same if redacted == whole else [_Part(kind=kind, text=redacted)]
    return result


def _task(request: ModelRequest) -> str:
    first = next(
        (block.text for message in request.messages for block in message.content if isinstance(block, Text)), ""
    )
    return first[:_TASK_LENGTH]


@dataclass(slots=True)
class _Role:
    """A recorded agent and its lines that were not replayed yet."""

    depth: int
    task: str
    lines: deque[_Line] = field(default_factory=deque[_Line])


class Replay(ScriptedModel):
    """A model that replays a recording; one instance serves all model names."""

    def __init__(self, lines: Sequence[_Line], redactor: Redactor) -> None:
        super().__init__(self.script)
        self.model = lines[0].model
        """The name of the first recorded model."""
        self._redactor = redactor
        roles: dict[int, _Role] = {}
        for line in lines:
            roles.setdefault(line.agent, _Role(line.depth, line.task)).lines.append(line)
        self._unassigned: dict[tuple[int, str], deque[_Role]] = defaultdict(deque)
        for _, role in sorted(roles.items()):
            self._unassigned[role.depth, role.task].append(role)
        self._roles: dict[str, _Role] = {}

    def __call__(self, name: str) -> Model:
        return self

    def script(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """The next recorded reply for the agent."""
        role = self._roles.get(request.agent_id)
        if role is None:
            key = request.depth, self._redactor.text(_task(request))
            if not self._unassigned[key]:
                raise _no_reply(f"no recorded agent has the task {key[1][:60]!r}")
            role = self._roles[request.agent_id] = self._unassigned[key].popleft()
        if not role.lines:
            raise _no_reply("the recorded agent sent no more requests")
        return _play(role.lines.popleft())


async def _play(line: _Line) -> AsyncGenerator[ModelEvent]:
    for part in line.parts:
        yield TextPart(part.text) if part.kind == "text" else ThinkingPart(part.text)
    if (failed := line.failure) is not None:
        raise ModelError(
            failed.message,
            failed.kind,
            retryable=failed.retryable,
            retry_after=failed.retry_after,
            action=failed.action,
        )
    if line.reply is None:
        await anyio.sleep_forever()  # the recorded request was cancelled
    else:
        yield line.reply


def _no_reply(reason: str) -> ModelError:
    return ModelError(f"The recording has no reply: {reason}.", action="Send the same prompts as in the recording.")


def replay(path: Path, environ: Mapping[str, str]) -> Replay:
    """Loads a recording.

    Raises:
        InvalidRequest: the file is not a recording or is empty.
    """
    try:
        lines = [_Line.model_validate_json(text) for text in path.read_text("utf-8").split("\n") if text.strip()]
    except ValidationError as error:
        raise InvalidRequest(f"{path} is not a Deputy recording: {error.errors()[0]['msg']}", "replay") from None
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}", "replay") from None
    except ValueError:
        raise InvalidRequest(f"{path} is not a Deputy recording: it is not a text file", "replay") from None
    if not lines:
        raise InvalidRequest(f"{path} contains no requests.", "replay")
    return Replay(lines, Redactor(environ))
