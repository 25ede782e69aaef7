"""What the demo does: a tour in three parts, or one turn with the user's own prompt."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
from rich.text import Text

from deputy_protocol.agent import AgentStatus
from deputy_server.demo import sample
from deputy_server.demo.client import RESPONSE_TIMEOUT, Client, ClientError
from deputy_server.demo.session import Sessions, open_session, prompt, stop_agent
from deputy_server.terminal import draw
from deputy_server.terminal.screen import Screen
from deputy_server.terminal.view import AgentBlock, View

FIRST_PROMPT = "What is this project?"
SECOND_PROMPT = "Where are errors handled?"
DELEGATE = " Let two or three sub-agents look at different sides of it in parallel."
"""Added to prompts for language models. The offline model delegates without it."""
EXPECTED_STOP_REASONS = frozenset({"end_turn", "max_tokens"})


@dataclass(slots=True)
class DemoContext:
    """What a part of the demo needs. ``timeout`` is for a turn, in seconds, or ``None`` if a user answers requests.
    ``failures`` collects descriptions of what the demo was expected to show and did not."""

    client: Client
    sessions: Sessions
    screen: Screen
    timeout: float | None
    failures: list[str]

    async def turn(self, session_id: str, text: str) -> None:
        """Send ``text`` as the user's prompt, and wait for the end of the turn."""
        self.screen.show(Text.assemble(("You  ", "bold"), draw.one_line(text)))
        try:
            reason = await prompt(self.client, session_id, text, self.timeout)
        except (ClientError, TimeoutError) as error:
            self.failures.append(f"the turn failed: {draw.one_line(str(error)) or 'no response in time'}")
            return
        if reason not in EXPECTED_STOP_REASONS:
            self.failures.append(f"the turn ended early: {draw.one_line(reason)}")

    def expect(self, shown: bool, failure: str) -> None:
        if not shown:
            self.failures.append(failure)

    def view(self, session_id: str) -> View:
        return self.sessions.views.get(session_id, View())


async def run_prompt(context: DemoContext, workspace: Path, text: str) -> None:
    """Run the user's prompt on the user's files."""
    await context.turn(await open_session(context.client, workspace), text)


async def run_tour(context: DemoContext, workspace: Path, sample_folder: Path) -> None:
    """Show sub-agents in parallel, then stop one of them, then make an edit that needs approval."""
    session_id = await open_session(context.client, workspace)
    with anyio.fail_after(RESPONSE_TIMEOUT):
        model = (await context.sessions.until(session_id, lambda view: view.primary is not None)).model
    hint = "" if model == "offline" else DELEGATE
    context.screen.show(draw.heading("1 of 3 · Sub-agents work on a question in parallel"))
    await context.turn(session_id, FIRST_PROMPT + hint)
    context.expect(len(context.view(session_id).blocks) >= 2, "the agent did not start several sub-agents")

    context.screen.show(draw.heading("2 of 3 · One sub-agent is stopped, the others continue"))
    await _stop_one(context, session_id, SECOND_PROMPT + hint)

    context.screen.show(draw.heading("3 of 3 · An edit needs approval"))
    context.screen.show(Text("In a sample project in a temporary folder. Your files do not change.", style="dim"))
    await _edit(context, sample_folder)


async def _stop_one(context: DemoContext, session_id: str, text: str) -> None:
    earlier = len(context.view(session_id).blocks)

    def blocks_of_turn(view: View) -> tuple[AgentBlock, ...]:
        return view.blocks[earlier:]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_stop_last, context, session_id, blocks_of_turn)
        await context.turn(session_id, text)
        tasks.cancel_scope.cancel()
    ends = {block.status for block in blocks_of_turn(context.view(session_id))}
    context.expect(AgentStatus.CANCELLED in ends, "no sub-agent was stopped: all had ended before")
    context.expect(AgentStatus.COMPLETED in ends, "no other sub-agent completed")


async def _stop_last(
    context: DemoContext, session_id: str, blocks_of_turn: Callable[[View], tuple[AgentBlock, ...]]
) -> None:
    """Stop the last sub-agent as soon as it and another one have made a tool call."""

    def ready(view: View) -> bool:
        blocks = blocks_of_turn(view)
        working = [block for block in blocks if block.status is AgentStatus.RUNNING and block.calls]
        return len(working) >= 2 and blocks[-1] in working

    block = blocks_of_turn(await context.sessions.until(session_id, ready))[-1]
    label = draw.one_line(block.label)
    context.screen.show(Text(f"The demo now stops [{label}], as its key or a click in an editor would.", style="bold"))
    await stop_agent(context.client, session_id, block.agent_id)


async def _edit(context: DemoContext, folder: Path) -> None:
    session_id = await open_session(context.client, folder)
    answers = context.sessions.answers
    approved_before = answers.approved
    await context.turn(session_id, sample.REQUEST)
    changed = await anyio.to_thread.run_sync(sample.changed, folder)
    for name in sample.FILES:
        state = "changed, as approved" if name in changed else "unchanged"
        context.screen.show(Text(f"  {name}: {state}"))
    context.expect(answers.total > 0, "no edit was proposed")
    context.expect(bool(changed) == (answers.approved > approved_before), "the files do not match what was approved")
