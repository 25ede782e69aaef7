"""Mentions in prompts are attached in the form in which the agent would read them; completion of prompts."""

from pathlib import Path

import pytest

from deputy_agents.domain.message import Image, Text, ToolResult
from deputy_agents.editor.completion import Completions
from deputy_agents.editor.mention import Mention, mentions
from deputy_agents.model.scripted import calls, say
from tests.support.core import Cast, Core, Person, core, edit
from tests.support.facts import without_facts
from tests.support.images import png


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see @src/a.py.", [Mention("src/a.py")]),
        ("@a.py#L3-L9 and @a.py#L3", [Mention("a.py", 3, 9), Mention("a.py", 3, 3)]),
        ("@a.py:3-9, @a.py:9-3", [Mention("a.py", 3, 9), Mention("a.py", 9, 9)]),
        ('@"my file.txt"#L2', [Mention("my file.txt")]),
        ("mail me@example.org or `x@y`", []),
        ("(@a.py) @a.py", [Mention("a.py")]),
        ("@", []),
    ],
)
def test_mentions_are_found(text: str, found: list[Mention]) -> None:
    assert list(mentions(text)) == found


async def sent(c: Core, text: str) -> list[str]:
    """The texts that the model got in addition to the prompt itself."""
    await (await c.session.prompts.accept([Text(text)])).result()
    content = c.requests()[-1].messages[-1].content
    return without_facts(block.text for block in content if isinstance(block, Text))[1:]


@pytest.fixture
def project(workspace: Path) -> Path:
    (workspace / "src").mkdir()
    (workspace / "src/a.py").write_text(
        "import os\n\n\nclass Engine:\n    def start(self):\n        return os.getpid()\n"
    )
    (workspace / ".env").write_text("KEY=secret\n")
    (workspace.parent / "outside.txt").write_text("outside\n")
    return workspace


@pytest.mark.requirement("X23")
@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("prompt", "attached"),
    [
        ("look at @src/a.py", ["[@src/a.py] read_file(src/a.py)", "class Engine", "getpid"]),
        ("look at @src/a.py#L4-L5", ["     4\tclass Engine", "     5\t    def start"]),
        ("what is in @src/ ?", ["[@src/] list_dir(src)", "a.py"]),
        ("explain @Engine", ["src/a.py:4:", "class Engine"]),
        ("explain @Engine.start", ["src/a.py:5:"]),
    ],
)
async def test_files_ranges_folders_and_symbols_are_attached(project: Path, prompt: str, attached: list[str]) -> None:
    async with core(project, Cast([say("done")])) as c:
        [text] = await sent(c, prompt)
        assert all(part in text for part in attached)


@pytest.mark.requirement("X23")
@pytest.mark.asyncio
async def test_image_is_attached(project: Path) -> None:
    (project / "shot.png").write_bytes(png(2, 1))
    async with core(project, Cast([say("done")])) as c:
        await (await c.session.prompts.accept([Text("what is on @shot.png")])).result()
        [image] = [block for block in c.requests()[-1].messages[-1].content if isinstance(block, Image)]
        assert image.media_type == "image/png"


@pytest.mark.asyncio
@pytest.mark.parametrize("prompt", ["use @property here", "@nothing.txt", "@../outside.txt", "@/etc/hostname"])
async def test_mention_that_names_nothing_is_plain_text(project: Path, prompt: str) -> None:
    async with core(project, Cast([say("done")])) as c:
        assert await sent(c, prompt) == []


@pytest.mark.asyncio
async def test_secret_is_not_attached(project: Path) -> None:
    async with core(project, Cast([say("done")])) as c:
        assert await sent(c, "see @.env") == ["[@.env is not attached: reading it needs approval]"]


@pytest.mark.asyncio
async def test_file_that_cannot_be_attached_has_a_reason(project: Path) -> None:
    (project / "bin.dat").write_bytes(b"\0\1")
    async with core(project, Cast([say("done"), say("done")])) as c:
        [beyond] = await sent(c, "see @src/a.py#L50-L90")
        assert beyond.startswith("[@src/a.py is not attached: ")
        assert "6 lines" in beyond
        [binary] = await sent(c, "see @bin.dat")
        assert binary.startswith("[@bin.dat is not attached: ")


@pytest.mark.asyncio
async def test_attached_file_counts_as_read(project: Path) -> None:
    change = calls([edit("src/a.py", "class Engine", "class Motor")])
    async with core(project, Cast([change, say("done")]), Person()) as c:
        await (await c.session.prompts.accept([Text("rename the class in @src/a.py")])).result()
        [result] = [b for b in c.requests()[-1].messages[-1].content if isinstance(b, ToolResult)]
        assert not result.is_error
        assert "class Motor" in (project / "src/a.py").read_text()


@pytest.mark.asyncio
async def test_number_of_attachments_is_bounded(project: Path) -> None:
    for n in range(40):
        (project / f"f{n}.txt").write_text("x" * 100 + "\n" * 2)
    async with core(project, Cast([say("done")])) as c:
        assert len(await sent(c, " ".join(f"@f{n}.txt" for n in range(40)))) == 20


async def completed(project: Path, text: str) -> Completions:
    async with core(project, Cast([])) as c:
        return await c.session.complete(text)


@pytest.mark.asyncio
async def test_completion_lists_names_with_the_prefix_first(project: Path) -> None:
    (project / "area.txt").write_text("")
    (project / "src/My File.txt").write_text("")
    found = await completed(project, "look at @A")
    assert found.replace == "@A"
    assert [item.text for item in found.items] == ["@area.txt", "@src/a.py"]
    assert [item.text for item in (await completed(project, "@src/my")).items] == ['@"src/My File.txt"']
    assert [(item.text, item.kind) for item in (await completed(project, "@sr")).items] == [("@src/", "folder")]


@pytest.mark.asyncio
async def test_completed_mention_attaches_the_completed_file(project: Path) -> None:
    for name in (
        "[br](x).md",
        "it's.md",
        "C#.md",
        "end.",
        "me@home.md",
        "(a) b.md",
        "x#3",
        'quote"x.md',
        "new\nline.md",
    ):
        (project / name).write_text(f"I am {name!r}.")
    async with core(project, Cast([say("done")] * 9)) as c:
        for prefix in ("[br", "it", "C#", "end", "me", "(a"):
            [item] = (await c.session.complete(f"see @{prefix}")).items
            [text] = await sent(c, f"see {item.text} please")
            assert f"I am {prefix}" in text.replace('"', "").replace("'", ""), item
        for not_mentionable in ("x#", "quote", "new", "line"):
            assert (await c.session.complete(f"see @{not_mentionable}")).items == ()


@pytest.mark.asyncio
async def test_completion_of_commands_and_of_plain_text(project: Path) -> None:
    (project / ".deputy/commands").mkdir(parents=True)
    (project / ".deputy/commands/review.md").write_text("---\nargument-hint: [file]\n---\nReview $1")
    found = await completed(project, "/rev")
    assert [(item.text, item.kind, item.detail) for item in found.items] == [("/review", "command", "[file] Review $1")]
    assert (await completed(project, "hello world")) == Completions("")
    assert (await completed(project, "look @../")).items == ()
