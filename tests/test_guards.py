"""The guards of conftest.py hold."""

import os
import socket
import time
import types

import pytest

import deputy_server
from deputy_agents.web.connect import environment_proxy


def test_a_test_cannot_connect_beyond_loopback() -> None:
    with socket.socket() as sock, pytest.raises(PermissionError, match="stay on this machine"):
        sock.connect(("192.0.2.1", 80))


def test_a_test_cannot_look_up_a_foreign_name() -> None:
    with pytest.raises(PermissionError, match="stay on this machine"):
        socket.getaddrinfo("api.example.com", 443)


def test_loopback_is_open() -> None:
    with socket.socket() as server, socket.socket() as client:
        server.bind(("127.0.0.1", 0))
        server.listen()
        client.connect(server.getsockname())


def test_no_key_and_no_real_endpoint_is_in_the_environment() -> None:
    assert "ANTHROPIC_API_KEY" not in os.environ
    assert "ANTHROPIC_BASE_URL" not in os.environ
    assert environment_proxy("https://api.example.com") == "http://127.0.0.1:9"


@pytest.mark.asyncio
async def test_product_code_that_blocks_the_event_loop_is_an_error() -> None:
    code = compile("time.sleep(0)", f"{deputy_server.__path__[0]}/invented.py", "exec")
    invented = types.FunctionType(code, {"time": time})
    with pytest.raises(Exception, match=r"Blocking call to time\.sleep"):
        invented()
