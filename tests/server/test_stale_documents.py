"""An editor that is behind the disk: agents read and change the file, and unsaved work of the user is kept."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pytest

from deputy_agents.files.encoding import fingerprint
from deputy_agents.ports.buffers import Buffer
from deputy_server.lsp.shared_buffers import SharedBuffers
from tests.support.files import OpenDocuments
from tests.support.messages_api import MessagesApi
from tests.support.model_replies import Block, Json, Play, call, calls, say
from tests.support.rpc import RpcClient
from tests.support.shared_server import Deputies

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = "one\ntwo\nthree\n"


def approve(request: Json) -> Json:
    return {"outcome": {"outcome": "selected", "optionId": request["options"][0]["optionId"]}}


@dataclass
class Desk:
    """An agent that makes the given calls, and an editor with ``file`` open as version 1."""

    client: RpcClient
    api: MessagesApi
    file: Path
    session_id: str
    queue: deque[Block]
    text: str
    version: int = 1
    edits: list[Json] = field(default_factory=list[Json])

    async def agent(self, *tries: Block) -> list[str]:
        """The results of these calls, each in a reply of its own."""
        self.queue.extend(tries)
        await self.client.prompt(self.session_id, "go")
        blocks = [b for m in self.api.bodies[-1]["messages"] if m["role"] == "user" for b in m["content"]]
        return [str(b["content"]) for b in blocks if b["type"] == "tool_result"][-len(tries) :]

    def open(self, text: str | None = None) -> None:
        self.text = self.text if text is None else text
        document = {"uri": self.file.as_uri(), "languageId": "text", "version": self.version, "text": self.text}
        self.client.notify("textDocument/didOpen", {"textDocument": document})

    def type(self, text: str) -> None:
        """The text of the document changes: the user types, or the editor loads the file again."""
        self.text, self.version = text, self.version + 1
        identifier = {"uri": self.file.as_uri(), "version": self.version}
        params = {"textDocument": identifier, "contentChanges": [{"text": text}]}
        self.client.notify("textDocument/didChange", params)

    def save(self, *, told: bool = True) -> None:
        self.file.write_text(self.text)
        if told:
            self.client.notify("textDocument/didSave", {"textDocument": {"uri": self.file.as_uri()}})

    def apply(self, params: Json) -> Json:
        (change,) = params["edit"]["documentChanges"]
        (edit,) = change["edits"]
        lines = [*self.text.splitlines(keepends=True), ""]

        def offset(at: str) -> int:
            position: dict[str, int] = edit["range"][at]
            return sum(map(len, lines[: position["line"]])) + position["character"]

        self.edits.append(params)
        self.type(f"{self.text[: offset('start')]}{edit['newText']}{self.text[offset('end') :]}")
        return {"applied": True}


Opening: TypeAlias = Callable[[], AbstractAsyncContextManager[Desk]]


@pytest.fixture
def desk(deputy: Deputies, workspace: Path) -> Opening:
    @asynccontextmanager
    async def opened() -> AsyncGenerator[Desk]:
        file = workspace / "a.txt"
        file.write_text(TEXT)
        queue: deque[Block] = deque()

        def play(body: Json, _: int) -> Play:
            return calls(queue.popleft()) if queue else say("done")

        async with deputy(play, workspace) as (client, api):
            client.handlers["deputy/permission/request"] = approve
            session_id, _ = await client.session()
            found = Desk(client, api, file, session_id, queue, TEXT)
            client.handlers["workspace/applyEdit"] = found.apply
            try:
                yield found
            finally:
                client.notify("textDocument/didClose", {"textDocument": {"uri": file.as_uri()}})

    return opened


def read() -> Block:
    return call("read_file", path="a.txt")


def edit(old: str, new: str) -> Block:
    return call("edit_file", path="a.txt", old_string=old, new_string=new)


COMMANDS = [
    "sed -i s/one/ONE/ a.txt",
    "printf 'ONE\\ntwo\\nthree\\n' > b; mv b a.txt",
    "printf 'ONE\\ntwo\\nthree\\n' > a.txt",
]


@pytest.mark.parametrize("command", COMMANDS)
async def test_agent_reads_and_changes_what_a_command_wrote_behind_an_unchanged_document(
    desk: Opening, command: str
) -> None:
    async with desk() as d:
        d.open()
        results = await d.agent(
            read(), call("shell", command=command), read(), call("grep", pattern="one|ONE"), edit("three", "3")
        )
        assert "one" in results[0]
        assert "ONE" in results[2]
        assert results[3] == "a.txt:1:ONE"
        assert d.file.read_text() == "ONE\ntwo\n3\n"
        assert d.edits == []
        await d.client.until(
            lambda m: (
                m.get("method") == "window/showMessage"
                and m["params"]["message"] == "a.txt has changed on disk. Reload it in the editor."
            )
        )


async def test_document_that_the_editor_has_loaded_again_is_changed_in_the_editor(desk: Opening) -> None:
    async with desk() as d:
        d.open()
        await d.agent(read(), call("shell", command=COMMANDS[0]), read())
        d.type("ONE\ntwo\nthree\n")
        results = await d.agent(edit("two", "2"), read())
        assert "Changed" in results[0]
        assert d.text == "ONE\n2\nthree\n"
        assert len(d.edits) == 1
        assert d.file.read_text() == "ONE\ntwo\nthree\n"


@pytest.mark.parametrize("told", [True, False])
async def test_saved_and_loaded_texts_count_as_unchanged_as_often_as_it_happens(desk: Opening, told: bool) -> None:
    async with desk() as d:
        d.open()
        await d.agent(read())
        d.type("one\ntwo\nthree\nfour\n")
        d.save(told=told)
        await d.agent(read())
        for number in range(3):
            changed = f"{number}\n{d.text}"
            d.file.write_text(changed)
            (result,) = await d.agent(read())
            assert f"1\t{number}" in result
            d.type(changed)
            (result,) = await d.agent(read())
        d.file.write_text("last\n")
        assert "last" in (await d.agent(read()))[0]


async def test_unsaved_work_is_kept_and_the_other_change_is_told(desk: Opening) -> None:
    async with desk() as d:
        d.open()
        await d.agent(read())
        d.type("one\nmine\nthree\n")
        results = await d.agent(call("shell", command=COMMANDS[0]), read(), edit("three", "3"))
        assert "mine" in results[1]
        assert "one" in results[1]
        assert "the file on disk has other changes" in results[1]
        assert d.text == "one\nmine\n3\n"
        assert d.file.read_text() == "ONE\ntwo\nthree\n"


async def test_unsaved_work_alone_is_read_without_a_note(desk: Opening) -> None:
    async with desk() as d:
        d.open("one\nmine\nthree\n")
        assert await d.agent(read()) == ["     1\tone\n     2\tmine\n     3\tthree"]


async def test_user_who_goes_back_to_an_earlier_text_has_unsaved_work(desk: Opening) -> None:
    async with desk() as d:
        d.open()
        await d.agent(read())
        d.type("ONE\ntwo\nthree\n")
        d.save()
        await d.agent(read())
        d.type(TEXT)
        assert "1\tone" in (await d.agent(read()))[0]


async def test_loading_again_within_the_grace_shows_no_message(desk: Opening) -> None:
    async with desk() as d:
        d.open()
        await d.agent(read(), call("shell", command=COMMANDS[0]), read())
        d.type("ONE\ntwo\nthree\n")
        await asyncio.sleep(0)
        await d.agent(read())
        assert not [m for m in d.client.received if m.get("method") == "window/showMessage"]


@pytest.mark.parametrize("other", ["new\n", "unsaved\n"])
async def test_document_of_an_editor_that_is_behind_is_the_last_choice(workspace: Path, other: str) -> None:
    file = workspace / "a.txt"
    file.write_text("new\n")
    behind, current = OpenDocuments(), OpenDocuments()
    behind.open[file] = Buffer(file, "old\n", 1, fingerprint("old\n"))
    current.open[file] = Buffer(file, other, 1, fingerprint("new\n"))
    shared = SharedBuffers([behind, current], behind)
    found = await shared.get(file)
    assert found is not None
    assert found.text == other
    await shared.apply(file, "changed\n", version=1, label="edit")
    assert (current.open[file].text, behind.open[file].text) == ("changed\n", "old\n")
