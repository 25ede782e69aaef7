"""Reads what users write for agents besides definitions: instructions, skills, slash commands, workspace settings and
MCP server configuration. Other folders use it."""
