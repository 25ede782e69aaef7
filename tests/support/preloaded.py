"""What the parent of warm processes has imported, once: see :mod:`tests.support.warm`. Nobody else imports this."""

import gc
from importlib import import_module

gc.disable()
for name in (
    "deputy_server.serve",
    "deputy_server.lsp.light",
    "deputy_server.lsp.stdio",
    "deputy_server.lsp.sockets",
    "deputy_server.lsp.routes",
    "deputy_server.app",
    "deputy_server.acp.serve",
    "anthropic.resources.messages",
    "httpx2",
    "pytest",  # looked at by each child where the tests run in one process
):
    import_module(name)
gc.freeze()
gc.enable()
