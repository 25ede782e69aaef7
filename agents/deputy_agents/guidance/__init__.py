"""What users write for agents besides definitions: instructions, skills, slash commands, workspace settings and the
configuration of MCP servers. It is read here and used elsewhere."""
