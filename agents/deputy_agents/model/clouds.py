"""Claude on Amazon Bedrock, Google Vertex AI, Microsoft Foundry and AWS, through the clients of Anthropic's SDK for
them. They find credentials in the way of their platform, and sign the requests."""

import json
from base64 import b64decode
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from pydantic_core import from_json

from deputy_agents.concurrency.off_loop import off_loop
from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.domain.model_card import ModelCard
from deputy_agents.model.anthropic import NO_KEY, MessagesDialect, http_client, timeout_of
from deputy_agents.model.endpoint import Endpoint
from deputy_agents.model.error_mapping import model_error
from deputy_agents.model.error_words import error_words
from deputy_agents.model.extras import BEDROCK, VERTEX, Extra
from deputy_agents.model.provider_endpoints import NO_RESOURCE
from deputy_agents.model.reply_builder import Json, as_json, as_text
from deputy_agents.model.response_body import ResponseBody
from deputy_agents.model.service import OpenedStream, ServiceModel, shown_error
from deputy_agents.ports.model import ModelClient, ModelRequest

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


class _CloudDialect(MessagesDialect):
    """The Messages API on a platform. None of them lists its models."""

    async def list_models(self, client: "AsyncAnthropic") -> Sequence[tuple[str, ModelCard]]:
        raise model_error(ModelErrorKind.NOT_FOUND, "this provider lists no models")


class _RewrittenDialect(_CloudDialect):
    """A platform whose client changes the body of a request, so it needs the body as an object."""

    async def open(self, client: "AsyncAnthropic", request: ModelRequest) -> AbstractAsyncContextManager[OpenedStream]:
        from anthropic import AsyncStream

        encoded = await self.bodies.encode(request)
        body = await off_loop(len(encoded), lambda: from_json(encoded))
        return await client.post("/v1/messages", cast_to=object, body=body, stream=True, stream_cls=AsyncStream[object])


class BedrockDialect(_RewrittenDialect):
    """Signed requests, and events in a format of Amazon."""

    extra: Extra | None = BEDROCK

    def build(self, endpoint: Endpoint) -> "AsyncAnthropic":
        from anthropic.lib.bedrock import AsyncAnthropicBedrock

        for module in ("boto3", "botocore.eventstream"):
            import_module(module)  # an error now is about the missing library
        option = endpoint.option
        signed = endpoint.key is None
        client = AsyncAnthropicBedrock(
            api_key=endpoint.key,
            aws_region=option("region"),
            aws_access_key=option("access_key") if signed else None,
            aws_secret_key=option("secret_key") if signed else None,
            aws_session_token=option("session_token") if signed else None,
            base_url=endpoint.base_url if option("region") else None,
            max_retries=0,
            timeout=timeout_of(endpoint),
            default_headers=dict(endpoint.headers),
            http_client=http_client(endpoint),
        )
        return cast("AsyncAnthropic", client)  # they share no type, but what is used here

    async def events(self, stream: OpenedStream, body: ResponseBody, endpoint: Endpoint) -> AsyncGenerator[Json]:
        """Amazon frames the events in a format of its own. The SDK's decoder would block the event loop, because it
        reads the description of the service."""
        del stream
        buffer = cast("_MessageBuffer", import_module("botocore.eventstream").EventStreamBuffer())
        async for part in body.aiter_bytes():
            for message in _messages(buffer, part):
                yield _amazon_event(message, endpoint)


class _AmazonMessage(Protocol):
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def payload(self) -> bytes: ...


class _MessageBuffer(Protocol):
    def add_data(self, data: bytes) -> None: ...
    def __iter__(self) -> Iterator[_AmazonMessage]: ...


def _messages(buffer: _MessageBuffer, part: bytes) -> list[_AmazonMessage]:
    """The messages that ``part`` completes.

    Raises:
        ModelError: they are damaged.
    """
    try:
        buffer.add_data(part)
        return list(buffer)
    except Exception as error:  # noqa: BLE001 - the library raises errors of its own for damaged data
        raise model_error(ModelErrorKind.CUT_STREAM, type(error).__name__) from None


def _amazon_event(message: _AmazonMessage, endpoint: Endpoint) -> Json:
    """The event in a message.

    Raises:
        ModelError: it is an error.
    """
    payload = as_json(json.loads(message.payload or b"{}"))
    headers = message.headers
    if headers.get(":message-type") != "event":
        kind = headers.get(":exception-type") or headers.get(":error-code", "")
        text = as_text(payload.get("message")) or headers.get(":error-message", kind)
        raise shown_error(error_words({"type": kind, "message": text}), endpoint)
    return as_json(json.loads(b64decode(as_text(payload.get("bytes"))) or b"{}"))


class VertexDialect(_RewrittenDialect):
    """Requests with an access token of Google."""

    extra: Extra | None = VERTEX

    def build(self, endpoint: Endpoint) -> "AsyncAnthropic":
        from anthropic import not_given
        from anthropic.lib.vertex import AsyncAnthropicVertex

        if endpoint.key is None:
            import_module("google.auth")  # an error now is about the missing library
        client = AsyncAnthropicVertex(
            region=endpoint.option("region") or not_given,
            project_id=endpoint.option("project") or not_given,
            access_token=endpoint.key,
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=timeout_of(endpoint),
            default_headers=dict(endpoint.headers),
            http_client=http_client(endpoint),
        )
        return cast("AsyncAnthropic", client)


class FoundryDialect(_CloudDialect):
    """Requests with a key, as for Anthropic itself."""

    def build(self, endpoint: Endpoint) -> "AsyncAnthropic":
        from anthropic import AsyncAnthropicFoundry

        if NO_RESOURCE in endpoint.base_url:
            message = "The resource of Microsoft Foundry is not set."
            raise ModelError(
                message, ModelErrorKind.NOT_CONFIGURED, action="Set ANTHROPIC_FOUNDRY_RESOURCE to its name."
            )
        return AsyncAnthropicFoundry(
            base_url=endpoint.base_url,
            api_key=endpoint.key or NO_KEY,
            max_retries=0,
            timeout=timeout_of(endpoint),
            default_headers=dict(endpoint.headers),
            http_client=http_client(endpoint),
        )


class AwsDialect(_CloudDialect):
    """Signed requests, or requests with a key."""

    extra: Extra | None = BEDROCK

    def build(self, endpoint: Endpoint) -> "AsyncAnthropic":
        from anthropic import AsyncAnthropicAWS

        option = endpoint.option
        signed = endpoint.key is None
        return AsyncAnthropicAWS(
            api_key=endpoint.key,
            aws_region=option("region"),
            aws_access_key=option("access_key") if signed else None,
            aws_secret_key=option("secret_key") if signed else None,
            aws_session_token=option("session_token") if signed else None,
            workspace_id=option("workspace"),
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=timeout_of(endpoint),
            default_headers=dict(endpoint.headers),
            http_client=http_client(endpoint),
        )


def bedrock_model(endpoint: Endpoint) -> ModelClient:
    """A client of Amazon Bedrock."""
    return ServiceModel(endpoint, BedrockDialect())


def vertex_model(endpoint: Endpoint) -> ModelClient:
    """A client of Google Vertex AI."""
    return ServiceModel(endpoint, VertexDialect())


def foundry_model(endpoint: Endpoint) -> ModelClient:
    """A client of Microsoft Foundry."""
    return ServiceModel(endpoint, FoundryDialect())


def aws_model(endpoint: Endpoint) -> ModelClient:
    """A client of Claude on AWS."""
    return ServiceModel(endpoint, AwsDialect())
