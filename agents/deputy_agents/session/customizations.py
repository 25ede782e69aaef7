"""What users write for the agents of one session: definitions, instructions, skills, commands and MCP servers."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from deputy_agents.definition.catalogue import Catalogue
from deputy_agents.domain.event import DefinitionsChanged
from deputy_agents.domain.problem import Problem
from deputy_agents.domain.rule import DecisionKind
from deputy_agents.guidance.builtin_commands import BUILTIN_COMMANDS
from deputy_agents.guidance.items import SlashCommand
from deputy_agents.guidance.library import Library
from deputy_agents.run.host import Host
from deputy_agents.session.builder import TOOL_NAMES
from deputy_agents.session.mcp_servers import McpServers, unknown_servers
from deputy_agents.session.permissions import SessionPermissions
from deputy_agents.text import cut, visible

_IGNORED = (
    "not applied, because this workspace is not trusted. To trust it, set `trusted` to true in the settings of your "
    "editor, or use `deputy run --trust`."
)


class Customizations:
    """Finds changes of these files on disk when asked to."""

    def __init__(
        self,
        host: Host,
        catalogue: Catalogue,
        library: Library,
        mcp_servers: McpServers,
        permissions: SessionPermissions,
    ) -> None:
        self.catalogue = catalogue
        self.library = library
        self._host = host
        self._mcp_servers = mcp_servers
        self._permissions = permissions

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
            *self._not_trusted(),
            *self._unknown_tools(),
            *self._permissions.problems,
        )

    def _unknown_tools(self) -> Iterator[Problem]:
        """Rules for tools that do not exist: one that denies would deny nothing."""
        rules = (*self._host.settings.permissions.rules, *self.library.user_settings.rules)
        for rule in (*rules, *self.library.workspace_settings.rules):
            if (reason := self.unknown_tool(rule.tool)) is not None:
                file, _, number = rule.rule_id.rpartition("#")
                where = f"rule {number}" if file else f"the {rule.decision} rule for {visible(rule.tool)}"
                yield Problem(rule.source, 1, f"{where} has no effect: {reason}")

    def unknown_tool(self, name: str) -> str | None:
        """Why no tool has the name ``name`` of a rule; ``None`` if one has, or may have when its MCP server runs. A
        server that is not configured has no tools, so a rule for it is harmless unless it is like another one."""
        tools = {*TOOL_NAMES, *self.catalogue.definitions, "mcp", "*"}
        if name in tools:
            return None
        if name.startswith("mcp__"):
            servers = {server for _, server in self._mcp_servers.named or ()}
            found = name.removeprefix("mcp__").split("__")[0]
            close = () if found in servers else get_close_matches(found, sorted(servers), n=1, cutoff=0.7)
            missing = f"there is no MCP server {cut(visible(found), 40)}."
            return f"{missing} Did you mean mcp__{visible(close[0])}?" if close else None
        close = get_close_matches(name.casefold(), sorted(tools), n=1, cutoff=0.6)
        hint = f" Did you mean {close[0]}?" if close else ""
        return f"there is no tool {cut(visible(name), 40)}.{hint}"

    def _not_trusted(self) -> Iterator[Problem]:
        """What the settings file of the workspace has, and only a trusted workspace may."""
        if self._host.settings.vouched:
            return
        settings = self.library.workspace_settings
        allowing = [rule.source for rule in settings.rules if rule.decision is DecisionKind.ALLOW]
        for file, count in Counter(allowing).items():
            rules = "a rule that allows" if count == 1 else f"{count} rules that allow"
            yield Problem(file, 1, f"{rules} something {'is' if count == 1 else 'are'} {_IGNORED}")
        for file in dict.fromkeys(hook.source for hook in settings.hooks):
            yield Problem(file, 1, f"hooks are {_IGNORED}")

    @property
    def slash_commands(self) -> Mapping[str, SlashCommand]:
        """What users can call as ``/name``: commands, prompts of MCP servers, and Deputy's own, by name."""
        return {**self._mcp_servers.prompts(), **self.library.commands, **BUILTIN_COMMANDS}

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
