"""Commands of agents, from the call to its result: asked about, bounded, and gone with what started them."""

import json
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.event import (
    CallStatus,
    PermissionResolved,
    ResolvedBy,
    ToolCallStarted,
    ToolCallUpdated,
    ToolKind,
    ToolOutputDelta,
)
from deputy_agents.domain.message import Reply, ToolResult
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.preview import CommandPreview
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.domain.settings import PermissionSettings, Settings, ShellSettings
from deputy_agents.model.scripted import calls, say, use
from deputy_agents.ports.permission import Selected
from deputy_agents.shell.sandbox import mechanism
from tests.support.commands import marked, until
from tests.support.core import DENY, Cast, Core, Person, core, delegate, silent

pytestmark = pytest.mark.asyncio

BYPASS = Settings(permission_mode=PermissionMode.BYPASS)
WAITING = "trap '' TERM; (setsid sleep 600 &) ; echo ready; sleep 600"


def shell(command: str, **how: object) -> Reply:
    return calls([use("shell", command=command, **how)])


async def result_of(command: str, workspace: Path, settings: Settings = BYPASS, **how: object) -> str:
    async with core(workspace, Cast([shell(command, **how), say("done")]), settings=settings) as c:
        await c.turn()
        return c.told()[0]


async def started(c: Core, command: str) -> None:
    """The command has said that it is ready."""
    await c.seen(ToolCallStarted, lambda call: call.input.get("command") == command)
    await c.seen(ToolOutputDelta, lambda delta: "ready" in delta.text)


async def test_a_command_is_asked_about_with_its_text_and_its_folder(workspace: Path) -> None:
    (workspace / "src").mkdir()
    person = Person()
    script = Cast([shell("echo one; echo two >&2", cwd="src"), say("done")])
    async with core(workspace, script, person) as c:
        await c.turn()
        assert c.told() == ["one\ntwo"]
    [permission_request] = person.asked
    assert permission_request.title == "shell(echo one; echo two >&2)"
    assert permission_request.kind is ToolKind.EXECUTE
    assert permission_request.preview == CommandPreview("echo one; echo two >&2", str(workspace / "src"))
    assert [option.name for option in permission_request.options] == [
        "Approve",
        "Allow in this session: shell(echo one), shell(echo two)",
        "Allow in this project: shell(echo one), shell(echo two)",
        "Always allow: shell(echo one), shell(echo two)",
        "Deny",
        "Deny in this session: shell(echo one *), shell(echo two *)",
    ]


@pytest.mark.requirement("A5")
async def test_a_command_of_a_child_asks_as_one_of_the_primary_does(workspace: Path) -> None:
    person = Person(DENY)
    script = Cast([delegate("work", mode="default"), say("done")], {"work": [shell("touch x"), say("no")]})
    async with core(workspace, script, person) as c:
        await c.turn()
    assert person.titles == ["[work] shell(touch x)"]
    assert not (workspace / "x").exists()


@pytest.mark.requirement("C8")
@pytest.mark.requirement("B4")
async def test_a_child_that_only_reads_has_no_shell(workspace: Path) -> None:
    script = Cast([delegate("look"), say("done")], {"look": [shell("touch x"), say("no")]})
    async with core(workspace, script, settings=BYPASS) as c:
        await c.turn()
        assert "There is no tool 'shell' here." in str(c.requests("look")[-1].messages[-1])
        assert not {"shell", "process"} & {tool.name for tool in c.requests("look")[0].tools}
    assert not (workspace / "x").exists()


@pytest.mark.parametrize("command", ["cat .en?", "cat .e*", "head -5 c*/*.pem", "cat ./*/../.env*"])
async def test_a_pattern_that_stands_for_a_secret_file_asks_whatever_is_allowed(workspace: Path, command: str) -> None:
    (workspace / ".env").write_text("PASSWORD=hunter22\n")
    (workspace / "certs").mkdir()
    (workspace / "certs" / "a.pem").write_text("secret\n")
    (workspace / "code.py").write_text("x = 1\n")
    rules = tuple(Rule(pattern, "shell", DecisionKind.ALLOW, pattern) for pattern in ("cat *", "head *"))
    person = Person(DENY)
    script = Cast([shell("cat ./*.py"), shell(command), say("done")])
    async with core(workspace, script, person, settings=Settings(permissions=PermissionSettings(rules=rules))) as c:
        await c.turn()
        assert c.told() == ["Denied by the user."]
    assert [permission_request.title for permission_request in person.asked] == [f"shell({command})"]


async def test_an_answer_with_another_input_is_not_remembered_for_the_first(workspace: Path) -> None:
    person = Person(lambda permission_request: Selected("allow_always", input={"command": "echo two"}))
    async with core(workspace, Cast([shell("echo one"), say("done")]), person) as c:
        await c.turn()
        assert c.told() == ["two"]
        assert c.session.permissions.rules() == ()


async def test_hidden_characters_are_shown_and_what_runs_is_what_was_approved(workspace: Path) -> None:
    command = "printf %s 'a\u200bb\u202ec\u3164d' > out\nprintf x >> out"
    person = Person()
    async with core(workspace, Cast([shell(command), say("done")]), person) as c:
        await c.turn()
    preview = "printf %s 'a\\u{200b}b\\u{202e}c\\u{3164}d' > out\nprintf x >> out"
    assert person.asked[0].preview == CommandPreview(preview, str(workspace))
    assert (workspace / "out").read_bytes() == "a\u200bb\u202ec\u3164dx".encode()


async def test_what_was_allowed_always_is_not_asked_again_and_nothing_else_is_allowed(workspace: Path) -> None:
    person = Person(
        lambda permission_request: Selected("allow_always") if "status" in permission_request.title else DENY
    )
    lines = ["git status", "git status --short", "git status && touch x", "git status > y"]
    async with core(workspace, Cast([*map(shell, lines), say("done")]), person) as c:
        await c.turn()
        assert c.session.permissions.rules()[0].pattern == "git status *"
    assert person.titles == ["shell(git status)", "shell(git status && touch x)", "shell(git status > y)"]


async def test_a_rule_that_comes_while_a_permission_request_is_open_decides_it(workspace: Path) -> None:
    async with core(workspace, Cast([shell("echo one"), say("done")]), silent()) as c:
        turn = c.start()
        await c.permission_request()
        rules = (Rule("r", "shell", DecisionKind.ALLOW, "echo *", "settings"),)
        c.session.settings.client.apply(Settings(permissions=PermissionSettings(rules)))
        await c.finish(turn)
        assert c.told() == ["one"]
        assert (await c.seen(PermissionResolved)).by is ResolvedBy.RULE


async def test_an_exit_code_is_told_and_is_an_error(workspace: Path) -> None:
    async with core(workspace, Cast([shell("echo out; exit 3"), say("done")]), settings=BYPASS) as c:
        await c.turn()
        assert c.told() == ["out\n\n[exit code 3]"]
        assert c.bodies(ToolCallUpdated)[-1].status is CallStatus.FAILED


async def test_output_is_shown_while_the_command_runs(workspace: Path) -> None:
    async with core(
        workspace, Cast([shell("echo ready; while [ ! -e go ]; do sleep 0.01; done"), say("done")]), settings=BYPASS
    ) as c:
        turn = c.start()
        delta = await c.seen(ToolOutputDelta)
        assert delta.text == "ready\n"
        (workspace / "go").touch()
        await c.finish(turn)
        assert c.told() == ["ready"]


async def test_of_a_flood_of_output_both_ends_are_kept(workspace: Path) -> None:
    command = "echo first; head -c 60000000 /dev/zero | tr '\\0' 'x'; echo; echo last"
    async with core(workspace, Cast([shell(command), say("done")]), settings=BYPASS) as c:
        await c.turn()
        told = c.told()[0]
        shown = c.bodies(ToolCallUpdated)[-1].content or ""
        live = sum(len(delta.text) for delta in c.bodies(ToolOutputDelta))
    for text, limit in ((told, 40_000), (shown, 300_000)):
        assert text.startswith("first\nxx")
        assert text.endswith("xx\nlast")
        assert "bytes omitted]" in text
        assert len(text) < limit
    assert len(shown) > 200_000
    assert live < 5_000_000


async def test_bytes_that_are_no_text_and_escapes_come_out_harmless(workspace: Path) -> None:
    assert await result_of(r"printf '\xff\x1b[31mred\x1b[0m\x00\r\nend'", workspace) == "\ufffdred\nend"


@pytest.mark.requirement("X12")
async def test_a_command_that_takes_too_long_is_ended_with_what_it_started(workspace: Path) -> None:
    told = await result_of(WAITING, workspace, timeout=3)
    assert told == "ready\n\n[timed out after 3 s and was ended]"
    assert marked(workspace) == []


async def test_what_a_command_leaves_running_is_ended_and_told(workspace: Path) -> None:
    told = await result_of("sleep 600 & echo one", workspace)
    assert told == "one\n\n[1 process that it left running was ended; use background to keep it running]"


@pytest.mark.requirement("X12")
async def test_cancelling_a_turn_ends_its_command(workspace: Path) -> None:
    async with core(workspace, Cast([shell(WAITING)]), settings=BYPASS) as c:
        turn = c.start()
        await started(c, WAITING)
        assert len(marked(workspace)) > 2
        await c.session.turns.cancel()
        assert marked(workspace) == []
        assert (await c.finish(turn)).stop_reason == "cancelled"


async def test_a_cancelled_command_tells_what_it_had_put_out(workspace: Path) -> None:
    script = Cast([shell("echo ready; sleep 600"), say("done")])
    async with core(workspace, script, settings=BYPASS) as c:
        turn = c.start()
        await started(c, "echo ready; sleep 600")
        await c.session.turns.cancel()
        await c.finish(turn)
        await c.turn("what was it?")
        [result] = [block for block in c.requests()[-1].messages[2].content if isinstance(block, ToolResult)]
        assert result.content.startswith("Interrupted: the turn was cancelled while this call ran;")
        assert result.content.endswith("Its output until then:\nready\n")
        [update] = [update for update in c.bodies(ToolCallUpdated) if update.status is CallStatus.CANCELLED]
        assert update.content == result.content


async def test_output_that_is_too_long_to_show_is_kept_in_full(workspace: Path) -> None:
    command = "seq 100000"
    async with core(workspace, Cast([shell(command), say("done")]), settings=BYPASS) as c:
        await c.turn()
        await c.caught_up()
        whole = "\n".join(map(str, range(1, 100001)))
        [update] = [update for update in c.bodies(ToolCallUpdated) if update.status is CallStatus.COMPLETED]
        assert update.truncated
        assert update.content is not None
        assert "bytes omitted" in update.content
        assert "\n50000\n" not in update.content
        assert await c.runtime.output(c.session.id, c.session.primary_id, update.tool_call_id) == whole
        with pytest.raises(InvalidRequest, match="has made no call"):
            await c.runtime.output(c.session.id, c.session.primary_id, "no such call")


@pytest.mark.requirement("X12")
async def test_cancelling_a_child_ends_its_commands_and_no_other(workspace: Path) -> None:
    script = Cast(
        [
            calls([use("task", description=name, prompt=name, subagent_type="general") for name in ("one", "two")]),
            say("done"),
        ],
        {
            "one": [shell("echo ready; sleep 600", background=True), shell(WAITING)],
            "two": [shell("echo ready; sleep 600", background=True), say("done")],
        },
    )
    settings = replace(BYPASS, agents=replace(BYPASS.agents, parallel_writers=True, wake_on_task_end=False))
    async with core(workspace, script, settings=settings) as c:
        await c.turn()
        one = await c.child_started("one")
        await started(c, WAITING)
        assert one.info.agent_id in [command.agent_id for command in c.session.background_processes.list()]
        await c.session.cancel_agent(one.info.agent_id)
        mine = c.session.background_processes.list(one.info.agent_id)
        assert [command.code is None for command in mine] == [False]
        await until(lambda: not marked(workspace))  # the other child has come to its own end


async def test_commands_get_no_secret_and_what_the_user_names(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "CI_TOKEN", "CI_NAME", "BASH_ENV", "LD_PRELOAD_X"):
        monkeypatch.setenv(name, f"value of {name}")
    settings = replace(BYPASS, shell=ShellSettings(env=("CI_N*", "AWS_REGION")))
    told = await result_of("env; echo $HOME", workspace, settings)
    assert "value of CI_NAME" in told
    assert [name for name in ("ANTHROPIC", "AWS", "CI_TOKEN", "BASH_ENV", "LD_") if name in told] == []
    assert f"PWD={workspace}" in told
    assert "PATH=" in told


async def test_a_background_command_goes_on_and_is_looked_at_and_stopped(workspace: Path) -> None:
    def look(request: object) -> Reply:
        [command] = c.session.background_processes.list()
        return calls([use("process"), use("process", process_id=command.process_id, stop=True)])

    command = "echo ready; sleep 600"
    script = Cast([shell(command, background=True), look, say("done")])
    async with core(workspace, script, settings=BYPASS) as c:
        await c.turn()
        [running] = c.session.background_processes.list()
        assert running.code is not None
        listed, stopped = (json.loads(text) for text in c.told())
        assert listed["processes"] == [
            {"process_id": running.process_id, "command": command, "cwd": str(workspace), "status": "running"}
        ]
        assert stopped["status"] == "exited"
        assert marked(workspace) == []
        assert await c.session.background_processes.stop(running.process_id) is False


@pytest.mark.requirement("X12")
@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_background_commands_end_with_the_session(workspace: Path, how: str) -> None:
    async with core(workspace, Cast([shell(WAITING, background=True), say("done")]), settings=BYPASS) as c:
        await c.turn()
        [running] = c.session.background_processes.list()
        await until(lambda: c.session.background_processes.output(running.process_id, 100) == "ready\n")
        assert len(marked(workspace)) > 2
        if how == "cancel":
            assert await c.session.cancel() is True
            assert marked(workspace) == []
            assert await c.session.cancel() is False
    assert marked(workspace) == []


async def test_a_child_sees_only_its_own_background_commands(workspace: Path) -> None:
    def look(request: object) -> Reply:
        [command] = c.session.background_processes.list()
        return calls([use("process"), use("process", process_id=command.process_id, stop=True)])

    script = Cast(
        [shell("sleep 600", background=True), delegate("look", mode="default"), say("done")],
        {"look": [look, say("so")]},
    )
    async with core(workspace, script, settings=BYPASS) as c:
        await c.turn()
        told = str(c.requests("look")[-1].messages[-1])
        assert '{"processes": []}' in told
        assert "You have no background process" in told
        assert c.session.background_processes.list()[0].code is None


async def test_too_many_background_commands_are_rejected(workspace: Path) -> None:
    many = calls([use("shell", command="sleep 600", background=True) for _ in range(17)])
    async with core(workspace, Cast([many, say("done")]), settings=BYPASS) as c:
        await c.turn()
        assert c.told()[-1] == "16 background processes are already running. Stop one of them first."
        assert len(c.session.background_processes.list()) == 16


async def test_a_sandbox_that_is_missing_keeps_the_command_from_running(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism.cache_clear()
    monkeypatch.setattr(
        "deputy_agents.shell.sandbox.shutil.which", lambda name: None if name == "bwrap" else f"/bin/{name}"
    )
    monkeypatch.setattr("deputy_agents.shell.sandbox.probe", lambda start: "not allowed")
    told = await result_of("touch x", workspace, replace(BYPASS, shell=ShellSettings(sandbox=True)))
    assert "no sandbox on this machine: bubblewrap (bwrap) is not installed; not allowed" in told
    assert not (workspace / "x").exists()


@pytest.mark.parametrize(
    ("input", "told"),
    [
        ({"command": " "}, "command: value error, must not be blank or contain a null character"),
        ({"command": "a\0b"}, "command: value error, must not be blank or contain a null character"),
        ({"command": "ls", "cwd": "/etc"}, "/etc is outside the workspace"),
        ({"command": "ls", "cwd": "nowhere"}, "cwd: nowhere is not a folder."),
        ({"command": "ls", "timeout": 0}, "timeout: input should be greater than 0"),
    ],
)
async def test_bad_input_is_told(workspace: Path, input: dict[str, object], told: str) -> None:
    async with core(workspace, Cast([calls([use("shell", **input)]), say("done")]), settings=BYPASS) as c:
        await c.turn()
        assert told in c.told()[0]


async def test_a_folder_that_is_swapped_for_a_link_is_not_followed(workspace: Path, tmp_path: Path) -> None:
    (workspace / "src").mkdir()
    (tmp_path / "other").mkdir()

    def swap() -> None:
        (workspace / "src").rmdir()
        (workspace / "src").symlink_to(tmp_path / "other")

    async def answer(permission_request: object) -> Selected:
        await anyio.to_thread.run_sync(swap)
        return Selected("allow_once")

    async with core(workspace, Cast([shell("touch x", cwd="src"), say("done")]), Person(answer)) as c:
        await c.turn()
        assert "outside the workspace" in c.told()[0]
    assert not (tmp_path / "other" / "x").exists()
