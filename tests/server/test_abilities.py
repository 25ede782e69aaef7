"""What a client says about itself is read leniently: a strange value counts as not said."""

import pytest

from deputy_server.lsp.client import Client, read_client


def declaring(deputy: object) -> Client:
    return read_client({"capabilities": {"experimental": {"deputy": deputy}}})


@pytest.mark.parametrize("deputy", [None, [1], "deputy", {}])
def test_a_plain_client_declares_nothing(deputy: object) -> None:
    assert declaring(deputy) == Client()


def test_each_capability_falls_back_alone() -> None:
    assert declaring({"protocolVersion": "new", "events": True, "permissions": "yes", "x": 2}) == Client(events=True)
    assert declaring({"protocolVersion": 1, "events": 1, "permissions": True}) == Client(permissions=True)
