"""Language models behind the port :class:`deputy_agents.ports.Model`: a service, an offline one, a scripted one."""
