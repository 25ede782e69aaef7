"""The Anthropic Messages API, at any base URL, through the official SDK.

Importing the SDK takes about a second, so it happens in a thread at the first request. Only the SDK's client and raw
events are used: its event accumulator fails on tool input that is not JSON, hides truncated input, and takes twice the
time. The adapter never retries; ``run/`` retries, where the wait is visible.
"""

import json
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from deputy_agents.collector import collector_paused
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

_import_lock = threading.Lock()


class AnthropicModel:
    """A :class:`deputy_agents.ports.model.Model` for all models of one endpoint. It holds connections, no conversation.

    Close the iterator of :meth:`stream` (``contextlib.aclosing``) to leave it early; cancelling the task also closes
    it.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._active_endpoint = endpoint
        """The endpoint with the credential in use."""
        self._client: AsyncAnthropic | None = None
        self._clients: list[AsyncAnthropic] = []
        self._connect_lock = anyio.Lock()
        self._key_accepted = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        builder = ReplyBuilder()
        try:
            events = await self._open(request)
            async with events:
                _check_stream(events.response.headers.get("content-type", ""))
                self._key_accepted = True
                yield RequestAccepted()
                raw = events.raw_events(events.response)
                async for sent in raw:
                    if (part := builder.add(_event(sent.data, self._active_endpoint))) is not None:
                        yield part
                    if builder.complete:
                        break
                # The connection can be reused only after the body was read to its end.
                with suppress(Exception), anyio.move_on_after(_DRAIN_TIMEOUT):
                    async for _ in raw:
                        pass
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001 - the SDK and its HTTP client raise more than they declare
            # Without the cause, because some error texts contain the key.
            raise self._after_error(_to_model_error(error, self._active_endpoint)) from None
        if (reply := builder.reply()) is None:
            raise model_error(ModelErrorKind.CUT_STREAM)
        yield reply

    async def aclose(self) -> None:
        """Closes all connections; open requests fail."""
        self._client = None
        while self._clients:
            await self._clients.pop().close()

    async def _open(self, request: ModelRequest) -> "AsyncStream[object]":
        client = await self._connect()
        from anthropic import AsyncStream

        return await client.post(
            "/v1/messages", cast_to=object, body=to_params(request), stream=True, stream_cls=AsyncStream[object]
        )

    async def _connect(self) -> "AsyncAnthropic":
        async with self._connect_lock:
            if self._client is None:
                self._active_endpoint = await resolve_credential(self._endpoint)
                self._client = await anyio.to_thread.run_sync(
                    _import_and_build, self._active_endpoint, abandon_on_cancel=True
                )
                self._clients.append(self._client)
            return self._client

    def _after_error(self, error: ModelError) -> ModelError:
        """A key from a command or keyring may have expired: the next request reads it again, and the error is
        retryable if the old key was accepted before."""
        key_can_change = self._endpoint.key_command or self._endpoint.keyring
        if error.kind is ModelErrorKind.AUTHENTICATION and key_can_change:
            error.retryable, self._key_accepted = self._key_accepted, False
            self._client = None  # open streams of the old client continue
        return error


def _import_and_build(endpoint: Endpoint) -> "AsyncAnthropic":
    """Imports the SDK and builds a client, in a thread. To keep the event loop responsive, garbage collection is paused
    and the thread switch interval is shortened.
    """
    with _import_lock, collector_paused():
        interval = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_INTERVAL)
        try:
            return _build_client(endpoint)
        finally:
            sys.setswitchinterval(interval)


def _build_client(endpoint: Endpoint) -> "AsyncAnthropic":
    import anthropic
    import httpx2

    timeout = httpx2.Timeout(endpoint.idle_timeout, connect=endpoint.connect_timeout)
    client = anthropic.AsyncAnthropic(
        base_url=endpoint.base_url,
        # An explicit credential keeps the SDK from searching for profiles. It accepts only one.
        api_key=endpoint.key or None,
        auth_token=None if endpoint.key else endpoint.token,
        max_retries=0,
        timeout=timeout,
        default_headers=dict(endpoint.headers),
        http_client=_http_client(endpoint),
    )
    client.platform_headers()  # reads files on the first call
    return client


def _http_client(endpoint: Endpoint) -> "DefaultAsyncHttpxClient | None":
    """``None`` selects the SDK's default client, which uses the proxy of the environment."""
    from anthropic import DefaultAsyncHttpxClient

    if endpoint.is_loopback:
        return DefaultAsyncHttpxClient(trust_env=False)  # a proxy cannot reach servers on this machine
    return DefaultAsyncHttpxClient(proxy=endpoint.proxy) if endpoint.proxy else None


def _check_stream(content_type: str) -> None:
    """Raises a ModelError that is not retryable: a web page or a JSON body is not a transient failure."""
    if content_type.startswith(("text/html", "application/json")):
        detail = f"the response has the type {content_type} instead of an event stream of the Messages API"
        raise model_error(ModelErrorKind.NOT_FOUND, detail)


def _event(data: str, endpoint: Endpoint) -> Json:
    event = as_json(json.loads(data) if data else None)
    if event.get("type") == "error":
        error = as_json(event.get("error"))
        raise service_error(as_text(error.get("type")), endpoint.safe(as_text(error.get("message"))))
    return event


def _to_model_error(error: Exception, endpoint: Endpoint) -> ModelError:
    """Converts an exception of the SDK or its HTTP client."""
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
