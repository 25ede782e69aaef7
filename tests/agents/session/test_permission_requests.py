"""Questions to the user: who answers, what counts as consent, and what the model is told."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.event import (
    MessageAdded,
    PermissionRequest,
    PermissionRequested,
    PermissionResolved,
    ResolvedBy,
    SessionStatus,
)
from deputy_agents.domain.message import Reply, Text, ToolResult, ToolUse
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import DecisionKind
from deputy_agents.domain.settings import PermissionSettings, Settings
from deputy_agents.model.scripted import call, calls, say, use
from deputy_agents.permission.rule_patterns import parse_rule, rule_text
from deputy_agents.ports.permission import Dismissed, PermissionAnswer, Selected
from deputy_agents.tool.base import Prepared, ToolContext
from deputy_agents.tool.edit import WriteFile, WriteFileArgs
from tests.support.core import ALLOW, BOUND, DENY, Cast, Core, Person, core, delegate, edit, results, silent

WRITE = call("write_file", path="n.txt", content="new\n")


def primary(*lines: Reply) -> Cast:
    return Cast([*lines, say("ok")])


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def resolutions(c: Core) -> list[tuple[ResolvedBy, str | None]]:
    return [(body.by, body.option_id) for body in c.bodies(PermissionResolved)]


@pytest.mark.asyncio
async def test_an_approved_call_runs(workspace: Path) -> None:
    person = Person(ALLOW)
    async with core(workspace, primary(WRITE), person) as c:
        await c.turn()
        assert (workspace / "n.txt").read_text() == "new\n"
        assert person.titles == ["write_file(n.txt)"]
        ids = ["allow_once", "allow_session", "allow_project", "allow_user", "reject_once", "reject_session"]
        assert [option.option_id for option in person.asked[0].options] == ids
        assert resolutions(c) == [(ResolvedBy.USER, "allow_once")]


@pytest.mark.asyncio
async def test_a_denied_call_does_not_run_and_the_users_words_reach_the_model(workspace: Path) -> None:
    async with core(workspace, primary(WRITE), Person(Selected("reject_once", feedback="Use m.txt instead."))) as c:
        await c.turn()
        (result,) = results(c.requests()[-1])
        assert result.is_error
        assert result.content == "Denied by the user. Their comment: Use m.txt instead."
        assert not (workspace / "n.txt").exists()


@pytest.mark.requirement("X5")
@pytest.mark.asyncio
async def test_what_the_user_says_with_a_yes_reaches_the_model_behind_the_results(workspace: Path) -> None:
    person = Person(Selected("allow_once", feedback="Mind the tests, too."))
    async with core(workspace, primary(WRITE), person) as c:
        await c.turn()
        result, said = c.requests()[-1].messages[-1].content
        assert isinstance(result, ToolResult)
        assert result.content == "Created n.txt: line 1."
        assert said == Text("Mind the tests, too.")
        assert "Mind the tests, too." in [body.text for body in c.bodies(MessageAdded) if body.role == "user"]


@pytest.mark.parametrize(
    ("answer", "by", "told"),
    [
        (Dismissed(), ResolvedBy.DISMISSED, "dismissed without an answer, which is not consent"),
        (Dismissed(ResolvedBy.UNREACHABLE), ResolvedBy.UNREACHABLE, "there is nobody to ask"),
        (Selected("yes please"), ResolvedBy.DISMISSED, "not consent"),
        (None, ResolvedBy.DISMISSED, "not consent"),
    ],
)
@pytest.mark.asyncio
async def test_only_an_explicit_yes_is_consent(
    workspace: Path, answer: PermissionAnswer | None, by: ResolvedBy, told: str
) -> None:
    def answered(request: PermissionRequest) -> PermissionAnswer:
        return answer  # pyright: ignore[reportReturnType]

    async with core(workspace, primary(WRITE), Person(answered)) as c:
        await c.turn()
        assert told in c.told()[0]
        assert not (workspace / "n.txt").exists()
        assert resolutions(c) == [(by, None)]


@pytest.mark.parametrize("error", [ValueError("broken client"), asyncio.CancelledError()])
@pytest.mark.asyncio
async def test_a_client_that_breaks_while_it_asks_dismisses_the_permission_request_and_nothing_else(
    workspace: Path, error: BaseException
) -> None:
    async def broken(request: PermissionRequest) -> PermissionAnswer:
        raise error

    async with core(workspace, primary(WRITE), Person(broken)) as c:
        assert (await c.turn()).stop_reason == "end_turn"
        assert resolutions(c) == [(ResolvedBy.DISMISSED, None)]


@pytest.mark.asyncio
async def test_without_a_client_that_can_ask_the_call_is_rejected_at_once(workspace: Path) -> None:
    async with core(workspace, primary(WRITE)) as c:
        await c.turn()
        assert "there is nobody to ask" in c.told()[0]
        assert resolutions(c) == [(ResolvedBy.UNREACHABLE, None)]


@pytest.mark.requirement("X5")
@pytest.mark.asyncio
async def test_the_first_answer_of_two_clients_wins_and_the_other_puts_its_permission_request_away(
    workspace: Path,
) -> None:
    slow, fast = silent(), Person(ALLOW)
    async with core(workspace, primary(WRITE), slow, fast) as c:
        await c.turn()
        assert (workspace / "n.txt").exists()
        assert slow.withdrawn == [slow.asked[0].request_id]
        assert len(c.bodies(PermissionResolved)) == 1


@pytest.mark.asyncio
async def test_one_client_that_dismisses_leaves_the_permission_request_to_the_others(workspace: Path) -> None:
    go = asyncio.Event()

    async def later(request: PermissionRequest) -> PermissionAnswer:
        await go.wait()
        return ALLOW

    closed, open_ = Person(Dismissed()), Person(later)
    async with core(workspace, primary(WRITE), closed, open_) as c:
        turn = c.start()
        await c.permission_request()
        assert len(c.session.permission_requests()) == 1
        go.set()
        await c.finish(turn)
        assert (workspace / "n.txt").exists()


@pytest.mark.asyncio
async def test_a_client_that_attaches_later_is_asked_what_is_open(workspace: Path) -> None:
    async with core(workspace, primary(WRITE), silent()) as c:
        turn = c.start()
        await c.permission_request()
        c.session.inbox.attach(Person(ALLOW))
        await c.finish(turn)
        assert (workspace / "n.txt").exists()


@pytest.mark.asyncio
async def test_an_answer_from_elsewhere_settles_a_permission_request_once(workspace: Path) -> None:
    async with core(workspace, primary(WRITE), silent()) as c:
        turn = c.start()
        request = await c.permission_request()
        assert c.session.view.permission_requests == {request.request_id: request}
        with pytest.raises(InvalidRequest, match="has no option 'maybe'"):
            c.session.inbox.answer(request.request_id, Selected("maybe"))
        assert c.session.inbox.answer(request.request_id, ALLOW) is True
        assert c.session.inbox.answer(request.request_id, DENY) is False
        with pytest.raises(InvalidRequest, match="There is no permission request nobody-asked"):
            c.session.inbox.answer("nobody-asked", ALLOW)
        await c.finish(turn)
        assert (workspace / "n.txt").exists()
        assert c.session.view.permission_requests == {}


@pytest.mark.asyncio
async def test_the_last_client_that_leaves_takes_its_permission_request_along(workspace: Path) -> None:
    person = silent()
    async with core(workspace, primary(WRITE), person) as c:
        turn = c.start()
        await c.permission_request()
        c.session.inbox.detach(person)
        await c.finish(turn)
        assert resolutions(c) == [(ResolvedBy.UNREACHABLE, None)]


@pytest.mark.asyncio
async def test_a_waiting_permission_request_counts_in_the_status_of_the_session(workspace: Path) -> None:
    cast = Cast([delegate("edits", mode="default"), say("ok")], {"edits": [WRITE, say("done")]})
    async with core(workspace, cast, silent()) as c:
        turn = c.start()
        request = await c.permission_request()
        assert c.session.view.status() == SessionStatus(1, 0, 1, 1, 0)
        c.session.inbox.answer(request.request_id, ALLOW)
        await c.finish(turn)
        assert c.session.view.status() == SessionStatus(1, 0, 0, 0, 1)


# -- lasting answers -----------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_lasting_yes_holds_for_all_agents_of_the_session_and_no_other_file(workspace: Path) -> None:
    person = Person(Selected("allow_always"))

    def write(path: str, content: str) -> Reply:
        return call("write_file", path=path, content=content)

    cast = Cast(
        [
            delegate("writes", mode="default"),
            call("read_file", path="a.txt"),
            write("a.txt", "2"),
            write("b.txt", "1"),
            say("ok"),
        ],
        {"writes": [write("a.txt", "1"), say("done")]},
    )
    async with core(workspace, cast, person) as c:
        await c.turn()
        assert person.titles == ["[writes] write_file(a.txt)", "write_file(b.txt)"]
        assert "Always allow: write_file(a.txt)" in [option.name for option in person.asked[0].options]
        assert (workspace / "a.txt").read_text() == "2"


@pytest.mark.asyncio
async def test_a_lasting_no_holds_without_asking_again(workspace: Path) -> None:
    person = Person(Selected("reject_always"))
    async with core(workspace, primary(WRITE, WRITE), person) as c:
        await c.turn()
        assert len(person.asked) == 1
        assert c.told()[0].startswith("Denied: The rule write_file(n.txt) denies it.")


@pytest.mark.asyncio
async def test_a_lasting_yes_answers_open_permission_requests_about_the_same_thing(workspace: Path) -> None:
    """Two children wait with the same question: one answer that lasts settles both."""
    cast = Cast(
        [delegate("one", "two", mode="default"), say("ok")],
        {"one": [call("write_file", path="n.txt", content="1"), say("done")], "two": [WRITE, say("done")]},
    )
    person = silent()
    settings = Settings()
    settings = replace(settings, agents=replace(settings.agents, parallel_writers=True))
    async with core(workspace, cast, person, settings=settings) as c:
        turn = c.start()
        await c.seen(PermissionRequested, lambda body: body.request.agent.label == "one")
        await c.seen(PermissionRequested, lambda body: body.request.agent.label == "two")
        first, second = c.session.permission_requests()
        c.session.inbox.answer(first.request_id, Selected("allow_always"))
        await c.finish(turn)
        by = {body.request_id: body.by for body in c.bodies(PermissionResolved)}
        assert by == {first.request_id: ResolvedBy.USER, second.request_id: ResolvedBy.RULE}
        assert second.request_id in person.withdrawn


@pytest.mark.asyncio
async def test_what_is_remembered_is_remembered_once(workspace: Path) -> None:
    both = call("shell", command="git status; git status --short")
    async with core(workspace, primary(both), Person(Selected("allow_always"))) as c:
        await c.turn()
        assert [rule_text(rule) for rule in c.session.permissions.rules()] == ["shell(git status *)"]


@pytest.mark.asyncio
async def test_a_deny_rule_set_while_a_permission_request_waits_settles_it(workspace: Path) -> None:
    async with core(workspace, primary(WRITE), silent()) as c:
        turn = c.start()
        await c.permission_request()
        deny = PermissionSettings((parse_rule("write_file", DecisionKind.DENY),))
        c.session.settings.client.apply(replace(c.session.settings.current, permissions=deny))
        await c.finish(turn)
        assert c.told() == ["Denied: The rule write_file denies it."]
        assert resolutions(c) == [(ResolvedBy.RULE, None)]


@pytest.mark.asyncio
async def test_in_plan_mode_an_edit_is_denied_unasked_and_a_writing_child_is_not_started(workspace: Path) -> None:
    person = Person(ALLOW)
    spawn = use("spawn_agent", instructions="edit", mode="default")
    cast = Cast([calls([*_uses(WRITE), spawn]), say("ok")])
    settings = Settings(permission_mode=PermissionMode.PLAN)
    async with core(workspace, cast, person, settings=settings) as c:
        await c.turn()
        assert [told.startswith("Denied: ") for told in c.told()] == [True, True]
        assert person.asked == []
        assert len(c.session.agents()) == 1


# -- edited input --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("X3")
@pytest.mark.asyncio
async def test_an_input_that_the_user_changed_is_what_runs(workspace: Path) -> None:
    changed = Selected("allow_once", input={"path": "m.txt", "content": "theirs\n"})
    async with core(workspace, primary(WRITE), Person(changed)) as c:
        await c.turn()
        assert (workspace / "m.txt").read_text() == "theirs\n"
        assert not (workspace / "n.txt").exists()
        assert not results(c.requests()[-1])[0].is_error


@pytest.mark.requirement("X3")
@pytest.mark.asyncio
async def test_the_model_is_told_what_the_user_made_of_its_call(workspace: Path) -> None:
    changed = Selected("allow_once", input={"path": "n.txt", "content": "theirs\n"}, feedback="Shorter.")
    async with core(workspace, primary(WRITE), Person(changed)) as c:
        await c.turn()
        _, told, said = c.requests()[-1].messages[-1].content
        assert told == Text(
            'Before approving the call write_file, the user changed it, and it ran as changed: {"content": "theirs\\n"}'
        )
        assert said == Text("Shorter.")


@pytest.mark.asyncio
async def test_an_input_that_is_given_back_as_it_was_is_no_change(workspace: Path) -> None:
    same = Selected("allow_once", input={"path": "n.txt", "content": "new\n"})
    async with core(workspace, primary(WRITE), Person(same)) as c:
        await c.turn()
        assert len(c.requests()[-1].messages[-1].content) == 1


@pytest.mark.parametrize(
    ("input", "told"),
    [
        ({"path": "m.txt"}, "changed input that does not work: content:"),
        ({"path": "m.txt", "content": "x", "mode": 7}, "changed input that does not work: mode:"),
        ({"path": "../m.txt", "content": "x"}, "outside the workspace"),
        ({"path": "locked/m.txt", "content": "x"}, "Denied: The rule write_file(locked/**) denies it."),
    ],
)
@pytest.mark.asyncio
async def test_a_changed_input_is_validated_and_decided_again(
    workspace: Path, input: dict[str, object], told: str
) -> None:
    rules = (parse_rule("write_file(locked/**)", DecisionKind.DENY),)
    settings = Settings(permissions=PermissionSettings(rules))
    async with core(workspace, primary(WRITE), Person(Selected("allow_once", input=input)), settings=settings) as c:
        await c.turn()
        (result,) = results(c.requests()[-1])
        assert result.is_error
        assert told in result.content
        assert names_in(workspace) == []


# -- several edits of one reply ------------------------------------------------------------------------------------


def _uses(*replies: Reply) -> list[ToolUse]:
    return [block for reply in replies for block in reply.message.content if isinstance(block, ToolUse)]


def read_then_edit(*edits: ToolUse) -> Cast:
    return primary(call("read_file", path="a.txt"), calls(edits))


@pytest.mark.asyncio
async def test_edits_of_one_reply_are_one_batch_and_each_preview_assumes_the_one_before(workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\n")
    person = Person(ALLOW)
    cast = read_then_edit(edit("a.txt", "one", "two"), use("read_file", path="a.txt"), edit("a.txt", "two", "three"))
    async with core(workspace, cast, person) as c:
        await c.turn()
        first, second = person.asked
        assert first.batch.id == second.batch.id
        assert [(q.batch.index, q.batch.size) for q in person.asked] == [(0, 2), (1, 2)]
        previews = [
            (q.preview.old_text, q.preview.new_text) for q in person.asked if q.preview and q.preview.type == "diff"
        ]
        assert previews == [("one\n", "two\n"), ("two\n", "three\n")]
        assert (workspace / "a.txt").read_text() == "three\n"


@pytest.mark.asyncio
async def test_an_edit_that_assumed_a_denied_one_is_checked_again_and_rejected(workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\n")
    person = Person(lambda request: DENY if request.batch.index == 0 else ALLOW)
    async with core(workspace, read_then_edit(edit("a.txt", "one", "two"), edit("a.txt", "two", "three")), person) as c:
        await c.turn()
        denied, stale = c.told()
        assert denied == "Denied by the user."
        assert "old_string was not found" in stale
        assert (workspace / "a.txt").read_text() == "one\n"


@pytest.mark.asyncio
async def test_an_edit_is_rejected_when_the_file_changed_while_the_user_was_asked(workspace: Path) -> None:
    file = workspace / "a.txt"
    file.write_text("one\n")
    async with core(workspace, read_then_edit(edit("a.txt", "one", "two")), silent()) as c:
        turn = c.start()
        request = await c.permission_request()
        file.write_text("one, changed meanwhile\n")
        c.session.inbox.answer(request.request_id, ALLOW)
        await c.finish(turn)
        assert "has changed since you read it" in c.told()[0]
        assert file.read_text() == "one, changed meanwhile\n"


@pytest.mark.asyncio
async def test_permission_requests_of_one_reply_are_all_open_at_once(workspace: Path) -> None:
    writes = calls([use("write_file", path=f"{n}.txt", content="x") for n in range(3)])
    async with core(workspace, primary(writes), silent()) as c:
        turn = c.start()
        async with asyncio.timeout(BOUND):
            await c.seen(PermissionRequested, lambda body: body.request.batch.index == 2)
        for request in reversed(c.session.permission_requests()):
            c.session.inbox.answer(request.request_id, ALLOW if request.batch.index != 1 else DENY)
        await c.finish(turn)
        assert names_in(workspace) == ["0.txt", "2.txt"]


@pytest.mark.asyncio
async def test_a_tool_that_is_removed_while_its_call_is_prepared_is_still_decided(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The setup of an agent is replaced when an MCP server or a definition changes, at any moment."""
    original = WriteFile.prepare

    async def prepare(self: WriteFile, args: WriteFileArgs, context: ToolContext) -> Prepared:
        prepared = await original(self, args, context)
        agent = c.session.roster.primary
        tools = {name: tool for name, tool in agent.tools.items() if name != "write_file"}
        agent.setup = replace(agent.setup, tools=tools)
        return prepared

    monkeypatch.setattr(WriteFile, "prepare", prepare)
    script = Cast([calls([use("write_file", path="b.txt", content="x"), use("list_dir", path=".")]), say("ok")])
    async with core(workspace, script, Person(ALLOW)) as c:
        await c.turn()
        assert [result.is_error for result in results(c.requests()[-1])] == [False, False]
        assert (workspace / "b.txt").read_text() == "x"
