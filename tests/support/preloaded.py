"""The imports of the process that warm processes are forked from: see :mod:`tests.support.warm`. Not for other use."""

from importlib import import_module

from deputy_agents.collector import collector_paused

with collector_paused():
    for name in (
        "deputy_server.serve",
        "deputy_server.lsp.fast_lsprotocol",
        "deputy_server.lsp.stdio",
        "deputy_server.lsp.sockets",
        "deputy_server.lsp.routes",
        "deputy_server.app",
        "deputy_server.acp.serve",
        "anthropic.resources.messages",
        "httpx2",
        "pytest",  # if the tests run in one process, each child imports it
    ):
        import_module(name)
