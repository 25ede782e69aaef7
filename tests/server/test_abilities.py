"""Client capabilities are read leniently: an invalid value counts as missing."""

import pytest

from deputy_server.lsp.client import Client, read_client


def declaring(deputy: object) -> Client:
    return read_client({"capabilities": {"experimental": {"deputy": deputy}}})


@pytest.mark.parametrize("deputy", [None, [1], "deputy", {}])
def test_client_without_capabilities_has_the_defaults(deputy: object) -> None:
    assert declaring(deputy) == Client()


def test_an_invalid_capability_does_not_affect_the_others() -> None:
    assert declaring({"protocolVersion": "new", "events": True, "permissions": "yes", "x": 2}) == Client(events=True)
    assert declaring({"protocolVersion": 1, "events": 1, "permissions": True}) == Client(permissions=True)
