"""The Anthropic Messages API, at any base URL, through the official SDK.

The SDK takes about a second to import, so that happens at the first request, in a thread. Of the SDK, the client
and its raw events are used: its own gathering of events fails on tool input that is no JSON, hides input that was
cut, and costs twice the time. It never retries; that is the business of those who can show it.
"""

import gc
import json
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.model.credential import resolve_credential
from deputy_agents.model.endpoint import Endpoint
from deputy_agents.model.error_mapping import model_error, service_error
from deputy_agents.model.reply_builder import Json, ReplyBuilder, as_json, as_text
from deputy_agents.model.request_params import to_params
from deputy_agents.ports.model import ModelEvent, ModelRequest, RequestAccepted

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream, DefaultAsyncHttpxClient

_DRAIN_TIMEOUT = 1.0
_SWITCH_INTERVAL = 0.001

_loading = threading.Lock()


class AnthropicModel:
    """A :class:`deputy_agents.ports.model.Model` for all models of one endpoint. It holds connections, no conversation.

    Close the iterator of :meth:`stream` (``contextlib.aclosing``) when leaving it early; a cancelled task need not.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._keyed = endpoint
        """The endpoint with the key that is in use."""
        self._client: AsyncAnthropic | None = None
        self._clients: list[AsyncAnthropic] = []
        self._connecting = anyio.Lock()
        self._worked = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        answer = ReplyBuilder()
        try:
            events = await self._open(request)
            async with events:
                _check_stream(events.response.headers.get("content-type", ""))
                self._worked = True
                yield RequestAccepted()
                raw = events.raw_events(events.response)
                async for sent in raw:
                    if (part := answer.take(_event(sent.data, self._keyed))) is not None:
                        yield part
                    if answer.stopped:
                        break
                # Only a body that was read to its end leaves a connection that can be used again.
                with suppress(Exception), anyio.move_on_after(_DRAIN_TIMEOUT):
                    async for _ in raw:
                        pass
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001 - the SDK and its HTTP client raise more than they declare
            # Without the cause: the texts of some hold the key.
            raise self._refreshed(_told(error, self._keyed)) from None
        if (reply := answer.reply()) is None:
            raise model_error(ModelErrorKind.CUT_STREAM)
        yield reply

    async def aclose(self) -> None:
        """Closes all connections; requests that still run fail."""
        self._client = None
        while self._clients:
            await self._clients.pop().close()

    async def _open(self, request: ModelRequest) -> "AsyncStream[object]":
        client = await self._connected()
        from anthropic import AsyncStream

        return await client.post(
            "/v1/messages", cast_to=object, body=to_params(request), stream=True, stream_cls=AsyncStream[object]
        )

    async def _connected(self) -> "AsyncAnthropic":
        async with self._connecting:
            if self._client is None:
                self._keyed = await resolve_credential(self._endpoint)
                self._client = await anyio.to_thread.run_sync(_build, self._keyed, abandon_on_cancel=True)
                self._clients.append(self._client)
            return self._client

    def _refreshed(self, error: ModelError) -> ModelError:
        """A key of a command or a keyring may have run out: it is asked for again, and if the old one was good before,
        so is another try."""
        kept_elsewhere = self._endpoint.key_command or self._endpoint.keyring
        if error.kind is ModelErrorKind.AUTHENTICATION and kept_elsewhere:
            error.retryable, self._worked = self._worked, False
            self._client = None  # its streams go on
        return error


def _build(endpoint: Endpoint) -> "AsyncAnthropic":
    """Imports the SDK and builds a client, in a thread. Collections and long slices of this thread would stall the
    event loop, so the one is put off and the other cut short. What was imported stays: no later collection looks at it.
    """
    with _loading:
        collects, interval = gc.isenabled(), sys.getswitchinterval()
        gc.disable()
        sys.setswitchinterval(_SWITCH_INTERVAL)
        try:
            return _client(endpoint)
        finally:
            sys.setswitchinterval(interval)
            if collects:
                gc.freeze()
                gc.enable()


def _client(endpoint: Endpoint) -> "AsyncAnthropic":
    import anthropic
    import httpx2

    timeout = httpx2.Timeout(endpoint.idle_timeout, connect=endpoint.connect_timeout)
    client = anthropic.AsyncAnthropic(
        base_url=endpoint.base_url,
        # An explicit credential also keeps the SDK from looking for profiles; it takes only one.
        api_key=endpoint.key or None,
        auth_token=None if endpoint.key else endpoint.token,
        max_retries=0,
        timeout=timeout,
        default_headers=dict(endpoint.headers),
        http_client=_http(endpoint),
    )
    client.platform_headers()  # reads files, once
    return client


def _http(endpoint: Endpoint) -> "DefaultAsyncHttpxClient | None":
    """``None`` for the SDK's own, which follows the proxy of the environment."""
    from anthropic import DefaultAsyncHttpxClient

    if endpoint.is_loopback:
        return DefaultAsyncHttpxClient(trust_env=False)  # no proxy reaches this machine's own servers
    return DefaultAsyncHttpxClient(proxy=endpoint.proxy) if endpoint.proxy else None


def _check_stream(content_type: str) -> None:
    """A web page or a whole answer in place of a stream comes again however often one asks."""
    if content_type.startswith(("text/html", "application/json")):
        raise model_error(ModelErrorKind.NOT_FOUND, f"what answers is no stream of the Messages API but {content_type}")


def _event(data: str, endpoint: Endpoint) -> Json:
    event = as_json(json.loads(data) if data else None)
    if event.get("type") == "error":
        error = as_json(event.get("error"))
        raise service_error(as_text(error.get("type")), endpoint.safe(as_text(error.get("message"))))
    return event


def _told(error: Exception, endpoint: Endpoint) -> ModelError:
    """What the SDK or its HTTP client raised, as a :class:`ModelError`."""
    import anthropic
    import httpx2

    match error:
        case anthropic.APIStatusError():
            detail = error.api_message or ("" if isinstance(error.body, dict) else error.response.reason_phrase)
            return service_error(
                error.type, endpoint.safe(detail), status=error.status_code, headers=error.response.headers
            )
        case anthropic.APITimeoutError() | httpx2.TimeoutException():
            return model_error(ModelErrorKind.TIMEOUT)
        case anthropic.APIConnectionError():
            return model_error(ModelErrorKind.CONNECTION, _text(error.__cause__ or error, endpoint))
        case httpx2.HTTPError() | UnicodeDecodeError() | json.JSONDecodeError():
            return model_error(ModelErrorKind.CUT_STREAM)
        case _:
            return model_error(ModelErrorKind.UNKNOWN, _text(error, endpoint))


def _text(error: BaseException, endpoint: Endpoint) -> str:
    return endpoint.safe(str(error) or type(error).__name__)
