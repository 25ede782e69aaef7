"""Sub-agents of a session: what they are given, what comes back, and who sees what."""

import asyncio
from pathlib import Path

import pytest

from deputy_agents.domain.event import (
    AgentFinished,
    AgentStarted,
    CallStatus,
    MessageAdded,
    SessionStatus,
    ToolCallStarted,
    ToolCallUpdated,
)
from deputy_agents.domain.message import Message, Reply, StopReason, Text, ToolResult, ToolUse, Usage
from deputy_agents.domain.outcome import AgentStatus, FailureReason
from deputy_agents.domain.settings import Settings
from deputy_agents.events.view import ChildBlock, ToolCall
from deputy_agents.model.scripted import ScriptedModel, call, calls, say, use
from deputy_agents.session.runtime import Runtime
from deputy_agents.store.memory import MemoryStore
from tests.support.core import BOUND, Cast, Pause, Person, answers, core, delegate, edit, results, small, task_of

REPORTS = {"submit_result", "submit_error"}
READ_ONLY = {"ask_user", "read_file", "list_dir", "glob", "grep", "web_fetch", "list_agents", "get_agent", "todo"}
WRITING = READ_ONLY | {"edit_file", "write_file", "shell", "process"}
SPAWNING = {"spawn_agent", "spawn_agents", "task", "code_search", "code_review", "planner"}


@pytest.mark.requirement("C1")
@pytest.mark.requirement("C2")
@pytest.mark.requirement("A3")
@pytest.mark.asyncio
async def test_the_parent_reads_only_the_bare_answer_of_a_child(workspace: Path) -> None:
    (workspace / "a.py").write_text("secret of the child\n")
    cast = Cast(
        [delegate("find it"), say("Found.")],
        {"find it": [calls([use("read_file", path="a.py")], "Let me look."), say("In a.py:1.")]},
    )
    async with core(workspace, cast) as c:
        outcome = await c.turn("Where is it?")
        last = c.requests()[-1]
        assert outcome.stop_reason == "end_turn"
        assert answers(last) == ["In a.py:1."]
        assert len(last.messages) == 3
        assert "secret of the child" not in repr(last.messages)
        assert "Let me look" not in repr(last.messages)


@pytest.mark.requirement("D9")
@pytest.mark.requirement("A12")
@pytest.mark.asyncio
async def test_task_and_context_are_the_first_message_of_the_child_and_no_other_history_is(workspace: Path) -> None:
    cast = Cast([delegate("count files", context="Only those in src."), say("ok")], {"count files": [say("3")]})
    async with core(workspace, cast) as c:
        await c.turn("A question that the child must not see")
        (request,) = c.requests("count files")
        (first,) = request.messages
        assert first.role == "user"
        assert task_of(request).startswith("count files\n")
        assert "Only those in src." in task_of(request)
        assert "must not see" not in repr(request)
        (said,) = c.bodies(MessageAdded, c.child("count files").info.agent_id)[:1]
        assert said.text == task_of(request)
        context_in_parent = [m for m in c.requests()[-1].messages if isinstance(m.content[0], ToolResult)]
        assert "Only those in src." not in repr(context_in_parent)


@pytest.mark.requirement("C8")
@pytest.mark.requirement("D5")
@pytest.mark.asyncio
async def test_each_mode_offers_exactly_its_tools_and_none_that_spawns(workspace: Path) -> None:
    reply = calls(
        [
            use("spawn_agent", instructions="reads"),
            use("spawn_agent", instructions="writes", mode="default"),
        ]
    )
    cast = Cast([reply, say("ok")], {"reads": [say("r")], "writes": [say("w")]})
    async with core(workspace, cast) as c:
        await c.turn()
        offered = {task: {tool.name for tool in c.requests(task)[0].tools} for task in ("reads", "writes")}
        assert offered == {"reads": READ_ONLY | REPORTS, "writes": WRITING | REPORTS}
        assert {tool.name for tool in c.requests()[0].tools} == WRITING | SPAWNING


@pytest.mark.requirement("C8")
@pytest.mark.parametrize("tool", ["edit_file", "write_file", "spawn_agent", "shell"])
@pytest.mark.asyncio
async def test_a_read_only_child_that_calls_what_it_was_not_offered_is_rejected(workspace: Path, tool: str) -> None:
    person = Person()
    cast = Cast([delegate("try"), say("ok")], {"try": [call(tool, path="a.py", content="x"), say("I cannot.")]})
    async with core(workspace, cast, person) as c:
        await c.turn()
        (refusal,) = results(c.requests("try")[-1])
        assert refusal.is_error
        assert f"There is no tool '{tool}' here" in refusal.content
        assert not (workspace / "a.py").exists()
        assert person.asked == []


@pytest.mark.asyncio
async def test_without_sub_agents_enabled_there_is_no_delegation_tool(workspace: Path) -> None:
    async with core(workspace, Cast([say("ok")]), settings=small(enabled=False)) as c:
        await c.turn()
        assert {tool.name for tool in c.requests()[0].tools} == WRITING


@pytest.mark.requirement("C4")
@pytest.mark.asyncio
async def test_children_of_one_reply_run_at_once_and_answer_in_the_order_of_the_calls(workspace: Path) -> None:
    pauses = {name: Pause(say(f"answer of {name}")) for name in ("one", "two", "three")}
    cast = Cast([delegate("one", "two", "three"), say("ok")], {name: [pause] for name, pause in pauses.items()})
    async with core(workspace, cast) as c:
        turn = c.start()
        async with asyncio.timeout(BOUND):
            for pause in pauses.values():  # all of them are inside their model before any may go on
                await pause.asked.wait()
        assert c.session.view.status() == SessionStatus(1, 0, 3, 0, 0)
        for name in ("three", "one", "two"):
            pauses[name].go.set()
            await c.seen(AgentFinished, lambda body, name=name: body.result == f"answer of {name}")
        await c.finish(turn)
        assert c.told() == ["answer of one", "answer of two", "answer of three"]


@pytest.mark.requirement("C4")
@pytest.mark.asyncio
async def test_other_tools_of_the_reply_run_while_a_delegation_tool_waits(workspace: Path) -> None:
    (workspace / "a.txt").write_text("hello\n")
    pause = Pause(say("late"))
    cast = Cast(
        [calls([use("spawn_agent", instructions="wait"), use("read_file", path="a.txt")]), say("ok")],
        {"wait": [pause]},
    )
    async with core(workspace, cast) as c:
        turn = c.start()
        await c.seen(ToolCallUpdated, lambda body: body.status is CallStatus.COMPLETED and "hello" in str(body.content))
        assert not pause.go.is_set()
        pause.go.set()
        await c.finish(turn)
        first, second = c.told()
        assert first == "late"
        assert "hello" in second


@pytest.mark.requirement("A5")
@pytest.mark.requirement("A6")
@pytest.mark.asyncio
async def test_a_childs_edit_asks_as_the_primarys_does_and_names_the_child(workspace: Path) -> None:
    (workspace / "src").mkdir()
    file = workspace / "src" / "lib.rs"
    file.write_text("fn one() {}\n")
    person = Person()
    change = edit("src/lib.rs", "one", "two")
    cast = Cast(
        [delegate("research codebase", mode="default"), say("ok")],
        {"research codebase": [call("read_file", path="src/lib.rs"), calls([change]), say("done")]},
    )
    async with core(workspace, cast, person) as c:
        await c.turn()
        child = c.child("research codebase")
        (permission_request,) = person.asked
        assert permission_request.title == "[research codebase] edit_file(src/lib.rs)"
        assert permission_request.agent.agent_id == child.info.agent_id
        assert permission_request.agent.label == "research codebase"
        assert permission_request.agent.definition == "general"
        assert permission_request.agent.model == child.info.model
        assert permission_request.agent.depth == 1
        assert permission_request.agent.ancestry == ((c.session.primary_id, "primary"),)
        assert permission_request.preview is not None
        assert permission_request.preview.type == "diff"
        assert (permission_request.preview.old_text, permission_request.preview.new_text) == (
            "fn one() {}\n",
            "fn two() {}\n",
        )
        assert file.read_text() == "fn two() {}\n"
        titles = [body.title for body in c.bodies(ToolCallStarted, child.info.agent_id)]
        assert titles == [
            "[research codebase] read_file(src/lib.rs)",
            "[research codebase] edit_file(src/lib.rs)",
        ]


@pytest.mark.requirement("A5")
@pytest.mark.asyncio
async def test_nobody_is_asked_about_the_reads_of_a_child(workspace: Path) -> None:
    (workspace / "a.txt").write_text("hello\n")
    person = Person()
    reads = calls([use("read_file", path="a.txt"), use("grep", pattern="hello"), use("list_dir", path=".")])
    cast = Cast([delegate("look"), say("ok")], {"look": [reads, say("seen")]})
    async with core(workspace, cast, person) as c:
        await c.turn()
        assert person.asked == []
        assert [result.is_error for result in results(c.requests("look")[-1])] == [False, False, False]


@pytest.mark.requirement("A1")
@pytest.mark.requirement("A10")
@pytest.mark.asyncio
async def test_every_agent_stays_listed_with_label_parent_time_and_outcome(workspace: Path) -> None:
    long = "Find every place where the retry loop sleeps\nand more"
    cast = Cast(
        [delegate(long, "fails"), say("ok"), say("again")],
        {long.split("\n", maxsplit=1)[0]: [say("here")], "fails": [call("submit_error", error="no such loop")]},
    )
    async with core(workspace, cast) as c:
        await c.turn()
        await c.turn("another one")
        primary, found, failed = c.session.agents()
        assert primary.info.agent_id == c.session.primary_id
        assert (primary.info.parent_id, primary.status) == (None, AgentStatus.IDLE)
        assert found.info.label == "Find every place where the re…"
        assert len(found.info.label) == 30
        assert found.info.parent_id == failed.info.parent_id == primary.info.agent_id
        assert (found.status, found.summary) == (AgentStatus.COMPLETED, "here")
        assert (failed.status, failed.failure_reason, failed.error) == (
            AgentStatus.FAILED,
            FailureReason.SUB_AGENT_ERROR,
            "no such loop",
        )
        assert primary.started_at <= found.started_at <= failed.started_at
        assert found.ended_at is not None


@pytest.mark.requirement("A4")
@pytest.mark.asyncio
async def test_the_result_is_the_last_text_of_the_child_with_blocks_joined(workspace: Path) -> None:
    two_blocks = Reply(Message("assistant", (Text("First."), Text("Second."))), StopReason.END_TURN)
    cast = Cast(
        [delegate("joined", "earlier", "submitted"), say("ok")],
        {
            "joined": [two_blocks],
            "earlier": [calls([use("list_dir", path=".")], "The answer."), say("")],
            "submitted": [calls([use("submit_result", result="Submitted.")], "Thinking aloud.")],
        },
    )
    async with core(workspace, cast) as c:
        await c.turn()
        assert c.told() == ["First.\nSecond.", "The answer.", "Submitted."]


@pytest.mark.asyncio
async def test_an_empty_answer_is_a_failure_and_never_success(workspace: Path) -> None:
    async with core(workspace, Cast([delegate("says nothing"), say("ok")], {"says nothing": [say("")]})) as c:
        await c.turn()
        (result,) = results(c.requests()[-1])
        assert result.is_error
        assert result.content == "Sub-agent failed (runtime_error): it ended without an answer"


@pytest.mark.requirement("B3")
@pytest.mark.requirement("E16")
@pytest.mark.requirement("A2")
@pytest.mark.asyncio
async def test_parent_and_child_run_the_same_loop_and_differ_only_in_how_they_end(workspace: Path) -> None:
    """The same lines for both leave the same events behind, between a start and an end."""
    (workspace / "a.txt").write_text("hello\n")
    lines = [calls([use("read_file", path="a.txt"), use("no_such_tool")], "Looking."), say("It says hello.")]
    cast = Cast([*lines, delegate("go"), say("ok")], {"go": lines})
    async with core(workspace, cast) as c:
        await c.turn("go")
        await c.caught_up()
        own = [event.body for event in c.durable()]
        await c.turn("now delegate")
        child = c.child("go")
        theirs = [event.body for event in c.durable() if event.agent_id == child.info.agent_id]
        shared = (MessageAdded, ToolCallStarted, ToolCallUpdated)

        def shape(bodies: list[object]) -> list[object]:
            return [
                (type(body), getattr(body, "text", None) or getattr(body, "status", None))
                for body in bodies
                if isinstance(body, shared)
            ]

        assert shape(list(theirs)) == shape(list(own))
        assert c.requests("go")[-1].messages[1:] != ()
        assert [m.role for m in c.requests("go")[-1].messages] == [m.role for m in c.requests()[1].messages]


@pytest.mark.requirement("E4")
@pytest.mark.requirement("A2")
@pytest.mark.asyncio
async def test_events_of_a_child_stand_between_its_call_and_the_end_of_its_call(workspace: Path) -> None:
    cast = Cast(
        [delegate("one", "two"), say("ok")],
        {"one": [call("list_dir", path="."), say("1")], "two": [call("list_dir", path="."), say("2")]},
    )
    async with core(workspace, cast) as c:
        await c.turn()
        durable = c.durable()
        for label in ("one", "two"):
            info = c.child(label).info
            of_child = [event for event in durable if event.agent_id == info.agent_id]
            delegation = [e for e in durable if getattr(e.body, "tool_call_id", None) == info.tool_call_id]
            opened = next(e for e in delegation if isinstance(e.body, ToolCallStarted))
            closed = [e for e in delegation if isinstance(e.body, ToolCallUpdated)][-1]
            assert isinstance(of_child[0].body, AgentStarted)
            assert isinstance(of_child[-1].body, AgentFinished)
            assert sum(isinstance(event.body, AgentStarted) for event in of_child) == 1
            assert sum(isinstance(event.body, AgentFinished) for event in of_child) == 1
            assert [event.agent_seq for event in of_child] == list(range(1, len(of_child) + 1))
            assert (opened.seq or 0) < (of_child[0].seq or 0)
            assert (of_child[-1].seq or 0) < (closed.seq or 0)
            assert isinstance(closed.body, ToolCallUpdated)
            assert closed.body.status is CallStatus.COMPLETED


@pytest.mark.asyncio
async def test_the_block_of_a_child_shows_in_its_parents_transcript_and_its_calls_in_its_own(workspace: Path) -> None:
    cast = Cast([delegate("one"), say("ok")], {"one": [call("list_dir", path="."), say("1")]})
    async with core(workspace, cast) as c:
        await c.turn()
        page = await c.session.transcript(c.session.primary_id)
        assert page.last_seq == c.session.log.last_seq
        (block,) = [entry.body for entry in page.entries if isinstance(entry.body, ChildBlock)]
        assert block.node == c.child("one")
        own = (await c.session.transcript(c.child("one").info.agent_id)).entries
        (listing,) = [entry.body for entry in own if isinstance(entry.body, ToolCall)]
        assert listing.started.tool == "list_dir"
        assert listing.update is not None
        assert listing.update.status is CallStatus.COMPLETED


@pytest.mark.asyncio
async def test_a_failed_child_does_not_fail_its_siblings(workspace: Path) -> None:
    cast = Cast(
        [delegate("breaks", "works"), say("ok")],
        {"breaks": [RuntimeError("an error in the adapter")], "works": [say("fine")]},
    )
    async with core(workspace, cast) as c:
        outcome = await c.turn()
        failed, fine = c.told()
        assert outcome.stop_reason == "end_turn"
        assert failed.startswith("Sub-agent failed (model_error): An internal error")
        assert "error in the adapter" not in failed
        assert fine == "fine"


@pytest.mark.requirement("E17")
@pytest.mark.asyncio
async def test_what_a_child_says_is_cleaned_of_control_characters_before_it_is_kept_or_shown(workspace: Path) -> None:
    cast = Cast([delegate("paint"), say("ok")], {"paint": [say("\x1b[31mred\x1b[0m\x07 and \x00plain\r\n")]})
    async with core(workspace, cast) as c:
        await c.turn()
        assert c.told() == ["red and plain"]
        assert c.child("paint").summary == "red and plain"
        stored = await c.store.events(c.session.id)
        assert "\\x1b" not in repr(stored)


@pytest.mark.asyncio
async def test_a_long_answer_is_cut_for_the_parent_and_whole_in_the_transcript(workspace: Path) -> None:
    whole = "word " * 10_000
    async with core(workspace, Cast([delegate("long"), say("ok")], {"long": [say(whole)]})) as c:
        await c.turn()
        (told,) = c.told()
        child = c.child("long")
        assert len(told) < 17_000
        assert f"get_agent(agent_id='{child.info.agent_id}') has all of it" in told
        (finished,) = c.bodies(AgentFinished)
        assert finished.truncated
        entries = (await c.session.transcript(child.info.agent_id)).entries
        assert [entry.body.text for entry in entries if isinstance(entry.body, MessageAdded)][-1] == whole


@pytest.mark.asyncio
async def test_usage_and_counts_of_a_child_are_reported_with_its_result(workspace: Path) -> None:
    used = Usage(input_tokens=10, output_tokens=3)
    first = Reply(Message("assistant", (use("list_dir", path="."),)), StopReason.TOOL_USE, used)
    cast = Cast([delegate("work"), say("ok", usage=Usage(1, 1))], {"work": [first, say("done", usage=used)]})
    async with core(workspace, cast) as c:
        outcome = await c.turn()
        (finished,) = c.bodies(AgentFinished)
        assert (finished.usage, finished.tool_call_count, finished.iterations) == (Usage(20, 6), 1, 2)
        assert outcome.usage == Usage(1, 1)


@pytest.mark.asyncio
async def test_tool_calls_with_an_id_that_was_used_before_are_told_apart(workspace: Path) -> None:
    same = Reply(Message("assistant", (ToolUse("call_1", "list_dir", {"path": "."}),)), StopReason.TOOL_USE)
    async with core(workspace, Cast([same, same, say("ok")])) as c:
        await c.turn()
        ids = [body.tool_call_id for body in c.bodies(ToolCallStarted)]
        assert ids == ["call_1", "call_1-2"]


@pytest.mark.parametrize("wrong", [{}, {"instructions": "  "}, {"instructions": "x", "mode": "root"}, {"task": "x"}])
@pytest.mark.asyncio
async def test_a_delegation_tool_with_wrong_fields_starts_nobody_and_says_which(
    workspace: Path, wrong: dict[str, object]
) -> None:
    async with core(workspace, Cast([call("spawn_agent", **wrong), say("ok")])) as c:
        await c.turn()
        (result,) = results(c.requests()[-1])
        assert result.is_error
        assert any(field in result.content for field in ("instructions", "mode", "task"))
        assert len(c.session.agents()) == 1


@pytest.mark.requirement("C9")
@pytest.mark.asyncio
async def test_all_agents_share_the_one_model_that_the_factory_gives_for_a_name(workspace: Path) -> None:
    model = ScriptedModel(Cast([delegate("one", "two"), say("ok")], {"one": [say("1")], "two": [say("2")]}))
    asked_for: list[str] = []

    def factory(name: str) -> ScriptedModel:
        asked_for.append(name)
        return model

    async with asyncio.timeout(BOUND), Runtime(store=MemoryStore()) as runtime:
        client = runtime.clients.connect(Settings(model="some-model"), factory)
        session = await runtime.new_session(client, cwd=workspace, roots=[workspace])
        assert asked_for == []
        await session.turns.accept([Text("go")]).result()
        assert set(asked_for) == {"some-model"}
        assert len(model.requests) == 4
