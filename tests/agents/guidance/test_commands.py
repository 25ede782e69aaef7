"""Slash commands: found by name, filled in with arguments, never executed."""

from pathlib import Path

import pytest

from deputy_agents.definition.search_folders import SearchFolder
from deputy_agents.domain.event import MessageAdded, PromptQueue
from deputy_agents.domain.message import Text
from deputy_agents.domain.problem import Problem
from deputy_agents.guidance.commands import commands_in, fill_in, parse_call
from deputy_agents.guidance.items import Command
from deputy_agents.model.scripted import say
from tests.support.core import Cast, Pause, core


def command(body: str) -> Command:
    return Command("x", "", body, "x.md")


def write(root: Path, name: str, text: str) -> None:
    path = root / ".deputy/commands" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("body", "arguments", "prompt"),
    [
        ("Review $ARGUMENTS.", "a b", "Review a b."),
        ("$1 then $2, $3", "one 'two words'", "one then two words, "),
        ("No places", "extra", "No places\n\nextra"),
        ("No places", "", "No places"),
        ("$10 costs $1", "a", "$10 costs a"),
        ("$1 $ARGUMENTS", "$2 x", "$2 $2 x"),
        ("$1", "don't", "don't"),
        ("run !`rm -rf /`", "", "run !`rm -rf /`"),
    ],
)
@pytest.mark.requirement("X26")
def test_arguments_are_inserted_as_data(body: str, arguments: str, prompt: str) -> None:
    assert fill_in(command(body), arguments) == prompt


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("/review", ("review", "")),
        ("/fe:new Button  primary ", ("fe:new", "Button  primary")),
        ("/a\nmore\nlines", ("a", "more\nlines")),
        ("/usr/bin/env", None),
        ("look at /review", None),
        ("/", None),
    ],
)
def test_command_calls_are_recognized(text: str, call: tuple[str, str] | None) -> None:
    assert parse_call(text) == call


def test_names_come_from_the_path_and_descriptions_from_the_file(workspace: Path) -> None:
    write(workspace, "review.md", "---\ndescription: Looks: closely\nargument-hint: [file]\n---\nReview $1")
    write(workspace, "fe/new.md", "# Make a component\nNow.")
    write(workspace, "empty.md", "---\ndescription: x\n---\n")
    write(workspace, "sp ace.md", "Nobody could call it.")
    found = list(commands_in(SearchFolder(workspace / ".deputy/commands", workspace)))
    commands = {one.name: (one.description, one.argument_hint) for one in found if isinstance(one, Command)}
    assert commands == {"review": ("Looks: closely", "[file]"), "fe:new": ("Make a component", None)}
    assert [Path(one.file).name for one in found if isinstance(one, Problem)] == ["empty.md", "sp ace.md"]


@pytest.mark.asyncio
@pytest.mark.requirement("X26")
async def test_model_gets_the_prompt_and_the_user_sees_the_call(workspace: Path) -> None:
    write(workspace, "review.md", "Review $1 with care.")
    (workspace / "a.py").write_text("x = 1\n")
    async with core(workspace, Cast([say("done")])) as c:
        await (await c.session.prompts.accept([Text("/review @a.py")])).result()
        await c.caught_up()
        content = c.requests()[0].messages[0].content
        assert next(block.text for block in content if isinstance(block, Text)) == "Review @a.py with care."
        assert [m.text for m in c.bodies(MessageAdded) if m.role == "user"] == ["/review @a.py"]
        assert c.session.record.title == "/review @a.py"


@pytest.mark.asyncio
async def test_unknown_command_is_text_and_queued_one_is_shown_as_typed(workspace: Path) -> None:
    write(workspace, "known.md", "Body of it")
    pause = Pause(say("1"))
    async with core(workspace, Cast([pause, say("2"), say("3")])) as c:
        first = await c.session.prompts.accept([Text("/unknown thing")])
        await pause.asked.wait()
        second = await c.session.prompts.accept([Text("/known")], queue=True)
        queue = await c.seen(PromptQueue)
        assert [prompt.text for prompt in queue.entries] == ["/known"]
        pause.go.set()
        await first.result()
        await second.result()
        texts = [block.text for block in c.requests()[-1].messages[-1].content if isinstance(block, Text)]
        assert texts == ["Body of it"]
        assert c.requests()[0].messages[0].content[0] == Text("/unknown thing")
