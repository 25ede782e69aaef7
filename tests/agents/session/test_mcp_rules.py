"""Rules and approvals about starting MCP servers cover what they name: the variables, headers, command line and URL."""

from pathlib import Path

import pytest

from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.preview import CommandPreview, TextPreview
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.domain.settings import PermissionSettings, Settings
from deputy_agents.guidance.mcp_config import read_mcp_servers
from deputy_agents.guidance.mcp_entry import McpServerEntry, McpServerSource
from deputy_agents.mcp.approvals import Approvals
from deputy_agents.mcp.catalog import McpServerState
from deputy_agents.model.scripted import say
from deputy_agents.permission.decide import Policy, decide
from deputy_agents.session.mcp_server_status import access_request
from tests.agents.session.test_mcp_servers import prompt
from tests.support.core import DENY, Cast, Person, core
from tests.support.mcp_workspaces import configure_mcp_servers

ALLOW, ASK, DENIED = DecisionKind.ALLOW, DecisionKind.ASK, DecisionKind.DENY


def server(**config: object) -> McpServerEntry:
    (entry,) = read_mcp_servers([McpServerSource("settings", {"x": config})], [])[0].values()
    return entry


def decision(pattern: str | None, entry: McpServerEntry, folder: Path, kind: DecisionKind = ALLOW) -> DecisionKind:
    policy = Policy(PermissionMode.DEFAULT, [Rule("r", "mcp", kind, pattern)])
    return decide(policy, access_request(entry, folder)).kind


UVX: dict[str, object] = {"command": "uvx", "args": ["mcp-server-time"]}
HTTP: dict[str, object] = {"url": "https://docs.example/mcp"}
FAMILY = "uvx mcp-server-*"


@pytest.mark.parametrize(
    ("pattern", "config", "expected"),
    [
        (FAMILY, UVX, ALLOW),
        ("uvx mcp-server-time", UVX, ALLOW),
        ("https://docs.example/*", HTTP, ALLOW),
        # What decides which program runs, or what it loads.
        *((FAMILY, {**UVX, "env": {name: "./x"}}, ASK) for name in ("PATH", "LD_PRELOAD", "NODE_OPTIONS", "X")),
        *(
            (pattern, {**UVX, "env": {"A": "1"}}, ASK)
            for pattern in ("* mcp-server-time", "*uvx*", "A=* uvx *", "A=1*")
        ),
        ("A=1 uvx mcp-server-*", {**UVX, "env": {"A": "1"}}, ALLOW),
        ("A=1 uvx mcp-server-*", {**UVX, "env": {"A": "1", "PATH": "./x"}}, ASK),
        ("A=1 B=2 uvx mcp-server-*", {**UVX, "env": {"B": "2", "A": "1"}}, ALLOW),
        ("A=1 uvx mcp-server-*", {**UVX, "env": {"A": "2"}}, ASK),
        ("A='1 2' uvx *", {**UVX, "env": {"A": "1 2"}}, ALLOW),
        ("A=1 B=2 uvx *", {**UVX, "env": {"A": "1 B=2"}}, ASK),
        ("TOKEN=${TOKEN} uvx mcp-server-*", {**UVX, "env": {"TOKEN": "${TOKEN}"}}, ALLOW),
        ("TOKEN=${TOKEN} uvx mcp-server-*", {**UVX, "env": {"TOKEN": "${OTHER}"}}, ASK),
        # A command that looks like a variable.
        ("A=1 uvx *", {"command": "A=1", "args": ["uvx", "mcp-server-time"]}, ASK),
        (FAMILY, {"command": "uvx mcp-server-time"}, ASK),
        # Secrets for a program or host.
        (FAMILY, {"command": "uvx", "args": ["mcp-server-x", "${ANTHROPIC_API_KEY}"]}, ASK),
        ("uvx mcp-server-x ${KEY}", {"command": "uvx", "args": ["mcp-server-x", "${KEY}"]}, ALLOW),
        ("https://docs.example/*", {"url": "https://docs.example/${SECRET}"}, ASK),
        ("https://docs.example/*", {**HTTP, "headers": {"Authorization": "Bearer ${SECRET}"}}, ASK),
        ("*https://docs.example/mcp", {**HTTP, "headers": {"Authorization": "Bearer ${SECRET}"}}, ASK),
        (
            "Authorization='Bearer ${SECRET}' https://docs.example/*",
            {**HTTP, "headers": {"Authorization": "Bearer ${SECRET}"}},
            ALLOW,
        ),
        (None, {**UVX, "env": {"A": "1"}}, ALLOW),
        ("*", {**UVX, "env": {"A": "1"}}, ALLOW),
    ],
)
def test_an_allow_rule_covers_what_it_names(
    pattern: str | None, config: dict[str, object], expected: DecisionKind, tmp_path: Path
) -> None:
    assert decision(pattern, server(**config), tmp_path) is expected


@pytest.mark.parametrize(
    ("pattern", "config"),
    [
        ("uvx evil*", {"command": "uvx", "args": ["evil-server"], "env": {"A": "1"}}),
        ("*LD_PRELOAD=*", {**UVX, "env": {"A": "1", "LD_PRELOAD": "./x.so"}}),
        ("./run *", {"command": "./run", "args": ["x"], "env": {"A": "1"}}),
        ("https://docs.example/*", {**HTTP, "headers": {"A": "1"}}),
        ("*", UVX),
    ],
)
def test_a_deny_rule_applies_whatever_is_passed_besides(
    pattern: str, config: dict[str, object], tmp_path: Path
) -> None:
    assert decision(pattern, server(**config), tmp_path, DENIED) is DENIED


def test_a_file_of_the_folder_is_named_by_its_path(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    for folder in (mine, other):
        folder.mkdir()
        (folder / "run").touch()
        (folder / "server.js").touch()
    for config, written, full in (
        ({"command": "./run"}, "./run", f"{mine}/run"),
        ({"command": "sub/../run"}, "sub/../run", f"{mine}/run"),
        ({"command": "node", "args": ["server.js"]}, "node server.js", f"node {mine}/server.js"),
        ({"command": "node", "args": ["./server.js", "-x"]}, "node ./server.js *", f"node {mine}/server.js *"),
    ):
        entry = server(**config)
        assert (decision(written, entry, mine), decision(written, entry, other)) == (ASK, ASK)
        assert (decision(full, entry, mine), decision(full, entry, other)) == (ALLOW, ASK)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({**UVX, "env": {"uvx mcp-server-time #": "x"}}, "is not a valid name of a variable or header"),
        ({**UVX, "env": {"A=1 B": "x"}}, "is not a valid name of a variable or header"),
        ({**HTTP, "headers": {"A b": "x"}}, "is not a valid name of a variable or header"),
        ({"url": "https://docs.example/a b"}, "url: must not contain spaces"),
    ],
)
def test_a_name_that_could_pass_for_something_else_is_rejected(config: dict[str, object], problem: str) -> None:
    servers, problems = read_mcp_servers([McpServerSource("settings", {"x": config})], [])
    assert (dict(servers), [problem in one.reason for one in problems]) == ({}, [True])


@pytest.mark.parametrize(
    "change",
    [
        {"env": {"A": "2"}},
        {"env": {"A": "1", "B": "1"}},
        {"env": {}},
        {"command": "npx"},
        {"args": ["x y"]},
    ],
)
def test_an_approval_covers_exactly_what_was_approved(change: dict[str, object], tmp_path: Path) -> None:
    config: dict[str, object] = {"command": "uvx", "args": ["x", "y"], "env": {"A": "1"}}
    approvals = Approvals()
    approvals.save(tmp_path, server(**config), True)
    assert approvals.get(tmp_path, server(**config)) is True
    assert approvals.get(tmp_path / "other", server(**config)) is None
    assert approvals.get(tmp_path, server(**{**config, **change})) is None
    web: dict[str, object] = {"url": "https://docs.example/mcp", "headers": {"A": "1"}}
    approvals.save(tmp_path, server(**web), True)
    assert approvals.get(tmp_path, server(**{**web, "headers": {"A": "2"}})) is None
    assert approvals.get(tmp_path, server(**{**web, "url": "https://docs.example/mcp/"})) is None


@pytest.mark.asyncio
async def test_a_rule_for_a_family_of_servers_does_not_start_one_with_another_path(workspace: Path) -> None:
    (workspace / "bin").mkdir()
    canary = workspace / "ran"
    program = workspace / "bin" / "uvx"
    program.write_text(f"#!/bin/sh\ntouch '{canary}'\n", "utf-8")
    program.chmod(0o755)
    configure_mcp_servers(workspace, time={**UVX, "env": {"PATH": f"{workspace}/bin:/usr/bin:/bin"}})
    settings = Settings(permissions=PermissionSettings((Rule("r", "mcp", ALLOW, FAMILY),)))
    person = Person(DENY)
    async with core(workspace, Cast([say("hello")]), person, settings=settings) as c:
        await prompt(c)
        await c.until(lambda: c.session.mcp_servers.list()[0].state is McpServerState.DENIED)
        assert [one.tool for one in person.asked] == ["mcp"]
        (asked,) = person.asked
        assert isinstance(asked.preview, CommandPreview)
        assert asked.preview.command == f"uvx mcp-server-time\nPATH={workspace}/bin:/usr/bin:/bin"
        assert asked.input["starts"] == f"PATH={workspace}/bin:/usr/bin:/bin uvx mcp-server-time"
    assert not canary.exists()


@pytest.mark.asyncio
async def test_the_host_of_a_url_in_another_script_is_shown_in_ascii(workspace: Path) -> None:
    configure_mcp_servers(workspace, docs={"url": "https://\u0430pple.example/mcp", "headers": {"A": "${B}"}})
    person = Person(DENY)
    async with core(workspace, Cast([say("hello")]), person) as c:
        await prompt(c)
        await c.until(lambda: bool(person.asked))
        assert person.asked[0].preview == TextPreview("https://\u0430pple.example/mcp (xn--pple-43d.example)\nA=${B}")
