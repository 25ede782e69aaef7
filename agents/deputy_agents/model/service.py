"""The client of a model service, whatever its dialect, through the official SDK for it.

Importing an SDK takes about a second, so it happens in a thread at the first request. Only the SDK's client and raw
events are used. The client never retries; ``run/`` retries, where the wait is visible.
"""

import json
import sys
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import checkpoint

from deputy_agents.collector import collector_paused
from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.domain.message import Reply
from deputy_agents.domain.model_card import ModelCard
from deputy_agents.model.credential import resolve_credential
from deputy_agents.model.endpoint import Endpoint
from deputy_agents.model.error_mapping import model_error, service_error, wrong_address
from deputy_agents.model.error_words import ErrorWords, error_words
from deputy_agents.model.extras import Extra, missing_extra
from deputy_agents.model.reply_builder import Json
from deputy_agents.model.response_body import Response, ResponseBody, read_words
from deputy_agents.ports.model import ModelEvent, ModelRequest, RequestAccepted, TextPart, ThinkingPart, UsageReported

_DRAIN_TIMEOUT = 1.0
_LIST_TIMEOUT = 10.0
_PING_TIMEOUTS = 5
"""A service that sends nothing but pings is given up after this multiple of the idle timeout."""
_SWITCH_INTERVAL = 0.001
_SHARE = 0.01
"""Seconds after which other tasks run while a reply arrives faster than it is handled."""
_CHECK_COMMAND = "Check the key that the program in the setting `api.keyCommand` prints."
_CHECK_KEYRING = "Check the key in the keyring of your system (setting `api.keyring`)."
_CHECK_CERTIFICATE = (
    "Check the setting `baseUrl`. To trust a certificate of your own, set SSL_CERT_FILE to its file and restart Deputy."
)

PREFIXES = (
    "The prefixes of providers are `anthropic/`, `openai/`, `openai-responses/`, `bedrock/`, `vertex/`, `foundry/` and "
    "`aws/`; any other is a part of the name."
)
_ABOUT_ADDRESS = frozenset(
    {
        *(ModelErrorKind.AUTHENTICATION, ModelErrorKind.PERMISSION, ModelErrorKind.NOT_FOUND, ModelErrorKind.SERVER),
        *(ModelErrorKind.CONNECTION, ModelErrorKind.TIMEOUT, ModelErrorKind.UNKNOWN),
    }
)
"""Errors that a wrong address can cause. Their messages name it."""

_import_lock = threading.Lock()
_Result = TypeVar("_Result")


class StreamedResponse(Response, Protocol):
    """A response of the HTTP client."""

    @property
    def headers(self) -> Mapping[str, str]: ...


class OpenedStream(Protocol):
    """A stream of the SDK."""

    @property
    def response(self) -> StreamedResponse: ...


class Client(Protocol):
    """A client of the SDK."""

    async def close(self) -> None: ...


class Builder(Protocol):
    """Builds a reply from the events of a dialect."""

    @property
    def ended(self) -> bool:
        """All content has arrived: no later failure takes the reply back."""
        ...

    @property
    def complete(self) -> bool:
        """No further event counts."""
        ...

    def add(self, event: Json) -> TextPart | ThinkingPart | UsageReported | None:
        """Adds one event; returns the part of the reply that it contains, if any."""
        ...

    def close(self) -> None:
        """The stream has ended in order."""
        ...

    def reply(self) -> Reply | None:
        """The reply, or ``None`` if the stream ended before it was complete."""
        ...


@dataclass(frozen=True, slots=True)
class SdkErrors:
    """The exceptions of an SDK."""

    status: type[Exception]
    timeout: type[Exception]
    connection: type[Exception]


C = TypeVar("C", bound=Client)


class Dialect(Protocol[C]):
    """How one kind of service is used. ``sdk`` is the module to import, ``extra`` what installs it."""

    @property
    def sdk(self) -> str: ...
    @property
    def extra(self) -> Extra | None: ...

    def build(self, endpoint: Endpoint) -> C:
        """A client. It runs in a thread after the import of the SDK."""
        ...

    async def open(self, client: C, request: ModelRequest) -> AbstractAsyncContextManager[OpenedStream]:
        """Sends a request."""
        ...

    def events(self, stream: OpenedStream, body: ResponseBody, endpoint: Endpoint) -> AsyncIterator[Json]:
        """The events of a reply. Those of the type ``ping`` say nothing. ``body`` is that of the stream.

        Raises:
            ModelError: the service has sent an error.
        """
        ...

    def builder(self) -> Builder: ...

    async def list_models(self, client: C) -> Sequence[tuple[str, ModelCard]]: ...

    def errors(self) -> SdkErrors: ...


class ServiceModel(Generic[C]):
    """A :class:`deputy_agents.ports.model.ModelClient`. It holds connections, no conversation.

    Close the iterator of :meth:`stream` (``contextlib.aclosing``) to leave it early; cancelling the task also closes
    it.
    """

    def __init__(self, endpoint: Endpoint, dialect: Dialect[C]) -> None:
        self._endpoint = endpoint
        self._active_endpoint = endpoint
        """The endpoint with the credential in use."""
        self._dialect = dialect
        self._client: C | None = None
        self._clients: list[C] = []
        self._connect_lock = anyio.Lock()
        self._key_accepted = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        builder = self._dialect.builder()
        try:
            client = await self._connect()
            async with await self._dialect.open(client, request) as stream:
                await _check_stream(stream.response, self._active_endpoint)
                self._key_accepted = True
                yield RequestAccepted()
                body = ResponseBody(stream.response)
                events = self._dialect.events(stream, body, self._active_endpoint)
                heard = shared = time.monotonic()
                while (event := await _next(events, builder)) is not None:
                    now = time.monotonic()
                    if now - shared > _SHARE:  # as long as data has arrived, nothing else makes this task wait
                        await checkpoint()
                        shared = time.monotonic()
                    if event.get("type") != "ping":
                        heard = now
                    elif now - heard > _PING_TIMEOUTS * self._endpoint.idle_timeout:
                        raise model_error(ModelErrorKind.TIMEOUT, "It sent only pings.")
                    if (part := builder.add(event)) is not None:
                        yield part
                    if builder.complete:
                        break
                # The connection can be reused only after the body was read to its end.
                with suppress(Exception), anyio.move_on_after(_DRAIN_TIMEOUT):
                    async for _ in events:
                        pass
                if not builder.ended and (words := body.error()) is not None:
                    raise shown_error(words, self._active_endpoint)
                builder.close()
        except ModelError as error:
            raise self._named(error, request) from None
        except Exception as error:  # noqa: BLE001 - SDKs and their HTTP client raise more than they declare
            # Without the cause, because some error texts contain the key.
            raise self._after_error(self._named(self._to_model_error(error), request)) from None
        if (reply := builder.reply()) is None:
            raise model_error(ModelErrorKind.CUT_STREAM)
        yield reply

    async def prepare(self) -> None:
        with suppress(Exception):  # the first request will fail in the same way, and say why
            if self._endpoint.key_command or self._endpoint.keyring:  # may ask the user
                await anyio.to_thread.run_sync(self._import_sdk, abandon_on_cancel=True)
            else:
                await self._connect()

    async def list_models(self) -> Sequence[tuple[str, ModelCard]]:
        try:
            client = await self._connect()
            with anyio.fail_after(_LIST_TIMEOUT):
                return await self._dialect.list_models(client)
        except ModelError as error:
            raise with_names(error, self._endpoint) from None
        except TimeoutError:
            raise model_error(ModelErrorKind.TIMEOUT) from None
        except Exception as error:  # noqa: BLE001 - as above
            raise self._after_error(with_names(self._to_model_error(error), self._endpoint)) from None

    async def check(self) -> None:
        try:
            await self._connect()
        except ModelError as error:
            raise with_names(error, self._endpoint) from None
        except Exception as error:  # noqa: BLE001 - as above
            raise with_names(self._to_model_error(error), self._endpoint) from None

    async def aclose(self) -> None:
        """Closes all connections; open requests fail."""
        self._client = None
        while self._clients:
            await self._clients.pop().close()

    async def _connect(self) -> C:
        async with self._connect_lock:
            if self._client is None:
                self._active_endpoint = await resolve_credential(self._endpoint)
                self._client = await anyio.to_thread.run_sync(self._import_and_build, abandon_on_cancel=True)
                self._clients.append(self._client)
            return self._client

    def _import_sdk(self) -> None:
        """Imports the SDK, in a thread.

        Raises:
            ModelError: it is not installed.
        """
        try:
            responsively(lambda: __import__(self._dialect.sdk))
        except ImportError:
            if self._dialect.extra is None:
                raise
            raise missing_extra(self._dialect.extra) from None

    def _import_and_build(self) -> C:
        self._import_sdk()
        return responsively(lambda: self._dialect.build(self._active_endpoint))

    def _after_error(self, error: ModelError) -> ModelError:
        """A key from a command or keyring may have expired: the next request reads it again, and the error is
        retryable if the old key was accepted before."""
        key_can_change = self._endpoint.key_command or self._endpoint.keyring
        if error.kind is ModelErrorKind.AUTHENTICATION and key_can_change:
            error.retryable, self._key_accepted = self._key_accepted, False
            self._client = None  # open streams of the old client continue
            error.action = _CHECK_COMMAND if self._endpoint.key_command else _CHECK_KEYRING
        return with_names(error, self._endpoint)

    def _named(self, error: ModelError, request: ModelRequest) -> ModelError:
        error = with_names(_with_address(error, self._active_endpoint), self._endpoint)
        if error.kind is ModelErrorKind.NOT_FOUND and "/" in request.model:
            error.action = f"{error.action} {PREFIXES}"
        return error

    def _to_model_error(self, error: Exception) -> ModelError:
        """Converts an exception of the SDK or its HTTP client."""
        if isinstance(error, ImportError) and self._dialect.extra is not None:
            return missing_extra(self._dialect.extra)
        return _to_model_error(error, self._active_endpoint, self._dialect.errors())


async def _next(events: AsyncIterator[Json], builder: Builder) -> Json | None:
    """The next event. Once the reply has ended, it may fail or be late."""
    if not builder.ended:
        return await anext(events, None)
    with suppress(Exception), anyio.move_on_after(_DRAIN_TIMEOUT):
        return await anext(events, None)
    return None


def responsively(work: Callable[[], _Result]) -> _Result:
    """``work()``, during which the event loop stays responsive: garbage collection is paused and the thread switch
    interval is shortened."""
    with _import_lock, collector_paused():
        interval = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_INTERVAL)
        try:
            return work()
        finally:
            sys.setswitchinterval(interval)


async def _check_stream(response: StreamedResponse, endpoint: Endpoint) -> None:
    """Raises a ModelError for a response that is no event stream: a JSON body that is an error, or something else that
    another attempt would get too."""
    content_type = response.headers.get("content-type", "")
    if not content_type.startswith(("text/html", "application/json", "application/problem+json")):
        return
    words = await read_words(response)
    if words.is_error:
        raise shown_error(words, endpoint, headers=response.headers)
    detail = f"the response has the type {content_type} instead of an event stream"
    if words.text:
        detail = f"{detail}: {endpoint.safe(words.text)}"
    raise wrong_address(detail)


def shown_error(
    words: ErrorWords, endpoint: Endpoint, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> ModelError:
    """The error for ``words`` of a service, without secrets."""
    safe = replace(words, text=endpoint.safe(words.text))
    return service_error(safe, status=status, headers=headers)


def with_names(error: ModelError, endpoint: Endpoint) -> ModelError:
    """``error``, whose action names the variables and settings of this provider."""
    for general, name in endpoint.names:
        error.action = error.action.replace(general, name)
    return error


def _to_model_error(error: Exception, endpoint: Endpoint, sdk: SdkErrors) -> ModelError:
    import httpx2

    from deputy_agents.web.connect import CertificatesMissing, Unreachable

    if isinstance(error, sdk.status):
        response: httpx2.Response = getattr(error, "response")  # noqa: B009 - SDKs share no type
        words = error_words(getattr(error, "body", None))
        if not words.text:
            words = replace(words, text=response.reason_phrase)
        return shown_error(words, endpoint, status=response.status_code, headers=response.headers)
    if isinstance(error, (sdk.timeout, httpx2.TimeoutException)):
        return model_error(ModelErrorKind.TIMEOUT)
    if isinstance(error, sdk.connection):
        cause = error.__cause__
        if isinstance(cause, Unreachable):
            unreachable = model_error(ModelErrorKind.UNREACHABLE, _text(cause, endpoint))
            unreachable.retryable = not cause.permanent
            if cause.permanent:
                unreachable.action = _CHECK_CERTIFICATE
            return unreachable
        return model_error(ModelErrorKind.CONNECTION, _text(cause or error, endpoint))
    match error:
        case CertificatesMissing():
            return model_error(ModelErrorKind.CERTIFICATES, _text(error, endpoint))
        case httpx2.HTTPError() | UnicodeDecodeError() | json.JSONDecodeError():
            return model_error(ModelErrorKind.CUT_STREAM)
        case _:
            return endpoint.credential_error(error) or model_error(ModelErrorKind.UNKNOWN, _text(error, endpoint))


def _with_address(error: ModelError, endpoint: Endpoint) -> ModelError:
    """``error`` with the address of the service, if that may be the cause."""
    message = str(error)
    if error.kind in _ABOUT_ADDRESS and endpoint.shown_url not in message:
        error.args = (f"{message.removesuffix('.')} ({endpoint.shown_url}).",)
    return error


def _text(error: BaseException, endpoint: Endpoint) -> str:
    return endpoint.safe(str(error) or type(error).__name__)
