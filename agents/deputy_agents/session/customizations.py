"""What users write for the agents of one session: definitions, instructions, skills, commands and MCP servers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from deputy_agents.definition.catalogue import Catalogue
from deputy_agents.domain.event import DefinitionsChanged
from deputy_agents.domain.problem import Problem
from deputy_agents.guidance.items import SlashCommand
from deputy_agents.guidance.library import Library
from deputy_agents.run.host import Host
from deputy_agents.session.mcp_servers import McpServers, unknown_servers


class Customizations:
    """Finds changes of these files on disk when asked to."""

    def __init__(self, host: Host, catalogue: Catalogue, library: Library, mcp_servers: McpServers) -> None:
        self.catalogue = catalogue
        self.library = library
        self._host = host
        self._mcp_servers = mcp_servers

    @property
    def problems(self) -> Sequence[Problem]:
        """What is wrong with these files, for the user."""
        servers, missing = self._mcp_servers, ()
        # What an untrusted workspace names is not read, so a definition may name a server from there.
        if servers.named is not None and self._host.settings.trusted:
            missing = unknown_servers(self.catalogue.definitions.values(), servers.named)
        return (
            *self.catalogue.problems,
            *self.library.problems,
            *servers.problems,
            *servers.connection_problems,
            *missing,
        )

    @property
    def slash_commands(self) -> Mapping[str, SlashCommand]:
        """What users can call as ``/name``: commands, and prompts of MCP servers, by name."""
        return {**self._mcp_servers.prompts(), **self.library.commands}

    async def refresh(self) -> None:
        """Reads again what has changed on disk."""
        self.catalogue.trusted = self.library.trusted = self._host.settings.trusted
        changed = [await self.catalogue.refresh(), await self.library.refresh()]
        await self._mcp_servers.refresh()
        if any(changed):
            self._host.log.emit(DefinitionsChanged())
            self._host.inbox.recheck()

    def set_roots(self, roots: Sequence[Path]) -> None:
        """Replaces the workspace folders; they are read at the next :meth:`refresh`."""
        for place in (self.catalogue, self.library, self._mcp_servers):
            place.roots = tuple(roots)
