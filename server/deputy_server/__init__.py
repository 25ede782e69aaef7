"""The front ends: a language server, the Agent Client Protocol, the command line and the demo, over
``deputy_agents``."""
