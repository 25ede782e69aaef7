"""The agent runtime: sessions, agents, tools, permissions and models. It knows no wire format and no editor; front
ends in ``deputy_server`` use ``session.runtime.Runtime`` and ``session.session.Session``."""
