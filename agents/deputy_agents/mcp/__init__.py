"""MCP servers as a source of tools: approvals, connections over stdio and HTTP, and the tools, prompts and resources of
an MCP server. ``guidance/`` reads their configuration; ``session/mcp_servers.py`` decides which of them run."""
