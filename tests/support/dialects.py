"""Fake model services on loopback, one for each kind of provider. They play the same replies as
:mod:`tests.support.messages_api`, each in its own format, and reject requests that its service would reject."""

import base64
import json
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.api_rules import broken_rules
from tests.support.messages_api import Connection, MessagesApi, Received
from tests.support.model_replies import Block, Json, Play, frames, stop_reason_of

KEY = "key-7f3a"
ACCESS_KEY, SECRET_KEY = "AKIDEXAMPLE", "secret-41fd0a"
TOKEN = "ya29.token-9c1e"
REGION, PROJECT, WORKSPACE = "eu-west-3", "project-1", "workspace-1"
MODEL = "model-1"


class DialectApi(MessagesApi, ABC):
    """A service. ``prefix`` is that of the names of its models."""

    prefix = ""
    path = "/v1/messages"

    @abstractmethod
    def environ(self, folder: Path) -> dict[str, str]:
        """The environment that leads to this service. ``folder`` is for files that it names."""

    @abstractmethod
    def broken(self, received: Received) -> Iterator[str]:
        """The rules that a request breaks."""

    @abstractmethod
    def unauthorized(self, received: Received) -> bool:
        """Whether a request has no valid credentials."""

    async def answer(self, connection: Connection, received: Received) -> None:
        if self.unauthorized(received):
            connection.send_error(401, "authentication_error", "invalid credentials")
            return
        if received.path.partition("?")[0] != self.path:
            connection.send_error(404, "not_found_error", f"no path {received.path}")
            return
        if broken := list(self.broken(received)):
            self.violations += broken
            connection.send_error(400, "invalid_request_error", broken[0])
            return
        play = self.script(received.body, received.number)
        await connection.play(
            play if isinstance(play, Play) else await play, {"model": MODEL, **received.body, "stream": True}
        )

    # -- what a request contains -----------------------------------------------------------------------------------

    def results(self, body: Json) -> dict[str, str]:
        """The tool results in a request, by call."""
        found = [
            block for message in body["messages"] for block in message["content"] if block["type"] == "tool_result"
        ]
        return {block["tool_use_id"]: _texts(block["content"]) for block in found}

    def images(self, body: Json) -> list[str]:
        """The images in a request, as Base64."""
        blocks = [block for message in body["messages"] for block in message["content"]]
        blocks += [b for block in blocks if isinstance(block.get("content"), list) for b in block["content"]]
        return [block["source"]["data"] for block in blocks if block["type"] == "image"]

    def tools(self, body: Json) -> list[str]:
        return [tool["name"] for tool in body.get("tools", ())]

    def thoughts(self, body: Json) -> list[str]:
        blocks = [block for message in body["messages"] for block in message["content"]]
        return [block["thinking"] for block in blocks if block["type"] == "thinking"]

    def task(self, body: Json) -> str:
        """The first text of the user."""
        return body["messages"][0]["content"][0]["text"]


def _texts(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class AnthropicApi(DialectApi):
    prefix = "anthropic/"

    def environ(self, folder: Path) -> dict[str, str]:
        return {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_AUTH_TOKEN": KEY}

    def unauthorized(self, received: Received) -> bool:
        return received.headers.get("authorization") != f"Bearer {KEY}"

    def broken(self, received: Received) -> Iterator[str]:
        yield from broken_rules(received.headers, received.body)


class FoundryApi(AnthropicApi):
    prefix = "foundry/"
    path = "/anthropic/v1/messages"

    def environ(self, folder: Path) -> dict[str, str]:
        return {"ANTHROPIC_FOUNDRY_BASE_URL": f"{self.url}/anthropic/", "ANTHROPIC_FOUNDRY_API_KEY": KEY}

    def unauthorized(self, received: Received) -> bool:
        return received.headers.get("x-api-key") != KEY


class _AwsApi(AnthropicApi):
    """A service with requests that are signed by AWS's rules."""

    service = ""

    def _aws(self) -> dict[str, str]:
        return {"AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}

    def unauthorized(self, received: Received) -> bool:
        scope = f"/{REGION}/{self.service}/aws4_request"
        signed = received.headers.get("authorization", "")
        return not (signed.startswith(f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/") and scope in signed)

    def error_body(self, status: int, kind: str, message: str) -> Json:
        return {"message": message} if status in (401, 403) else super().error_body(status, kind, message)


class AwsApi(_AwsApi):
    prefix = "aws/"
    service = "aws-external-anthropic"

    def environ(self, folder: Path) -> dict[str, str]:
        return {**self._aws(), "ANTHROPIC_AWS_BASE_URL": self.url, "ANTHROPIC_AWS_WORKSPACE_ID": WORKSPACE}

    def broken(self, received: Received) -> Iterator[str]:
        if received.headers.get("anthropic-workspace-id") != WORKSPACE:
            yield "anthropic-workspace-id: missing"
        yield from super().broken(received)


class BedrockApi(_AwsApi):
    prefix = "bedrock/"
    path = f"/model/{MODEL}/invoke-with-response-stream"
    service = "bedrock"
    stream_type = "application/vnd.amazon.eventstream"

    def environ(self, folder: Path) -> dict[str, str]:
        return {**self._aws(), "ANTHROPIC_BEDROCK_BASE_URL": self.url}

    def broken(self, received: Received) -> Iterator[str]:
        if received.body.get("anthropic_version") is None or {"model", "stream"} & set(received.body):
            yield "the body is not that of this service"
        named = {"model": MODEL, "stream": True, **received.body}
        yield from broken_rules({**received.headers, "anthropic-version": "x"}, named)

    def frames(self, play: Play, model: str) -> Iterator[bytes]:
        for frame in frames(play, model):
            for sent in frame.split(b"\n\n"):
                if data := sent.partition(b"data: ")[2]:
                    yield _amazon_message(data)

    def is_delta(self, frame: bytes) -> bool:
        start = frame.find(b'{"bytes"')
        return b"_delta" in base64.b64decode(json.loads(frame[start:-4])["bytes"])

    def error_frame(self) -> bytes:
        payload = json.dumps({"message": "Overloaded"}).encode()
        return _framed({":exception-type": "throttlingException", ":message-type": "exception"}, payload)


def _amazon_message(data: bytes) -> bytes:
    payload = json.dumps({"bytes": base64.b64encode(data).decode()}).encode()
    return _framed({":event-type": "chunk", ":message-type": "event"}, payload)


def _framed(headers: Mapping[str, str], payload: bytes) -> bytes:
    """A message of Amazon's event streams."""
    head = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack("!H", len(value)) + value.encode()
        for name, value in {**headers, ":content-type": "application/json"}.items()
    )
    prelude = struct.pack("!II", 16 + len(head) + len(payload), len(head))
    start = prelude + struct.pack("!I", zlib.crc32(prelude)) + head + payload
    return start + struct.pack("!I", zlib.crc32(start))


@cache
def _private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


class VertexApi(AnthropicApi):
    prefix = "vertex/"
    path = f"/v1/projects/{PROJECT}/locations/{REGION}/publishers/anthropic/models/{MODEL}:streamRawPredict"
    tokens = 0

    def environ(self, folder: Path) -> dict[str, str]:
        account = {
            "type": "service_account",
            "project_id": PROJECT,
            "private_key": _private_key(),
            "private_key_id": "1",
            "client_email": "deputy@example.com",
            "token_uri": f"{self.url}/token",
        }
        file = folder / "google.json"
        file.write_text(json.dumps(account))
        return {
            "ANTHROPIC_VERTEX_BASE_URL": f"{self.url}/v1",
            "CLOUD_ML_REGION": REGION,
            "ANTHROPIC_VERTEX_PROJECT_ID": PROJECT,
            "GOOGLE_APPLICATION_CREDENTIALS": str(file),
        }

    async def answer(self, connection: Connection, received: Received) -> None:
        if received.path == "/token":
            self.tokens += 1
            self.requests.remove(received)
            connection.send_json(200, {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"})
            return
        await super().answer(connection, replace(received, path=unquote(received.path)))

    def unauthorized(self, received: Received) -> bool:
        return received.headers.get("authorization") != f"Bearer {TOKEN}"

    def broken(self, received: Received) -> Iterator[str]:
        if received.body.get("anthropic_version") is None or "model" in received.body:
            yield "the body is not that of this service"
        yield from broken_rules({**received.headers, "anthropic-version": "x"}, {"model": MODEL, **received.body})


# -- OpenAI ----------------------------------------------------------------------------------------------------------


class ChatApi(DialectApi):
    prefix = "openai/"
    path = "/v1/chat/completions"

    def environ(self, folder: Path) -> dict[str, str]:
        return {"OPENAI_BASE_URL": f"{self.url}/v1", "OPENAI_API_KEY": KEY}

    def unauthorized(self, received: Received) -> bool:
        return self.needs_key and received.headers.get("authorization") != f"Bearer {KEY}"

    def error_body(self, status: int, kind: str, message: str) -> Json:
        return {"error": {"message": message, "type": kind, "code": kind}}

    def broken(self, received: Received) -> Iterator[str]:
        """Each call is answered once, right after it; arguments are texts; names are valid."""
        open_calls: list[str] = []
        for index, message in enumerate(received.body["messages"]):
            if message["role"] == "tool":
                if message["tool_call_id"] not in open_calls:
                    yield f"messages[{index}]: no call {message['tool_call_id']}"
                    return
                open_calls.remove(message["tool_call_id"])
                continue
            if open_calls:
                yield f"messages[{index}]: calls without a result: {open_calls}"
            open_calls = [call["id"] for call in message.get("tool_calls", ())]
            if not message["content"] and not open_calls:
                yield f"messages[{index}]: it is empty"
            for call in message.get("tool_calls", ()):
                json.loads(call["function"]["arguments"])

    def frames(self, play: Play, model: str) -> Iterator[bytes]:
        yield _chunk({"role": "assistant", "content": None})
        yield b": keep-alive\n\n"
        for index, block in enumerate(play.blocks):
            yield from self._deltas(index, block, play.piece)
        reason = {"tool_use": "tool_calls", "end_turn": "stop", "max_tokens": "length", "refusal": "content_filter"}
        yield _chunk({}, finish_reason=reason[stop_reason_of(play)])
        usage = {**play.usage, **play.final_usage}
        cached = usage.get("cache_read_input_tokens", 0)
        yield _data(
            {
                "choices": [],
                "usage": {
                    "prompt_tokens": usage["input_tokens"] + cached,
                    "completion_tokens": usage["output_tokens"],
                    "prompt_tokens_details": {"cached_tokens": cached},
                },
            }
        )
        yield b"data: [DONE]\n\n"

    def _deltas(self, index: int, block: Block, piece: int) -> Iterator[bytes]:
        match block["type"]:
            case "text":
                yield from (_chunk({"content": part}) for part in _cut(block["text"], piece))
            case "thinking":
                yield from (_chunk({"reasoning_content": part}) for part in _cut(block["thinking"], piece))
            case _:
                head = {"index": index, "id": block["id"], "type": "function"}
                yield _chunk({"tool_calls": [{**head, "function": {"name": block["name"], "arguments": ""}}]})
                for part in _cut(block["json"], piece):
                    yield _chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})

    def is_delta(self, frame: bytes) -> bool:
        return b'"content": "' in frame or b"reasoning_content" in frame or b'"arguments": "' in frame

    def error_frame(self) -> bytes:
        return _data({"error": {"message": "Overloaded", "type": "overloaded_error", "code": 529}})

    def ping_frame(self) -> bytes:
        return b": keep-alive\n\n"

    def results(self, body: Json) -> dict[str, str]:
        return {m["tool_call_id"]: m["content"] for m in body["messages"] if m["role"] == "tool"}

    def images(self, body: Json) -> list[str]:
        parts = [part for m in body["messages"] if isinstance(m["content"], list) for part in m["content"]]
        return [part["image_url"]["url"].partition("base64,")[2] for part in parts if part["type"] == "image_url"]

    def tools(self, body: Json) -> list[str]:
        return [tool["function"]["name"] for tool in body.get("tools", ())]

    def thoughts(self, body: Json) -> list[str]:
        return [m["reasoning_content"] for m in body["messages"] if "reasoning_content" in m]

    def task(self, body: Json) -> str:
        return next(m["content"] for m in body["messages"] if m["role"] == "user")


class ResponsesApi(ChatApi):
    prefix = "openai-responses/"
    path = "/v1/responses"

    def broken(self, received: Received) -> Iterator[str]:
        open_calls: list[str] = []
        for index, item in enumerate(received.body["input"]):
            match item["type"]:
                case "function_call":
                    open_calls.append(item["call_id"])
                    json.loads(item["arguments"])
                case "function_call_output" if item["call_id"] in open_calls:
                    open_calls.remove(item["call_id"])
                case "function_call_output":
                    yield f"input[{index}]: no call {item['call_id']}"
                case "message" if not item["content"]:
                    yield f"input[{index}]: it is empty"
                case _:
                    pass
        if open_calls:
            yield f"calls without an output: {open_calls}"
        if received.body["store"] is not False:
            yield "store: nothing may be stored"

    def frames(self, play: Play, model: str) -> Iterator[bytes]:
        yield _event("response.created", response={"id": "resp_1", "status": "in_progress"})
        for index, block in enumerate(play.blocks):
            yield from self._deltas(index, block, play.piece)
        usage = {**play.usage, **play.final_usage}
        cached = usage.get("cache_read_input_tokens", 0)
        reason = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}.get(stop_reason_of(play))
        status = "incomplete" if reason else "completed"
        response: Json = {
            "status": status,
            "incomplete_details": {"reason": reason} if reason else None,
            "usage": {
                "input_tokens": usage["input_tokens"] + cached,
                "output_tokens": usage["output_tokens"],
                "input_tokens_details": {"cached_tokens": cached},
            },
        }
        yield _event(f"response.{status}", response=response)

    def _deltas(self, index: int, block: Block, piece: int) -> Iterator[bytes]:
        match block["type"]:
            case "text":
                item: Json = {"type": "message", "role": "assistant", "content": []}
                kind, whole = "response.output_text.delta", block["text"]
            case "thinking":
                item = {"type": "reasoning", "id": f"rs_{index}", "summary": []}
                kind, whole = "response.reasoning_summary_text.delta", block["thinking"]
            case _:
                item = {"type": "function_call", "id": f"fc_{index}", "call_id": block["id"], "name": block["name"]}
                kind, whole = "response.function_call_arguments.delta", block["json"]
        yield _event("response.output_item.added", output_index=index, item=item)
        yield from (_event(kind, output_index=index, delta=part) for part in _cut(whole, piece))
        if item["type"] == "function_call":
            item["arguments"] = whole
        if item["type"] == "reasoning":
            item["encrypted_content"] = block["signature"]
        yield _event("response.output_item.done", output_index=index, item=item)

    def is_delta(self, frame: bytes) -> bool:
        return b".delta" in frame

    def error_frame(self) -> bytes:
        return _event("error", code="overloaded_error", message="Overloaded")

    def results(self, body: Json) -> dict[str, str]:
        return {i["call_id"]: _texts(i["output"]) for i in body["input"] if i["type"] == "function_call_output"}

    def images(self, body: Json) -> list[str]:
        parts = [part for item in body["input"] for key in ("content", "output") for part in _list(item.get(key))]
        return [part["image_url"].partition("base64,")[2] for part in parts if part["type"] == "input_image"]

    def tools(self, body: Json) -> list[str]:
        return [tool["name"] for tool in body.get("tools", ())]

    def thoughts(self, body: Json) -> list[str]:
        items = [item for item in body["input"] if item["type"] == "reasoning"]
        assert all(item["encrypted_content"] for item in items)
        return [part["text"] for item in items for part in item["summary"]]

    def task(self, body: Json) -> str:
        return next(item["content"][0]["text"] for item in body["input"] if item.get("role") == "user")


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _cut(text: str, piece: int) -> list[str]:
    size = piece or max(1, len(text))
    return [text[at : at + size] for at in range(0, len(text), size)]


def _data(value: Json) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def _chunk(delta: Json, finish_reason: str | None = None) -> bytes:
    return _data({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}], "usage": None})


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


CASES = {
    api.prefix.rstrip("/"): api
    for api in (AnthropicApi, ChatApi, ResponsesApi, BedrockApi, VertexApi, FoundryApi, AwsApi)
}
