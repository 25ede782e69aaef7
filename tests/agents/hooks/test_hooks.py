"""Hooks run around tool calls and at the end of turns. The commands are real."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import MessageAdded, StatusChanged, TurnStarted
from deputy_agents.domain.hook import Hook, When
from deputy_agents.domain.message import Text, ToolUse
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.domain.settings import PermissionSettings, Settings
from deputy_agents.model.scripted import calls, say, use
from deputy_agents.tool.hook_change import adopt_hook_change
from tests.support.commands import Started, until
from tests.support.core import Cast, Core, Person, core, delegate, results
from tests.support.files import hands_on

pytestmark = pytest.mark.asyncio

BEFORE, AFTER, END = When.BEFORE_TOOL, When.AFTER_TOOL, When.TURN_END
WRITE = use("write_file", path="a.py", content="x=1\n")


def with_hooks(*hooks: Hook) -> Settings:
    return Settings(hooks=hooks)


def told(c: Core) -> str:
    (result,) = results(c.requests()[-1])
    return ("error: " if result.is_error else "") + result.content


def record(path: Path) -> str:
    """A command that saves its input."""
    return f"cat >> {shlex.quote(str(path))}"


def recorded(path: Path) -> Sequence[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.requirement("X27")
async def test_hook_before_a_tool_blocks_it_with_a_reason(workspace: Path) -> None:
    settings = with_hooks(Hook(BEFORE, "echo 'not on a Friday'; exit 1", ("write_file",)))
    async with core(workspace, Cast([calls([WRITE]), say("done")]), Person(), settings=settings) as c:
        await c.turn()
        assert told(c) == "error: Blocked by the hook `echo 'not on a Friday'; exit 1`: not on a Friday"
        assert not (workspace / "a.py").exists()


@pytest.mark.requirement("X27")
async def test_hooks_get_the_event_as_json_and_let_the_call_run(workspace: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    hooks = [Hook(when, record(log), ("write_file",)) for when in (BEFORE, AFTER)]
    settings = with_hooks(*hooks, Hook(END, record(log)), Hook(BEFORE, "exit 1", ("shell",)))
    async with core(workspace, Cast([calls([WRITE]), say("all is done")]), Person(), settings=settings) as c:
        await c.turn()
        assert told(c) == "Created a.py: line 1."
        before, after, end = recorded(log)
        call = {"toolCallId": WRITE.id, "tool": "write_file", "input": {"path": "a.py", "content": "x=1\n"}}
        claude = {
            "tool_name": "Write",
            "tool_input": {"file_path": str(workspace / "a.py"), "content": "x=1\n"},
            "tool_use_id": WRITE.id,
        }
        agent = {"agentId": c.session.primary_id, "label": "primary", "definition": "primary", "depth": 0}
        common = {
            "sessionId": c.session.id,
            "session_id": c.session.id,
            "transcript_path": "",
            "permission_mode": "default",
            "cwd": str(workspace),
            "agent": agent,
        }
        assert before == {"hook": "before_tool", "hook_event_name": "PreToolUse", **common, **call, **claude}
        result = {"content": "Created a.py: line 1.", "isError": False}
        results = {"result": result, "tool_response": result}
        assert after == {"hook": "after_tool", "hook_event_name": "PostToolUse", **common, **call, **claude, **results}
        ending = {"stopReason": "end_turn", "answer": "all is done"}
        stop = {"hook_event_name": "Stop", "stop_hook_active": False, "last_assistant_message": "all is done"}
        assert end == {"hook": "turn_end", **common, **ending, **stop}


@pytest.mark.requirement("X27")
async def test_hook_after_a_tool_can_change_the_file_and_reports_only_failures(workspace: Path) -> None:
    settings = with_hooks(
        Hook(AFTER, 'sed -i "s/=/ = /" "$DEPUTY_FILE"', ("write_file",)),
        Hook(AFTER, "echo 'line too long' >&2; exit 1", ("write_file",)),
    )
    async with core(workspace, Cast([calls([WRITE]), say("done")]), Person(), settings=settings) as c:
        await c.turn()
        assert (workspace / "a.py").read_text() == "x = 1\n"
        assert told(c) == (
            "Created a.py: line 1.\n[The hook `echo 'line too long' >&2; exit 1` failed: line too long]\n"
            "[Hooks have changed a.py after the edit:]\n@@ -1 +1 @@\n-x=1\n+x = 1"
        )


FORMATTER = Hook(AFTER, 'sed -i "s/ *= */ = /" "$DEPUTY_FILE"', ("write_file", "edit_file"))


def edits(*pairs: tuple[str, str]) -> list[ToolUse]:
    return [use("edit_file", path="a.py", old_string=old, new_string=new) for old, new in pairs]


@pytest.mark.parametrize("prefix", ["", "\ufeff"])
async def test_edits_of_one_reply_and_later_ones_apply_to_the_formatted_file_and_all_are_reverted(
    workspace: Path, prefix: str
) -> None:
    original = f"{prefix}a=1\nb=2\nc=3\nd=4\n"
    (workspace / "a.py").write_text(original)
    three = edits(("1", "10"), ("2", "20"), ("3", "30"))
    script = [calls([use("read_file", path="a.py")]), calls(three), calls(edits(("d = 4", "d = 40"))), say("done")]
    async with core(workspace, Cast(script), Person(), settings=with_hooks(FORMATTER)) as c:
        await c.turn()
        assert (workspace / "a.py").read_text() == f"{prefix}a = 10\nb = 20\nc = 30\nd = 40\n"
        first, *others = results(c.requests()[2])
        assert "+d = 4" in first.content
        assert not any(result.is_error or "Hooks have changed" in result.content for result in others)
        reverted = await c.session.revert(c.session.primary_id)
        assert reverted.conflicts == ()
        assert (workspace / "a.py").read_text() == original


async def test_formatted_new_file_is_removed_by_a_revert(workspace: Path) -> None:
    async with core(workspace, Cast([calls([WRITE]), say("done")]), Person(), settings=with_hooks(FORMATTER)) as c:
        await c.turn()
        assert (workspace / "a.py").read_text() == "x = 1\n"
        await c.session.revert(c.session.primary_id)
        assert not (workspace / "a.py").exists()


async def test_edit_whose_text_the_formatter_has_changed_fails_and_later_ones_apply(workspace: Path) -> None:
    (workspace / "a.py").write_text("a=1\nb=2\n")
    script = [
        calls([use("read_file", path="a.py")]),
        calls(edits(("a=1", "a=10"), ("b=2", "b=20"))),
        calls(edits(("b = 2", "b = 20"))),
        say("done"),
    ]
    async with core(workspace, Cast(script), Person(), settings=with_hooks(FORMATTER)) as c:
        await c.turn()
        assert ["old_string was not found" in result.content for result in results(c.requests()[2])] == [False, True]
        assert (workspace / "a.py").read_text() == "a = 10\nb = 20\n"


async def test_hook_that_removes_the_file_is_reported(workspace: Path) -> None:
    settings = with_hooks(Hook(AFTER, 'rm "$DEPUTY_FILE"', ("write_file",)))
    async with core(workspace, Cast([calls([WRITE]), say("done")]), Person(), settings=settings) as c:
        await c.turn()
        assert told(c) == "Created a.py: line 1.\n[After the hooks, a.py does not exist any more.]"


async def test_long_difference_of_a_hook_is_cut(workspace: Path) -> None:
    write = use("write_file", path="a.py", content="x=1\n" * 5000)
    async with core(workspace, Cast([calls([write]), say("done")]), Person(), settings=with_hooks(FORMATTER)) as c:
        await c.turn()
        assert len(told(c)) < 5000
        assert told(c).endswith("[cut here: read the file to see all]")


async def test_change_of_another_agent_during_the_hook_is_not_adopted(workspace: Path) -> None:
    hands = hands_on(workspace)
    output = await hands.call("write_file", path="a.txt", content="one\n")
    assert output.written is not None
    place = output.written.place
    await hands.workspace.write(place, "two\n", expected="one\n", label="other")
    assert await adopt_hook_change(output.written, hands.context) == ""
    with pytest.raises(ToolError, match="has changed since you read it"):
        await hands.call("write_file", path="a.txt", content="three\n")


async def test_hooks_apply_to_calls_of_sub_agents_and_to_starting_them(workspace: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    settings = with_hooks(Hook(BEFORE, record(log)))
    lines = {"task": [calls([use("glob", pattern="*")]), say("done")]}
    async with core(workspace, Cast([delegate("task"), say("end")], lines), settings=settings) as c:
        await c.turn()
        assert [(one["tool"], one["agent"]["depth"]) for one in recorded(log)] == [  # type: ignore[index]
            ("spawn_agent", 0),
            ("glob", 1),
        ]


async def test_hooks_do_not_run_for_denied_calls(workspace: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    denied = PermissionSettings((Rule("r", "write_file", DecisionKind.DENY),))
    settings = Settings(hooks=(Hook(BEFORE, record(log)),), permissions=denied)
    async with core(workspace, Cast([calls([WRITE]), say("done")]), Person(), settings=settings) as c:
        await c.turn()
        assert not log.exists()


@pytest.mark.parametrize(
    ("command", "timeout", "reason"),
    [
        ("exit 7", 60, "exit code 7"),
        ("no-such-program", 60, "no-such-program: command not found"),
        ("sleep 600", 0.2, "it ran longer than 0.2 s and was stopped"),
        ("kill -9 $$", 60, "exit code -9"),
    ],
)
async def test_failed_hook_blocks_the_call(workspace: Path, command: str, timeout: float, reason: str) -> None:
    settings = with_hooks(Hook(BEFORE, command, timeout=timeout))
    async with core(workspace, Cast([calls([WRITE]), say("done")]), Person(), settings=settings) as c:
        await c.turn()
        assert told(c).startswith("error: Blocked by the hook")
        assert reason in told(c)
        assert not (workspace / "a.py").exists()


async def test_hook_output_is_bounded(workspace: Path) -> None:
    settings = with_hooks(Hook(AFTER, "head -c 9000000 /dev/zero | tr '\\0' x; exit 1"))
    async with core(workspace, Cast([calls([WRITE]), say("done")]), Person(), settings=settings) as c:
        await c.turn()
        assert len(told(c)) < 10_000


async def test_hook_gets_no_secrets_and_leaves_no_process(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, started: Started
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    settings = with_hooks(Hook(AFTER, 'sleep 613 & echo "key: $ANTHROPIC_API_KEY"; exit 1'))
    async with core(workspace, Cast([calls([WRITE]), say("done")]), Person(), settings=settings) as c:
        await c.turn()
        assert "failed: key:]" in told(c)
    await until(lambda: not any("613" in process.cmdline() for process in started()))


async def test_cancelling_the_turn_stops_the_hook(workspace: Path, started: Started) -> None:
    settings = with_hooks(Hook(BEFORE, "sleep 614"))
    async with core(workspace, Cast([calls([WRITE])]), Person(), settings=settings) as c:
        turn = c.start()
        await until(lambda: any("614" in process.cmdline() for process in started()))
        await c.session.cancel()
        assert (await c.finish(turn)).stop_reason == "cancelled"
    await until(lambda: not any("614" in process.cmdline() for process in started()))


@pytest.mark.requirement("X27")
async def test_hook_at_the_end_of_a_turn_continues_it_once(workspace: Path) -> None:
    settings = with_hooks(Hook(END, "echo '2 tests fail'; exit 2"))
    async with core(workspace, Cast([say("done"), say("fixed")]), settings=settings) as c:
        await c.turn()
        again = "The hook `echo '2 tests fail'; exit 2` says:\n2 tests fail"
        await c.seen(MessageAdded, lambda message: message.text == "fixed")
        assert c.requests()[-1].messages[-1].content == (Text(again),)
        await c.seen(StatusChanged, lambda status: status.detail and status.detail.endswith("failed: 2 tests fail"))
        assert [one.origin for one in c.bodies(TurnStarted)] == ["user", "task_end"]


async def test_other_failure_of_a_turn_end_hook_is_only_shown_to_the_user(workspace: Path) -> None:
    settings = with_hooks(Hook(END, "exit 1"), Hook(END, "echo no room; exit 3"))
    async with core(workspace, Cast([say("done")]), settings=settings) as c:
        await c.turn()
        await c.seen(StatusChanged, lambda status: status.detail == "the hook `exit 1` failed: exit code 1")
        why = "the hook `echo no room; exit 3` failed: no room"
        await c.seen(StatusChanged, lambda status: status.detail == why)
        assert len(c.bodies(TurnStarted)) == 1


@pytest.mark.requirement("X27")
@pytest.mark.parametrize(("vouched", "runs"), [(True, True), (False, False)])
async def test_hooks_of_a_workspace_run_only_if_it_is_trusted(workspace: Path, vouched: bool, runs: bool) -> None:
    hook = {"on": "before_tool", "run": "exit 1"}
    (workspace / ".deputy").mkdir()
    (workspace / ".deputy/settings.json").write_text(json.dumps({"hooks": [hook]}))
    settings = Settings(vouched=vouched)
    async with core(workspace, Cast([calls([WRITE]), say("done")]), Person(), settings=settings) as c:
        await c.turn()
        assert (workspace / "a.py").exists() is not runs


async def test_hooks_of_the_user_run_in_every_workspace(workspace: Path) -> None:
    own = workspace.parent / "home/.deputy"
    own.mkdir(parents=True)
    (own / "settings.json").write_text(json.dumps({"hooks": [{"on": "before_tool", "run": "echo no; exit 1"}]}))
    async with core(workspace, Cast([calls([WRITE]), say("done")]), Person()) as c:
        await c.turn()
        assert told(c) == "error: Blocked by the hook `echo no; exit 1`: no"
