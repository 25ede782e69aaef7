# ruff: noqa: ASYNC240 - the disk is the subject of these tests
"""Commands that run in the sandbox in place of being approved, from the call to its result."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from deputy_agents.domain.event import ToolCallUpdated
from deputy_agents.domain.file_change import Approval
from deputy_agents.domain.message import Reply
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.domain.settings import PermissionSettings, Settings, ShellSettings, WebSettings
from deputy_agents.model.scripted import calls, say, use
from deputy_agents.ports.permission import Selected
from deputy_agents.shell import trust
from deputy_agents.snapshots.roots import SnapshotRoots
from tests.support.core import ALLOW, DENY, Cast, Person, core

pytestmark = [pytest.mark.asyncio, pytest.mark.requirement("Q3")]

AUTO = Settings(shell=ShellSettings(auto_approve_sandboxed=True))


def shell(command: str, **how: object) -> Reply:
    return calls([use("shell", command=command, **how)])


def ruled(decision: DecisionKind, pattern: str, tool: str = "shell") -> Settings:
    return replace(AUTO, permissions=PermissionSettings(rules=(Rule("r", tool, decision, pattern, "settings"),)))


async def run(command: str, workspace: Path, *people: Person, settings: Settings = AUTO, **how: object) -> str:
    async with core(workspace, Cast([shell(command, **how), say("done")]), *people, settings=settings) as c:
        await c.turn()
        return c.told()[0]


async def test_command_runs_in_the_sandbox_without_asking(workspace: Path) -> None:
    person = Person(DENY)
    assert await run("echo x > out; cat out", workspace, person) == "x\n\n[ran in the sandbox]"
    assert person.asked == []
    assert (workspace / "out").read_text() == "x\n"


async def test_every_client_is_shown_that_it_ran_in_the_sandbox(workspace: Path) -> None:
    async with core(workspace, Cast([shell("make || true"), say("done")]), settings=AUTO) as c:
        await c.turn()
        shown = [update.content for update in c.bodies(ToolCallUpdated) if update.content]
    assert shown[-1].endswith("[ran in the sandbox]")


async def test_it_is_off_by_default(workspace: Path) -> None:
    person = Person(DENY)
    assert await run("touch x", workspace, person, settings=Settings()) == "Denied by the user."
    assert len(person.asked) == 1


async def test_rules_that_deny_or_ask_win(workspace: Path) -> None:
    assert await run("touch x", workspace, settings=ruled(DecisionKind.DENY, "touch *")) == (
        "Denied: The rule shell(touch *) denies it."
    )
    person = Person(DENY)
    assert await run("touch x", workspace, person, settings=ruled(DecisionKind.ASK, "touch *")) == "Denied by the user."
    [asked] = person.asked
    assert asked.reason == "The rule shell(touch *) asks; change it in your editor's settings."
    person = Person(DENY)
    settings = ruled(DecisionKind.ASK, "*.md", "write_file")
    assert await run("echo x > notes.md", workspace, person, settings=settings) == "Denied by the user."
    assert not list(workspace.iterdir())


async def test_what_a_rule_allows_runs_outside(workspace: Path) -> None:
    settings = ruled(DecisionKind.ALLOW, "touch *")
    assert await run("touch AGENTS.md", workspace, settings=settings) == "(no output)"
    assert (workspace / "AGENTS.md").exists()


async def test_plan_mode_denies(workspace: Path) -> None:
    told = await run("touch x", workspace, settings=replace(AUTO, permission_mode=PermissionMode.PLAN))
    assert told.startswith("Denied: ")
    assert not (workspace / "x").exists()


@pytest.mark.parametrize(
    "command", ["cat .env", "echo x > .vscode/tasks.json", "echo x > ../outside", "echo x > .deputy/settings.json"]
)
async def test_what_is_known_to_need_more_asks(command: str, workspace: Path) -> None:
    (workspace / ".vscode").mkdir()
    (workspace / ".deputy").mkdir()
    (workspace / ".env").write_text("SECRET=hunter22\n")
    person = Person(DENY)
    assert await run(command, workspace, person) == "Denied by the user."
    assert len(person.asked) == 1


async def test_what_the_user_approves_runs_outside(workspace: Path) -> None:
    (workspace / ".env").write_text("SECRET=hunter22\n")
    assert await run("cat .env", workspace, Person(ALLOW)) == "SECRET=hunter22"


async def test_sandbox_that_does_not_hold_approves_nothing(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "trust_problem", lambda: "a command read a secret")
    person = Person(DENY)
    assert await run("touch x", workspace, person) == "Denied by the user."
    assert len(person.asked) == 1


async def test_command_that_fails_because_of_the_sandbox_is_offered_outside(workspace: Path) -> None:
    person = Person(ALLOW)
    told = await run("echo x >> runs; touch AGENTS.md", workspace, person)
    [asked] = person.asked
    assert asked.title == "shell(echo x >> runs; touch AGENTS.md)"
    assert asked.reason == (
        f"The sandbox did not allow it to change {workspace}/AGENTS.md, which is protected. "
        "Approve to run it again without sandbox."
    )
    assert told == "(no output)\n[ran again, outside the sandbox]"
    assert (workspace / "AGENTS.md").exists()
    assert (workspace / "runs").read_text() == "x\nx\n"


async def test_command_that_needs_the_network_is_offered_outside(workspace: Path) -> None:
    person = Person(DENY)
    command = "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80))'"
    told = await run(command, workspace, person)
    assert [asked.reason for asked in person.asked] == [
        "The sandbox did not allow it to connect to 192.0.2.1:80. Approve to run it again without sandbox."
    ]
    assert told.endswith(
        "[exit code 1]\n[the sandbox did not allow it to connect to 192.0.2.1:80]\n"
        "[not run outside the sandbox: Denied by the user.]"
    )


async def test_without_anybody_to_ask_it_does_not_run_outside(workspace: Path) -> None:
    told = await run("touch AGENTS.md", workspace)
    assert "[not run outside the sandbox: Not run: this needs approval, and there is nobody to ask." in told
    assert not (workspace / "AGENTS.md").exists()


async def test_command_that_fails_for_another_reason_is_not_offered_outside(workspace: Path) -> None:
    person = Person(ALLOW)
    assert await run("touch AGENTS.md || true; exit 0", workspace, person) == (
        "touch: cannot touch 'AGENTS.md': Permission denied\n\n[ran in the sandbox]"
    )
    assert await run("exit 3", workspace, person) == "[ran in the sandbox]\n[exit code 3]"
    assert person.asked == []


async def test_lasting_answer_lets_later_calls_run_outside(workspace: Path) -> None:
    person = Person(Selected("allow_session"))
    script = Cast([shell("touch AGENTS.md"), shell("touch CLAUDE.md AGENTS.md"), shell("touch AGENTS.md"), say("done")])
    async with core(workspace, script, person, settings=AUTO) as c:
        await c.turn()
    assert len(person.asked) == 2


async def test_background_process_is_confined_too(workspace: Path) -> None:
    async with core(
        workspace, Cast([shell("touch AGENTS.md; touch done", background=True), say("one"), say("two")]), settings=AUTO
    ) as c:
        await c.turn()
        await c.until((workspace / "done").exists)
    assert not (workspace / "AGENTS.md").exists()


@pytest.mark.requirement("R8")
async def test_its_changes_are_recorded_for_review_as_made_in_the_sandbox(workspace: Path, tmp_path: Path) -> None:
    (workspace / "a.txt").write_text("before\n")
    script = Cast([shell("echo after > a.txt; echo new > b.txt"), say("done")])
    async with core(workspace, script, settings=AUTO, snapshots=SnapshotRoots(tmp_path / "snapshots")) as c:
        await c.turn()
        changed = (await c.session.review.unreviewed_files())[0]
        assert [(Path(one.path).name, one.status) for one in changed] == [("a.txt", "modified"), ("b.txt", "created")]
        authors = [change for one in changed for hunk in one.hunks for change in one.changes(hunk)]
        assert {one.approved for one in authors} == {Approval.SANDBOX}


async def test_environment_that_the_user_passes_to_commands_is_left_out(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "hunter22")
    settings = replace(AUTO, shell=replace(AUTO.shell, env=("MY_TOKEN",)))
    assert "hunter22" not in await run("env; cat /proc/*/environ", workspace, settings=settings)


# -- hosts -------------------------------------------------------------------------------------------------------------

_GET = """NO_PROXY= no_proxy= python3 -c '
import sys, urllib.request
proxy = urllib.request.ProxyHandler({"http": urllib.request.getproxies()["http"]})
print(urllib.request.build_opener(proxy).open(sys.argv[1], timeout=10).read().decode())
' %s"""
_TUNNEL = """python3 -c '
import http.client, os, sys, urllib.parse
proxy = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
connection = http.client.HTTPConnection(proxy.hostname, proxy.port, timeout=10)
connection.set_tunnel("127.0.0.1", int(sys.argv[1]))
connection.request("GET", "/")
print(connection.getresponse().read().decode())
' %s"""


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    line = head.split(b"\r\n")[0]
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(line), line))
    await writer.drain()
    writer.close()


def hosts(*names: str, private: bool = True) -> Settings:
    shell = ShellSettings(auto_approve_sandboxed=True, sandbox_hosts=names)
    return Settings(shell=shell, web=WebSettings(allow_private=private))


async def test_listed_hosts_can_be_reached_through_the_proxy(workspace: Path) -> None:
    async with await asyncio.start_server(_serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        settings = hosts(f"127.0.0.1:{port}")
        person = Person(DENY)
        assert await run(_GET % f"http://127.0.0.1:{port}/a?b", workspace, person, settings=settings) == (
            "GET /a?b HTTP/1.1\n\n[ran in the sandbox]"
        )
        assert await run(_TUNNEL % port, workspace, person, settings=settings) == (
            "GET / HTTP/1.1\n\n[ran in the sandbox]"
        )
        assert person.asked == []


@pytest.mark.parametrize("request_", [_GET % "http://127.0.0.1:{port}/", _TUNNEL % "{port}"], ids=["plain", "tunnel"])
@pytest.mark.parametrize(
    "settings", [hosts("example.com"), hosts("127.0.0.1:{port}", private=False)], ids=["other", "private"]
)
async def test_other_hosts_and_private_addresses_are_refused(
    request_: str, settings: Settings, workspace: Path
) -> None:
    async with await asyncio.start_server(_serve, "127.0.0.1", 0) as server:
        port = str(server.sockets[0].getsockname()[1])
        names = tuple(name.replace("{port}", port) for name in settings.shell.sandbox_hosts)
        settings = replace(settings, shell=replace(settings.shell, sandbox_hosts=names))
        person = Person(DENY)
        told = await run(request_.replace("{port}", port), workspace, person, settings=settings)
    assert "403" in told
    [asked] = person.asked
    assert asked.reason is not None
    assert asked.reason.startswith("The sandbox did not allow it to connect to ")
    assert f"127.0.0.1:{port}" in asked.reason
