"""The agent runtime: sessions, agents, tools, permissions and models. It is independent of wire formats and editors;
front ends in ``deputy_server`` use ``session.runtime.Runtime`` and ``session.session.Session``."""
