"""MCP servers as one more source of tools: approvals, connections over stdio and HTTP, and tools, prompts and
resources of a server. Their configuration is read in ``guidance/``; which of them run is decided in
``session/mcp_servers.py``."""
