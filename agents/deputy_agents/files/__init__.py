"""Files of the workspace: confined access to the disk, encodings, ignore rules, images, and undoing changes. Open
documents of an editor are reached through :class:`deputy_agents.ports.buffers.Buffers`."""
