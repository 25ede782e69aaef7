"""What fills the context window, and the slash commands of Deputy."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from deputy_agents.domain.errors import InvalidRequest, ModelErrorKind, UnknownAgent, WrongState
from deputy_agents.domain.event import (
    AgentFinished,
    MessageAdded,
    StatusChanged,
    ToolCallUpdated,
    TurnFinished,
    TurnStarted,
    UsageChanged,
)
from deputy_agents.domain.message import Reply, Text, Usage
from deputy_agents.domain.model_card import ModelCard, ModelCards
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.settings import Settings
from deputy_agents.domain.turn import TurnResult
from deputy_agents.model.error_mapping import model_error
from deputy_agents.model.scripted import Scripted, call, calls, say, tool_results, use
from deputy_agents.ports.model import ModelRequest
from deputy_agents.run.context_usage import ContextUsage, Estimates, context_usage
from deputy_agents.run.context_window import SUMMARY_REQUEST
from deputy_agents.store.memory import MemoryStore
from tests.support.core import Cast, Core, Pause, core, delegate, reopened

pytestmark = [pytest.mark.asyncio, pytest.mark.requirement("M7")]

WINDOW = 100_000
SETTINGS = Settings(
    model="m", permission_mode=PermissionMode.ACCEPT_EDITS, cards=ModelCards((("m", ModelCard(WINDOW)),))
)


def is_summary(request: ModelRequest) -> bool:
    return SUMMARY_REQUEST in request.messages[-1].text


async def command(c: Core, text: str) -> TurnResult:
    """Runs a prompt as clients send it, and returns how it ended."""
    turn = await c.session.prompts.accept([Text(text)])
    return await c.finish(turn)


async def answer(c: Core, text: str) -> str:
    """What the user sees of the command ``text``."""
    assert (await command(c, text)).stop_reason == "end_turn"
    await c.caught_up()
    return c.bodies(MessageAdded)[-1].text


def parts(usage: ContextUsage) -> dict[str, int]:
    return {part.name: part.tokens for part in usage.parts}


async def usage_of(c: Core) -> ContextUsage:
    return await c.session.prompts.builtin.context.usage()


@pytest.mark.parametrize("used", [0, 1, 999, 1000, 70_000])
async def test_the_parts_add_up_to_the_window(used: int) -> None:
    usage = context_usage(70_000, used, Estimates(333, 200, 0, 17, 401, 50), 60_000, Usage(100, 5, 300, 100))
    assert sum(part.tokens for part in usage.parts) == 70_000
    assert sum(part.tokens for part in usage.parts[:-1]) == used
    assert usage.cached_share == 0.6


async def test_a_request_beyond_the_window_leaves_nothing_free() -> None:
    usage = context_usage(100, 150, Estimates(1, 1, 1, 1, 1, 1), 80, None)
    assert (parts(usage)["free"], usage.used, usage.cached_share) == (0, 150, None)


async def test_every_part_of_the_window_is_counted_where_it_belongs(workspace: Path) -> None:
    (workspace / "AGENTS.md").write_text("Use tabs.\n" * 300)
    (workspace / "long.txt").write_text("some words of a line\n" * 400)

    def script(request: ModelRequest) -> Reply:
        return say("Read.") if tool_results(request) else call("read_file", path="long.txt")

    async with core(workspace, script, settings=SETTINGS) as c:
        await c.session.refresh()
        before = await usage_of(c)
        assert before.window == WINDOW
        assert parts(before)["messages"] == parts(before)["results"] == parts(before)["mcp"] == 0
        assert parts(before)["instructions"] == pytest.approx(3000 / 3.5, abs=120)
        assert parts(before)["system"] > 200
        assert parts(before)["tools"] > 1000
        await c.turn("Read long.txt.")
        after = await usage_of(c)
        assert parts(after)["results"] > 2000
        assert 0 < parts(after)["messages"] < 400
        assert parts(after)["system"] == pytest.approx(parts(before)["system"], rel=0.01)
        assert after.compacts_at < WINDOW


async def test_the_total_is_what_the_service_has_counted_and_events_carry_it(workspace: Path) -> None:
    async with core(workspace, Cast([say("Hello.", usage=Usage(1000, 50, 3000, 1000))]), settings=SETTINGS) as c:
        await c.turn()
        usage = await usage_of(c)
        assert (usage.used, usage.cached_share) == (5050, 0.6)
        context = c.bodies(UsageChanged)[-1].context
        assert context is not None
        assert (context.used, context.window) == (5050, WINDOW)
        assert c.session.agents()[0].context == context


async def test_usage_of_a_sub_agent_is_its_own_until_it_has_ended(workspace: Path) -> None:
    pause = Pause(say("Found."))
    async with core(workspace, Cast([delegate("look"), say("ok")], {"look": [pause]}), settings=SETTINGS) as c:
        turn = c.start()
        await pause.asked.wait()
        child = next(node for node in c.session.agents() if node.info.parent_id)
        context = c.session.prompts.builtin.context
        of_child, of_primary = await context.usage(child.info.agent_id), await usage_of(c)
        assert 0 < of_child.used != of_primary.used
        pause.go.set()
        await c.finish(turn)
        with pytest.raises(WrongState, match="has ended"):
            await context.usage(child.info.agent_id)
        with pytest.raises(UnknownAgent):
            await context.usage("nobody")


# -- compaction ------------------------------------------------------------------------------------------------------


def reader(request: ModelRequest) -> Scripted:
    """Reads and plans in its first turn, and edits in later ones."""
    text, calls = request.messages[-1].text, len(tool_results(request))
    if is_summary(request):
        return say("We chose sqlite, because it needs no server.")
    if calls:
        return say("Done.")
    if text.startswith("Plan"):
        entries = [{"content": "Write the store", "status": "in_progress"}, {"content": "Read", "status": "completed"}]
        return call("todo", entries=entries)
    if text.startswith("Edit"):
        return call("edit_file", path="store.py", old_string="a = 1", new_string="a = 2")
    return call("read_file", path="store.py")


async def turns(c: Core, *texts: str) -> None:
    for text in texts:
        assert (await c.turn(text)).stop_reason == "end_turn"


async def test_a_compaction_keeps_task_decisions_open_work_and_files_and_names_what_to_read(workspace: Path) -> None:
    (workspace / "store.py").write_text("a = 1\n" * 2000)
    async with core(workspace, reader, settings=SETTINGS) as c:
        await turns(c, "Write a store.", "Plan it.", "Use no ORM.")
        sizes = await c.session.prompts.builtin.compact("the name of the table")
        assert sizes.after < sizes.before / 2
        assert (await usage_of(c)).used == sizes.after
        [asked] = [request for request in c.model.requests if is_summary(request)]
        assert "keep in particular: the name of the table" in asked.messages[-1].text
        await turns(c, "What now?")
        kept = c.model.requests[-2].messages[0].text
        for part in (
            "Write a store.",
            "Use no ORM.",
            "the name of the table",
            "We chose sqlite",
            "- Write the store (in_progress)",
            "- store.py (read_file)",
            "Read a file again before you rely on it",
        ):
            assert part in kept
        assert "- Read (completed)" not in kept
        history = await c.store.history(c.session.id, c.session.primary_id)
        assert history[0].text == "Write a store."


async def test_a_file_must_be_read_again_before_an_edit_after_a_compaction(workspace: Path) -> None:
    (workspace / "store.py").write_text("a = 1\n")
    async with core(workspace, reader, settings=SETTINGS) as c:
        await turns(c, "Read store.py.", "Plan it.")
        await c.session.prompts.builtin.compact()
        await turns(c, "Edit it.")
        await c.caught_up()
        assert "has not been read yet" in (c.bodies(ToolCallUpdated)[-1].content or "")
        assert (workspace / "store.py").read_text() == "a = 1\n"
        await turns(c, "Read store.py.", "Edit it.")
        assert (workspace / "store.py").read_text() == "a = 2\n"


async def test_a_compaction_is_a_turn_that_others_wait_for_and_the_model_does_not_see(workspace: Path) -> None:
    pause = Pause(say("Summed up."))

    def script(request: ModelRequest) -> object:
        return pause(request) if is_summary(request) else say("Hello.")

    async with core(workspace, script, settings=SETTINGS) as c:  # type: ignore[arg-type]
        await turns(c, "One.", "Two.")
        turn = await c.session.prompts.accept([Text("/compact the names")])
        await pause.asked.wait()
        with pytest.raises(WrongState):
            await c.session.prompts.builtin.compact()
        with pytest.raises(WrongState):
            c.start("Three.")
        assert c.session.works
        queued = c.start("Three.", queue=True)
        pause.go.set()
        assert (await c.finish(turn)).stop_reason == "end_turn"
        await c.finish(queued)
        assert not any("/compact" in message.text for message in c.model.requests[-1].messages)
        await c.caught_up()
        texts = [(body.role, body.text) for body in c.bodies(MessageAdded)]
        assert ("user", "/compact the names") in texts
        assert any(role == "assistant" and "tokens now, instead of" in text for role, text in texts)
        assert c.session.agents()[0].status is AgentStatus.IDLE


async def test_a_cancelled_compaction_changes_nothing(workspace: Path) -> None:
    pause = Pause(say("Summed up."))

    def script(request: ModelRequest) -> object:
        return pause(request) if is_summary(request) else say("Hello.")

    async with core(workspace, script, settings=SETTINGS) as c:  # type: ignore[arg-type]
        await turns(c, "One.", "Two.")
        before = (await usage_of(c)).used
        turn = await c.session.prompts.accept([Text("/compact")])
        await pause.asked.wait()
        assert await c.session.cancel()
        assert (await c.finish(turn)).stop_reason == "cancelled"
        assert pause.broken_off
        assert (await usage_of(c)).used == before
        await turns(c, "Three.")
        assert len(c.model.requests[-1].messages) == 5


async def test_a_compaction_that_fails_says_why_and_changes_nothing(workspace: Path) -> None:
    def script(request: ModelRequest) -> Scripted:
        if is_summary(request):
            raise model_error(ModelErrorKind.OVERLOADED)
        return say("Hello.")

    async with core(workspace, script, settings=SETTINGS) as c:
        await turns(c, "One.", "Two.")
        before = (await usage_of(c)).used
        result = await command(c, "/compact")
        assert result.error is not None
        assert (result.stop_reason, result.error.kind) == ("error", "overloaded")
        with pytest.raises(Exception, match="overloaded"):
            await c.session.prompts.builtin.compact()
        assert (await usage_of(c)).used == before
        assert c.bodies(TurnFinished)[-1].error is not None


async def test_an_empty_conversation_has_nothing_to_compact(workspace: Path) -> None:
    async with core(workspace, Cast([]), settings=SETTINGS) as c:
        sizes = await c.session.prompts.builtin.compact()
        assert sizes.before == sizes.after
        assert await answer(c, "/compact") == "There is nothing to compact yet."
        with pytest.raises(InvalidRequest, match="keep"):
            await c.session.prompts.builtin.compact("x" * 3000)


# -- the other commands ----------------------------------------------------------------------------------------------


async def test_context_shows_a_table(workspace: Path) -> None:
    async with core(workspace, Cast([say("Hello.", usage=Usage(10_000, 0, 30_000, 0))]), settings=SETTINGS) as c:
        await turns(c, "One.")
        shown = await answer(c, "/context")
        assert shown.startswith("`m`: 40,000 of 100,000 tokens used (40%).")
        assert "| Free | 60,000 | 60.0% |" in shown
        assert "75% of the last request came from the provider's cache." in shown
        assert len(c.model.requests) == 1


async def test_clear_leaves_the_conversation_out_and_a_rewind_brings_it_back(workspace: Path) -> None:
    async with core(workspace, lambda request: say("Hello."), settings=SETTINGS) as c:
        await turns(c, "One.", "Two.")
        assert "no longer receives" in await answer(c, "/clear")
        await turns(c, "Three.")
        assert [message.text for message in c.model.requests[-1].messages] == ["Three."]
        checkpoints = await c.session.rewind.checkpoints.list()
        two = next(one.record for one in checkpoints if one.record.title == "Two.")
        await c.session.rewind.rewind(two.checkpoint_id, files=False, conversation=True)
        await turns(c, "Four.")
        assert c.model.requests[-1].messages[0].text == "One."


async def test_model_and_mode_are_shown_and_changed(workspace: Path) -> None:
    async with core(workspace, Cast([say("Hello.")]), settings=SETTINGS) as c:
        assert "`m`" in await answer(c, "/model")
        assert await answer(c, "/model another") == "The model is now `another`."
        await turns(c, "One.")
        assert c.model.requests[-1].model == "another"
        assert "`accept_edits`" in await answer(c, "/mode")
        assert await answer(c, "/mode plan") == "The permission mode is now `plan`."
        assert c.session.permissions.mode is PermissionMode.PLAN
        assert "There is no permission mode 'all'. Use one of: plan," in await answer(c, "/mode all")


async def test_rewind_lists_checkpoints(workspace: Path) -> None:
    async with core(workspace, Cast([say("Hello.")]), settings=SETTINGS) as c:
        assert "no checkpoint yet" in await answer(c, "/rewind")
        await turns(c, "Write a | b.")
        shown = await answer(c, "/rewind")
        assert "| 1 | `" in shown
        assert "Write a" in shown
        assert (await c.session.rewind.checkpoints.list())[0].record.checkpoint_id in shown


async def test_commands_are_completed_and_files_with_their_names_are_reported(workspace: Path) -> None:
    folder = workspace / ".deputy" / "commands"
    folder.mkdir(parents=True)
    (folder / "compact.md").write_text("Do something else.")
    async with core(workspace, Cast([]), settings=SETTINGS) as c:
        await c.session.refresh()
        items = (await c.session.complete("/co")).items
        assert [item.text for item in items] == ["/compact", "/context"]
        assert any("/compact is a command of Deputy" in problem.reason for problem in c.session.problems)


async def test_a_command_starts_no_turn_of_the_model_and_takes_no_title(workspace: Path) -> None:
    async with core(workspace, Cast([say("Hello.")]), settings=SETTINGS) as c:
        await answer(c, "/context")
        statuses: Sequence[AgentStatus] = [body.status for body in c.bodies(StatusChanged)]
        assert statuses == [AgentStatus.RUNNING, AgentStatus.IDLE]
        await turns(c, "Name me.")
        assert c.session.record.title == "Name me."
        assert len(await c.session.rewind.checkpoints.list()) == 1


async def test_a_background_task_that_ends_during_a_command_gets_its_turn_afterwards(workspace: Path) -> None:
    summing, working = Pause(say("Summed up.")), Pause(say("Found it."))

    def script(request: ModelRequest) -> object:
        if is_summary(request):
            return summing(request)
        if request.depth:
            return working(request)
        if tool_results(request) or len(request.messages) > 1:
            return say("ok")
        return calls([use("task", description="look", prompt="look", subagent_type="general")])

    async with core(workspace, script, settings=SETTINGS) as c:  # type: ignore[arg-type]
        await turns(c, "Look in the background.", "Two.")
        await working.asked.wait()
        turn = await c.session.prompts.accept([Text("/compact")])
        await summing.asked.wait()
        working.go.set()
        await c.seen(AgentFinished)
        assert c.session.turns.running is turn
        summing.go.set()
        await c.finish(turn)
        await c.seen(TurnStarted, lambda body: body.origin == "task_end")
        await c.until(lambda: c.session.turns.running is None)
        assert any("Found it." in message.text for message in c.model.requests[-1].messages)


async def test_a_queued_command_runs_after_the_turn_and_can_be_withdrawn(workspace: Path) -> None:
    pause = Pause(say("Hello."))
    async with core(workspace, Cast([pause]), settings=SETTINGS) as c:
        turn = c.start("One.")
        await pause.asked.wait()
        first = await c.session.prompts.accept([Text("/mode plan")], queue=True)
        second = await c.session.prompts.accept([Text("/clear")], queue=True)
        assert [prompt.text for prompt in c.session.queued_prompts()] == ["/mode plan", "/clear"]
        assert c.session.turns.withdraw(second.turn_id)
        pause.go.set()
        await c.finish(turn)
        assert (await c.finish(first)).stop_reason == "end_turn"
        assert (await c.finish(second)).stop_reason == "cancelled"
        assert c.session.permissions.mode is PermissionMode.PLAN


async def test_what_a_compaction_left_is_sent_again_after_a_restart(workspace: Path) -> None:
    store = MemoryStore()
    async with core(workspace, reader, settings=SETTINGS, store=store) as c:
        await turns(c, "Read store.py.", "Plan it.")
        await c.session.prompts.builtin.compact("the table")
        used = (await usage_of(c)).used
        session_id = c.session.id
    async with reopened(store, session_id, workspace) as session:
        usage = await session.prompts.builtin.context.usage()
        assert parts(usage)["messages"] > 0
        assert usage.used == pytest.approx(used, rel=0.05)
