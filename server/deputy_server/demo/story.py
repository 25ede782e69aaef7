"""What happens in the demo: three short acts, or one turn with the user's own prompt."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
from rich.text import Text

from deputy_protocol.agent import AgentStatus
from deputy_server.demo import sample
from deputy_server.demo.client import ANSWER_TIMEOUT, Client, ClientError
from deputy_server.demo.session import Sessions, open_session, prompt, stop_agent
from deputy_server.terminal import draw
from deputy_server.terminal.screen import Screen
from deputy_server.terminal.view import Block, View

QUESTION = "What is this project?"
SECOND_QUESTION = "Where are errors handled?"
ON_ITS_OWN = " Let two or three sub-agents look at different sides of it in parallel."
"""What the offline model does anyway, and another one when told to."""
GOOD_ENDS = frozenset({"end_turn", "max_tokens"})


@dataclass(slots=True)
class Stage:
    """What an act needs. ``timeout`` bounds a turn, in seconds; ``None`` where a person takes part.

    ``missed`` collects, in words, what was meant to be seen and was not.
    """

    client: Client
    sessions: Sessions
    screen: Screen
    timeout: float | None
    missed: list[str]

    async def turn(self, session_id: str, text: str) -> None:
        """Says ``text`` as the user, and waits for the end of the turn."""
        self.screen.show(Text.assemble(("You  ", "bold"), draw.one_line(text)))
        try:
            reason = await prompt(self.client, session_id, text, self.timeout)
        except (ClientError, TimeoutError) as error:
            self.missed.append(f"the turn ended with an error: {draw.one_line(str(error)) or 'no answer in time'}")
            return
        if reason not in GOOD_ENDS:
            self.missed.append(f"the turn ended early: {draw.one_line(reason)}")

    def expect(self, seen: bool, otherwise: str) -> None:
        if not seen:
            self.missed.append(otherwise)

    def view(self, session_id: str) -> View:
        return self.sessions.views.get(session_id, View())


async def one_turn(stage: Stage, workspace: Path, text: str) -> None:
    """The user's own prompt on the user's own files."""
    await stage.turn(await open_session(stage.client, workspace), text)


async def three_acts(stage: Stage, workspace: Path, sample_folder: Path) -> None:
    """Children in parallel, one of them stopped, and an edit that asks first."""
    session_id = await open_session(stage.client, workspace)
    with anyio.fail_after(ANSWER_TIMEOUT):
        model = (await stage.sessions.until(session_id, lambda view: view.primary is not None)).model
    hint = "" if model == "offline" else ON_ITS_OWN
    stage.screen.show(draw.heading("1 of 3 · a question: sub-agents look at it in parallel"))
    await stage.turn(session_id, QUESTION + hint)
    stage.expect(len(stage.view(session_id).blocks) >= 2, "the question was not shared among sub-agents")

    stage.screen.show(draw.heading("2 of 3 · one sub-agent is stopped, the others go on"))
    await _stop_one(stage, session_id, SECOND_QUESTION + hint)

    stage.screen.show(draw.heading("3 of 3 · an edit asks first, and says who asks"))
    stage.screen.show(Text("On a sample project in a temporary folder: your files stay as they are.", style="dim"))
    await _edit(stage, sample_folder)


async def _stop_one(stage: Stage, session_id: str, text: str) -> None:
    earlier = len(stage.view(session_id).blocks)

    def own(view: View) -> tuple[Block, ...]:
        return view.blocks[earlier:]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_stop_last, stage, session_id, own)
        await stage.turn(session_id, text)
        tasks.cancel_scope.cancel()
    ends = {block.status for block in own(stage.view(session_id))}
    stage.expect(AgentStatus.CANCELLED in ends, "no sub-agent was stopped: each had ended before")
    stage.expect(AgentStatus.COMPLETED in ends, "no other sub-agent went on to its end")


async def _stop_last(stage: Stage, session_id: str, own: Callable[[View], tuple[Block, ...]]) -> None:
    """Stops the youngest child as soon as two run and it has begun to work."""

    def ready(view: View) -> bool:
        blocks = own(view)
        at_work = [block for block in blocks if block.status is AgentStatus.RUNNING and block.calls]
        return len(at_work) >= 2 and blocks[-1] in at_work

    block = own(await stage.sessions.until(session_id, ready))[-1]
    label = draw.one_line(block.label)
    stage.screen.show(Text(f"The demo now stops [{label}], as its key or a click in an editor would.", style="bold"))
    await stop_agent(stage.client, session_id, block.agent_id)


async def _edit(stage: Stage, folder: Path) -> None:
    session_id = await open_session(stage.client, folder)
    before = stage.sessions.tally.approved
    await stage.turn(session_id, sample.REQUEST)
    changed = await anyio.to_thread.run_sync(sample.changed, folder)
    approved = stage.sessions.tally.approved - before
    for name in sample.FILES:
        word = "changed, as approved" if name in changed else "as it was"
        stage.screen.show(Text(f"  {name}: {word}"))
    stage.expect(stage.sessions.tally.asked > 0, "no edit was proposed")
    stage.expect(bool(changed) == bool(approved), "what is in the files is not what was approved")
