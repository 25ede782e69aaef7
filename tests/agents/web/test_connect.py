"""Connections to web sites and model services: one limit for all, and errors that name the URL and the cause."""

import re
import socket
import time
from collections.abc import Sequence

import anyio
import pytest

from deputy_agents.domain.errors import ModelError, ModelErrorKind, ToolError
from deputy_agents.domain.message import Message, Text
from deputy_agents.model.anthropic import AnthropicModel
from deputy_agents.model.endpoint import Endpoint
from deputy_agents.ports.model import ModelRequest
from deputy_agents.run.backoff import max_attempts
from deputy_agents.web import connect
from deputy_agents.web.fetch import Fetcher
from tests.support.connections import CAUSES, UNTRUSTED, faulty, serving

pytestmark = pytest.mark.asyncio

LIMIT = 0.4
MARGIN = 3
"""Seconds for all else on a busy machine; the old limits were far above."""


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "CONNECT_LIMIT", LIMIT)
    real = socket.getaddrinfo

    def lookup(host: str | bytes, *args: int, **kwargs: int) -> object:
        if str(host).endswith((".invalid", ".invalid'")):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)


async def model_error(endpoint: Endpoint) -> ModelError:
    model = AnthropicModel(endpoint)
    try:
        with pytest.raises(ModelError) as caught:
            await anext(model.stream(ModelRequest("m", "", (Message("user", (Text("hello"),)),))))
    finally:
        await model.aclose()
    return caught.value


async def test_the_limits_are_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert (connect.CONNECT_LIMIT, Endpoint().connect_timeout) == (5, 5)


@pytest.fixture(autouse=True)
def _direct_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HTTPS_PROXY")


@pytest.mark.parametrize("fault", CAUSES)
async def test_a_model_service_that_cannot_be_reached_is_reported_in_time(fault: str) -> None:
    await model_error(Endpoint("http://127.0.0.1:9", "key"))  # loads the SDK
    with faulty(fault) as url:
        started = time.monotonic()
        error = await model_error(Endpoint(url, "sk-secret", connect_timeout=LIMIT))
        assert time.monotonic() - started < LIMIT + MARGIN
    assert error.kind is ModelErrorKind.UNREACHABLE
    assert re.fullmatch(
        f"The model service cannot be reached: could not connect to {re.escape(url)}: {CAUSES[fault]}\\.", str(error)
    )
    assert "baseUrl" in error.action
    assert error.retryable is (fault != UNTRUSTED)
    assert max_attempts(error.kind, 8) == 2


@pytest.mark.parametrize("fault", CAUSES)
async def test_a_site_that_cannot_be_reached_is_reported_in_time(fault: str) -> None:
    with faulty(fault) as url:
        started = time.monotonic()
        with pytest.raises(ToolError) as caught:
            await Fetcher(lambda: True).get(f"{url}/page?q=1")
        assert time.monotonic() - started < LIMIT + MARGIN
    cause = {"no name": "the name was not found"}.get(fault, f"could not connect to {re.escape(url)}: {CAUSES[fault]}")
    assert re.fullmatch(f"[^ ]+ cannot be read: {cause}\\.", str(caught.value))


async def test_the_limit_of_a_site_covers_its_lookup_and_all_addresses() -> None:
    async def slow(host: str, port: int) -> Sequence[str]:
        await anyio.sleep_forever()
        return ()

    async def many(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"] * 3

    with faulty("full") as url:
        for resolve, cause in ((slow, "the name was not found within"), (many, "no connection within")):
            started = time.monotonic()
            with pytest.raises(ToolError, match=cause):
                await Fetcher(lambda: True, resolve).get(url.replace("127.0.0.1", "docs.example"))
            assert time.monotonic() - started < LIMIT + MARGIN


async def test_a_proxy_that_does_not_answer_or_refuses_is_named_without_its_password() -> None:
    def refuse(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

    def ignore(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.recv(4096)

    for serve, cause in ((refuse, "407 Proxy Authentication Required"), (ignore, r"no connection within [\d.]+ s")):
        with serving(serve) as port:
            proxy = f"http://me:hush-hush@127.0.0.1:{port}"
            error = await model_error(Endpoint("https://models.example", "key", proxy=proxy, connect_timeout=LIMIT))
        shown = f"https://models.example through the proxy http://127.0.0.1:{port}"
        assert re.search(f"could not connect to {shown}: {cause}\\.$", str(error))


async def test_the_limit_does_not_apply_to_the_response() -> None:
    def late(connection: socket.socket) -> None:
        connection.recv(4096)
        time.sleep(2 * LIMIT)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok")

    with serving(late) as port:
        page = await Fetcher(lambda: True).get(f"http://127.0.0.1:{port}/")
    assert not isinstance(page, str)
    assert getattr(page, "data", b"") == b"ok"


async def test_missing_certificates_are_named_with_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file.pem")
    error = await model_error(Endpoint("https://models.example", "key"))
    assert (error.kind, error.retryable) == (ModelErrorKind.CERTIFICATES, False)
    assert "/no/such/file.pem, named by SSL_CERT_FILE: no such file or directory" in str(error)
    assert "SSL_CERT_FILE" in error.action
    with pytest.raises(ToolError, match=r"/no/such/file\.pem, named by SSL_CERT_FILE"):
        await Fetcher(lambda: True).get("https://127.0.0.1:9/")
