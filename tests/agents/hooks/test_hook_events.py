"""Hooks run at the events of a session, with the input and answers of hooks for Claude Code. The commands are real."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from deputy_agents.domain.errors import InvalidRequest, WrongState
from deputy_agents.domain.event import StatusChanged
from deputy_agents.domain.hook import Hook, When
from deputy_agents.domain.message import Text
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.domain.settings import PermissionSettings, Settings
from deputy_agents.model.scripted import calls, say, use
from deputy_agents.ports.permission import Selected
from tests.support.commands import until
from tests.support.core import DENY, Cast, Core, Person, core, delegate, results

pytestmark = [pytest.mark.asyncio, pytest.mark.requirement("Q9")]

WRITE = use("write_file", path="a.py", content="x=1\n")
READ = use("glob", pattern="*")
SCRIPT = [calls([WRITE]), say("done")]


def answering(when: When, answer: object, **how: object) -> Hook:
    """A hook that prints ``answer`` as JSON."""
    return Hook(when, f"echo {shlex.quote(json.dumps(answer))}", **how)  # type: ignore[arg-type]


def permission(decision: str, reason: str = "") -> Hook:
    specific = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason}
    return answering(When.BEFORE_TOOL, {"hookSpecificOutput": specific}, strict=False)


def request_answer(behavior: str, **fields: object) -> Hook:
    decision = {"behavior": behavior, **fields}
    specific = {"hookEventName": "PermissionRequest", "decision": decision}
    return answering(When.PERMISSION_REQUEST, {"hookSpecificOutput": specific})


def context(when: When, text: str) -> Hook:
    return answering(when, {"hookSpecificOutput": {"additionalContext": text}})


def recording(when: When, path: Path) -> Hook:
    return Hook(when, f"cat >> {shlex.quote(str(path))}")


def recorded(path: Path) -> Sequence[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def told(c: Core) -> str:
    return results(c.requests()[-1])[-1].content


def texts(c: Core, request: int = 0) -> str:
    return "\n".join(one.text for one in c.requests()[request].messages[-1].content if isinstance(one, Text))


async def prompt(c: Core, text: str = "go") -> None:
    await c.finish(await c.session.prompts.accept([Text(text)]))


GUARD = """import json, os, sys
event = json.load(sys.stdin)
assert event["hook_event_name"] == "PreToolUse" and event["tool_name"] == "Write", event
assert event["tool_input"]["file_path"] == os.path.join(os.environ["CLAUDE_PROJECT_DIR"], "a.py")
print("no such file here", file=sys.stderr)
sys.exit(2)
"""


async def test_hooks_as_claude_code_has_them_run_from_the_settings_of_a_trusted_workspace(workspace: Path) -> None:
    (workspace / ".deputy").mkdir()
    (workspace / "guard.py").write_text(GUARD)
    command = 'python3 "$CLAUDE_PROJECT_DIR"/guard.py'
    guard = {"matcher": "Edit|Write", "hooks": [{"type": "command", "command": command, "timeout": 20}]}
    failing = {"matcher": "Glob", "hooks": [{"type": "command", "command": "exit 1"}]}
    text = {"hooks": {"PreToolUse": [guard, failing]}}
    (workspace / ".deputy/settings.json").write_text(json.dumps(text))
    script = [calls([WRITE, READ]), say("done")]
    async with core(workspace, Cast(script), Person(), settings=Settings(vouched=True)) as c:
        await c.turn()
        blocked, ran = results(c.requests()[-1])
        assert blocked.content == f"Blocked by the hook `{command}`: no such file here"
        assert not ran.is_error  # only exit code 2 blocks
        await c.seen(StatusChanged, lambda status: status.detail == "the hook `exit 1` failed: exit code 1")
        assert not (workspace / "a.py").exists()


async def test_a_hook_can_answer_for_the_user_where_the_mode_asks(workspace: Path) -> None:
    nobody = Person(DENY)
    async with core(workspace, Cast(SCRIPT), nobody, settings=Settings(hooks=(permission("allow"),))) as c:
        await c.turn()
        assert told(c).startswith("Created a.py")
        assert nobody.asked == []


@pytest.mark.parametrize("event", ["before_tool", "permission_request"])
@pytest.mark.parametrize("decision", [DecisionKind.ASK, DecisionKind.DENY])
async def test_no_hook_allows_what_a_rule_denies_or_asks_about(
    workspace: Path, decision: DecisionKind, event: str
) -> None:
    person = Person(DENY)
    hook = permission("allow") if event == "before_tool" else request_answer("allow")
    rules = PermissionSettings((Rule("r", "write_file", decision),))
    async with core(workspace, Cast(SCRIPT), person, settings=Settings(hooks=(hook,), permissions=rules)) as c:
        await c.turn()
        assert told(c).startswith("Denied")
        assert len(person.asked) == (decision is DecisionKind.ASK)
        assert not (workspace / "a.py").exists()


@pytest.mark.parametrize("event", ["before_tool", "permission_request"])
async def test_no_hook_allows_a_change_of_deputys_own_configuration(workspace: Path, event: str) -> None:
    person = Person(DENY)
    hook = permission("allow") if event == "before_tool" else request_answer("allow")
    write = use("write_file", path=".deputy/settings.json", content="{}")
    async with core(workspace, Cast([calls([write]), say("done")]), person, settings=Settings(hooks=(hook,))) as c:
        await c.turn()
        assert len(person.asked) == 1
        assert not (workspace / ".deputy").exists()


async def test_no_hook_allows_what_the_mode_denies(workspace: Path) -> None:
    settings = Settings(hooks=(permission("allow"), request_answer("allow")), permission_mode=PermissionMode.PLAN)
    async with core(workspace, Cast(SCRIPT), Person(), settings=settings) as c:
        await c.turn()
        assert told(c).startswith("Denied")


async def test_a_hook_can_have_the_user_asked_about_a_call_that_is_allowed(workspace: Path) -> None:
    person = Person(DENY)
    settings = Settings(hooks=(permission("ask", "look first"),), permission_mode=PermissionMode.BYPASS)
    async with core(workspace, Cast(SCRIPT), person, settings=settings) as c:
        await c.turn()
        (request,) = person.asked
        assert request.reason is not None
        assert request.reason.endswith("look first")
        assert [option.option_id for option in request.options] == ["allow_once", "reject_once"]
        assert told(c) == "Denied by the user."


async def test_a_hook_that_denies_spares_the_user_the_request(workspace: Path) -> None:
    person = Person()
    async with core(workspace, Cast(SCRIPT), person, settings=Settings(hooks=(permission("deny", "not now"),))) as c:
        await c.turn()
        assert told(c).endswith(": not now")
        assert person.asked == []


async def test_a_permission_request_can_be_answered_by_a_hook(workspace: Path, tmp_path: Path) -> None:
    log, person = tmp_path / "log", Person()
    hooks = (recording(When.PERMISSION_REQUEST, log), request_answer("deny", message="ask Ada"))
    async with core(workspace, Cast(SCRIPT), person, settings=Settings(hooks=hooks)) as c:
        await c.turn()
        assert told(c).endswith(": ask Ada")
        assert person.asked == []
        (event,) = recorded(log)
        assert (event["hook_event_name"], event["tool_name"]) == ("PermissionRequest", "Write")


async def test_a_request_to_the_user_is_a_notification(workspace: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with core(
        workspace, Cast(SCRIPT), Person(), settings=Settings(hooks=(recording(When.NOTIFICATION, log),))
    ) as c:
        await c.turn()
        await until(lambda: log.exists() and log.read_text().endswith("\n"))
        (event,) = recorded(log)
        assert (event["hook_event_name"], event["notification_type"]) == ("Notification", "permission_prompt")
        assert "write_file(a.py)" in str(event["message"])


async def test_an_input_that_the_user_changed_is_shown_to_the_hooks_again(workspace: Path) -> None:
    changed = Selected("allow_once", input={"path": "secret.py", "content": "x"})
    guard = Hook(When.BEFORE_TOOL, "grep -q secret.py && exit 2 || exit 0")
    async with core(workspace, Cast(SCRIPT), Person(changed), settings=Settings(hooks=(guard,))) as c:
        await c.turn()
        assert told(c).startswith("Blocked by the hook")
        assert not (workspace / "secret.py").exists()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"path": "b.py"}}}, "updatedInput"),
        ({"hookSpecificOutput": {"permissionDecision": "perhaps"}}, "its answer is invalid"),
        ({"decision": "block", "reason": "too late", "systemMessage": None}, ": too late"),
    ],
)
async def test_an_answer_that_is_not_understood_blocks_the_call(workspace: Path, answer: object, reason: str) -> None:
    hook = answering(When.BEFORE_TOOL, answer)
    async with core(workspace, Cast(SCRIPT), Person(), settings=Settings(hooks=(hook,))) as c:
        await c.turn()
        assert reason in told(c)
        assert not (workspace / "a.py").exists()


async def test_hooks_of_a_prompt_add_to_it_or_block_it(workspace: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    hooks = (
        recording(When.PROMPT_SUBMIT, log),
        Hook(When.PROMPT_SUBMIT, "echo branch main"),
        Hook(When.PROMPT_SUBMIT, "grep -q production && { echo not in production >&2; exit 2; }; exit 0"),
    )
    async with core(workspace, Cast([say("done")]), settings=Settings(hooks=hooks)) as c:
        await prompt(c, "fix it")
        assert "branch main" in texts(c)
        assert recorded(log)[0]["prompt"] == "fix it"
        with pytest.raises(InvalidRequest, match="not in production"):
            await prompt(c, "delete production")
        assert len(c.requests()) == 1


async def test_hooks_run_at_the_start_and_the_end_of_a_session(workspace: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    hooks = (
        recording(When.SESSION_START, log),
        context(When.SESSION_START, "tests run with tox"),
        recording(When.SESSION_END, log),
    )
    async with core(workspace, Cast([say("one"), say("two")]), settings=Settings(hooks=hooks)) as c:
        await prompt(c)
        await prompt(c)
        assert "tests run with tox" in texts(c)
        assert "tests run with tox" not in texts(c, 1)
    start, end = recorded(log)
    assert (start["hook_event_name"], start["source"]) == ("SessionStart", "startup")
    assert (end["hook_event_name"], end["reason"]) == ("SessionEnd", "other")


async def test_hooks_run_at_the_start_and_the_end_of_a_sub_agent(workspace: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    again = Hook(When.SUBAGENT_STOP, "echo name the file >&2; exit 2")
    hooks = (context(When.SUBAGENT_START, "be brief"), recording(When.SUBAGENT_STOP, log), again)
    lines = {"look": [say("here"), say("in a.py"), say("in a.py, line 1")]}
    async with core(workspace, Cast([delegate("look"), say("end")], lines), settings=Settings(hooks=hooks)) as c:
        await c.turn()
        first, second, third = c.requests("look")
        assert "be brief" in [one.text for one in first.messages[0].content if isinstance(one, Text)]
        reason = f"The hook `{again.command}` says:\nname the file"
        assert [one.messages[-1].content for one in (second, third)] == [(Text(reason),), (Text(reason),)]
        assert "in a.py, line 1" in told(c)  # it is sent back twice at most
        events = recorded(log)
        assert [one["stop_hook_active"] for one in events] == [False, True, True]
        assert events[0]["agent_type"] == c.child("look").info.definition
        assert events[0]["last_assistant_message"] == "here"


async def test_cancelling_a_sub_agent_ends_the_hook_at_its_start(workspace: Path, tmp_path: Path) -> None:
    started, ended = tmp_path / "started", tmp_path / "ended"
    hook = Hook(When.SUBAGENT_START, f"touch {started}; sleep 600; touch {ended}")
    async with core(workspace, Cast([delegate("look")]), settings=Settings(hooks=(hook,))) as c:
        turn = c.start()
        await until(started.exists)
        await c.session.cancel()
        assert (await c.finish(turn)).stop_reason == "cancelled"


async def test_a_hook_can_block_a_compaction_that_the_user_asks_for(workspace: Path) -> None:
    hook = Hook(When.BEFORE_COMPACTION, "grep -q '\"manual\"' && { echo not yet >&2; exit 2; }")
    async with core(workspace, Cast([say("one"), say("two")]), settings=Settings(hooks=(hook,))) as c:
        await c.turn()
        await c.turn()
        with pytest.raises(WrongState, match="not yet"):
            await c.session.prompts.builtin.compact()


async def test_a_hook_can_end_the_turn(workspace: Path) -> None:
    hook = answering(When.AFTER_TOOL, {"continue": False, "stopReason": "that is enough"})
    async with core(workspace, Cast([calls([READ]), say("more")]), settings=Settings(hooks=(hook,))) as c:
        result = await c.turn()
        assert result.stop_reason != "end_turn"
        await c.seen(StatusChanged, lambda status: status.detail and "that is enough" in status.detail)


async def test_output_of_hooks_is_redacted(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "correct-horse-battery")
    hook = Hook(When.BEFORE_TOOL, "echo token correct-horse-battery; exit 1")
    async with core(workspace, Cast(SCRIPT), Person(), settings=Settings(hooks=(hook,))) as c:
        await c.turn()
        assert "token" in told(c)
        assert "horse" not in told(c).partition("`: ")[2]
