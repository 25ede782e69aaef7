"""Model traffic as a file: written while a session runs, and played again by a scripted model.

A recording has one JSON object a line, one for each request in the order of their ends: who asked (``agent`` counts
from 1, with its ``depth`` and first words), what was new in the request, and what came back. Secrets are taken out
before anything is written. So a bug report is a file, and the file is a test.

A replay needs no key and no network. It follows the recording, not the requests: each agent gets the answers of the
recorded one with the same depth and first words, in order.
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

_LENGTH_OF_FIRST_WORDS = 200


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
    """One request. ``messages`` are those behind the first ``known`` ones of the same agent's request before;
    ``system`` and ``tools`` are told when they are new. Without ``reply`` and ``failure`` it was cancelled."""

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
    """Writes to a new file at ``path``, which only its owner can read.

    Raises:
        OSError: there is a file already, or none can be made.
    """

    def __init__(self, path: Path, redactor: Redactor) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "a", encoding="utf-8")
        self._redactor = redactor
        self._writing = anyio.Lock()
        self._agents: dict[str, int] = {}
        self._told: dict[str, ModelRequest] = {}

    def wrap(self, model: Model) -> Model:
        """``model``, recorded."""
        return _Recorded(model, self)

    def begin(self, request: ModelRequest) -> _Line:
        """What is to be written of a request, before its answer."""
        number = self._agents.setdefault(request.agent_id, len(self._agents) + 1)
        before = self._told.get(request.agent_id)
        self._told[request.agent_id] = request
        known = len(before.messages) if before and request.messages[: len(before.messages)] == before.messages else 0
        line = _Line(
            agent=number,
            depth=request.depth,
            task=_first_words(request),
            model=request.model,
            known=known,
            messages=list(request.messages[known:]),
        )
        if before is None or (before.system, before.tools) != (request.system, request.tools):
            line.system = request.system
            line.tools = [{"name": tool.name, "input_schema": dict(tool.input_schema)} for tool in request.tools]
        return line

    async def write(self, line: _Line) -> None:
        with anyio.CancelScope(shield=True):  # what was cancelled is recorded as well
            async with self._writing:
                await anyio.to_thread.run_sync(self._append, line)

    def _append(self, line: _Line) -> None:
        line.parts = _redacted(line.parts, self._redactor)
        clean = _Line.model_validate(self._redactor.json(line.model_dump(mode="json")))
        self._file.write(clean.model_dump_json(exclude_none=True) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class _Recorded:
    def __init__(self, model: Model, recorder: Recorder) -> None:
        self._model = model
        self._recorder = recorder

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
    """A secret may be cut in two by the stream: where one is found in the whole, the pieces become one."""
    kept: list[_Part] = []
    for kind in ("thinking", "text"):
        same = [part for part in parts if part.kind == kind]
        whole = "".join(part.text for part in same)
        clean = redactor.text(whole)
        kept += same if clean == whole else [_Part(kind=kind, text=clean)]
    return kept


def _first_words(request: ModelRequest) -> str:
    first = next(
        (block.text for message in request.messages for block in message.content if isinstance(block, Text)), ""
    )
    return first[:_LENGTH_OF_FIRST_WORDS]


@dataclass(slots=True)
class _Role:
    """A recorded agent: its lines that are not yet said."""

    depth: int
    task: str
    lines: deque[_Line] = field(default_factory=deque[_Line])


class Replay(ScriptedModel):
    """A model that answers as a recording says; the same one for every model name."""

    def __init__(self, lines: Sequence[_Line], redactor: Redactor) -> None:
        super().__init__(self.script)
        self.model = lines[0].model
        """The model that was recorded first."""
        self._redactor = redactor
        roles: dict[int, _Role] = {}
        for line in lines:
            roles.setdefault(line.agent, _Role(line.depth, line.task)).lines.append(line)
        self._free: dict[tuple[int, str], deque[_Role]] = defaultdict(deque)
        for _, role in sorted(roles.items()):
            self._free[role.depth, role.task].append(role)
        self._taken: dict[str, _Role] = {}

    def __call__(self, name: str) -> Model:
        return self

    def script(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """The next answer that was recorded of the agent that asks."""
        role = self._taken.get(request.agent_id)
        if role is None:
            key = request.depth, self._redactor.text(_first_words(request))
            if not self._free[key]:
                raise _over(f"no recorded agent has the task {key[1][:60]!r}")
            role = self._taken[request.agent_id] = self._free[key].popleft()
        if not role.lines:
            raise _over("this agent made no further request in it")
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
        await anyio.sleep_forever()  # it was cancelled here
    else:
        yield line.reply


def _over(why: str) -> ModelError:
    return ModelError(f"The recording does not go on: {why}.", action="Make the same prompts as in the recording.")


def replay(path: Path, environ: Mapping[str, str]) -> Replay:
    """The recording in a file.

    Raises:
        InvalidRequest: it is none, or has nothing in it; the message says where.
    """
    try:
        lines = [_Line.model_validate_json(text) for text in path.read_text("utf-8").split("\n") if text.strip()]
    except ValidationError as error:
        raise InvalidRequest(f"{path} is no recording of Deputy: {error.errors()[0]['msg']}", "replay") from None
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}", "replay") from None
    except ValueError:
        raise InvalidRequest(f"{path} is no recording of Deputy: it is no text", "replay") from None
    if not lines:
        raise InvalidRequest(f"{path} holds no request.", "replay")
    return Replay(lines, Redactor(environ))
