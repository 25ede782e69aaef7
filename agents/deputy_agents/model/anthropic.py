"""The Anthropic Messages API, at any base URL, through the official SDK.

The SDK's event accumulator is not used: it fails on tool input that is not JSON, hides truncated input, and takes twice
the time.
"""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, cast

from deputy_agents.domain.model_card import ModelCard
from deputy_agents.model.endpoint import Endpoint
from deputy_agents.model.error_words import error_words
from deputy_agents.model.extras import Extra
from deputy_agents.model.model_list import read_model_list
from deputy_agents.model.reply_builder import Json, ReplyBuilder, as_json
from deputy_agents.model.request_body import RequestBodies
from deputy_agents.model.response_body import ResponseBody
from deputy_agents.model.service import OpenedStream, SdkErrors, ServiceModel, shown_error
from deputy_agents.ports.model import ModelRequest

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

NO_KEY = "none"
"""Stands for a key where the SDK needs one. It is never sent."""


class MessagesDialect:
    """A :class:`deputy_agents.model.service.Dialect` for clients of the type of Anthropic's own."""

    sdk = "anthropic"
    extra: Extra | None = None

    def __init__(self) -> None:
        self.bodies = RequestBodies()

    def build(self, endpoint: Endpoint) -> "AsyncAnthropic":
        import anthropic

        client = anthropic.AsyncAnthropic(
            base_url=endpoint.base_url,
            # An explicit credential keeps the SDK from searching for profiles, whose token must not go to this service.
            # It accepts only one.
            api_key=endpoint.key or (None if endpoint.token else NO_KEY),
            auth_token=None if endpoint.key else endpoint.token,
            max_retries=0,
            timeout=timeout_of(endpoint),
            default_headers=_headers(endpoint),
            http_client=http_client(endpoint),
        )
        client.platform_headers()  # reads files on the first call
        return client

    async def open(self, client: "AsyncAnthropic", request: ModelRequest) -> AbstractAsyncContextManager[OpenedStream]:
        from anthropic import AsyncStream

        # Encoded here, because the SDK would copy and encode the whole history for each request.
        body = await self.bodies.encode(request)
        return await client.post(
            "/v1/messages", cast_to=object, content=body, stream=True, stream_cls=AsyncStream[object]
        )

    async def events(self, stream: OpenedStream, body: ResponseBody, endpoint: Endpoint) -> AsyncGenerator[Json]:
        from anthropic import AsyncStream

        async for sent in AsyncStream[object].raw_events(cast("httpx2.Response", body)):
            yield _event(sent.event, sent.data, endpoint)

    def builder(self) -> ReplyBuilder:
        return ReplyBuilder()

    async def list_models(self, client: "AsyncAnthropic") -> Sequence[tuple[str, ModelCard]]:
        return await read_model_list(lambda path: client.get(path, cast_to=object))

    def errors(self) -> SdkErrors:
        return sdk_errors()


class AnthropicModel(ServiceModel["AsyncAnthropic"]):
    """A :class:`deputy_agents.ports.model.ModelClient` for any service of the Messages API."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, MessagesDialect())


def sdk_errors() -> SdkErrors:
    """The exceptions of Anthropic's SDK."""
    import anthropic

    return SdkErrors(anthropic.APIStatusError, anthropic.APITimeoutError, anthropic.APIConnectionError)


def timeout_of(endpoint: Endpoint) -> "httpx2.Timeout":
    import httpx2

    return httpx2.Timeout(endpoint.idle_timeout, connect=endpoint.connect_timeout)


def http_client(endpoint: Endpoint) -> "DefaultAsyncHttpxClient":
    """An HTTP client of the SDK, with limits of its own."""
    from anthropic import DefaultAsyncHttpxClient

    from deputy_agents.web.connect import LimitedTransport, environment_proxy

    # A proxy cannot reach servers on this machine.
    proxy = None if endpoint.is_loopback else endpoint.proxy or environment_proxy(endpoint.base_url)
    return DefaultAsyncHttpxClient(transport=LimitedTransport(proxy, endpoint.connect_timeout), trust_env=False)


def _headers(endpoint: Endpoint) -> dict[str, str]:
    """The headers of the settings. Without a credential, the headers for it are left out."""
    from anthropic import Omit

    own = {name.lower() for name, _ in endpoint.headers}
    left_out = (
        () if endpoint.credential else (name for name in ("Authorization", "X-Api-Key") if name.lower() not in own)
    )
    # The SDK accepts Omit here, but its annotation does not say so.
    return cast("dict[str, str]", {**{name: Omit() for name in left_out}, **dict(endpoint.headers)})


def _event(name: str | None, data: str, endpoint: Endpoint) -> Json:
    """The event that a service has sent.

    Raises:
        ModelError: it is an error, of any shape.
    """
    if name == "error":
        raise shown_error(error_words(data), endpoint)
    event = as_json(json.loads(data) if data else None)
    if event.get("type") == "error" or ("error" in event and "type" not in event):
        raise shown_error(error_words(event), endpoint)
    return event
