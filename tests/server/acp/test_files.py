"""Files of the editor: read and written through clients that support it."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.acp import ASK, AcpClient, Speakers, choose
from tests.support.messages_api import Script
from tests.support.model_replies import Block, Json, Play, call, calls, say
from tests.support.rpc import Unanswered

pytestmark = pytest.mark.asyncio(loop_scope="module")

BOTH: Json = {"fs": {"readTextFile": True, "writeTextFile": True}}
READS: Json = {"fs": {"readTextFile": True}}


class Editor:
    """An editor with open texts by name. It keeps written text without saving it."""

    def __init__(self, client: AcpClient, session: str, texts: Mapping[str, str] | None = None) -> None:
        self.texts = dict(texts or {})
        self.asked: list[str] = []
        self._client = client
        self._session = session
        client.handlers |= {
            "fs/read_text_file": self._read,
            "fs/write_text_file": self._write,
            ASK: choose("allow_once"),
        }

    def _read(self, params: Json) -> Json:
        assert params["sessionId"] == self._session
        path = Path(params["path"])
        self.asked.append(path.name)
        if path.name not in self.texts and not path.exists():
            asked = next(m for m in reversed(self._client.received) if m.get("params") == params)
            return {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32002, "message": "no such file"}}
        return {"content": self.texts.get(path.name) or path.read_text()}

    def _write(self, params: Json) -> Json:
        self.texts[Path(params["path"]).name] = params["content"]
        return {}


def reading_and(*more: Block) -> Script:
    """Reads a.txt, makes the calls of ``more``, then reports the results."""

    def script(body: Json, _: int) -> Play:
        done = sum(1 for message in body["messages"] if message["role"] == "assistant")
        steps = [call("read_file", path="a.txt"), *more]
        if done < len(steps):
            return calls(steps[done])
        results = [b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"]]
        texts = [str(b["content"]) for b in results if b["type"] == "tool_result"]
        return say("\n---\n".join(texts))

    return script


EDIT = {"path": "a.txt", "old_string": "unsaved", "new_string": "edited"}


async def test_agents_read_unsaved_text_and_edit_it_through_the_editor(acp: Speakers, workspace: Path) -> None:
    (workspace / "a.txt").write_text("saved text\n")
    script = reading_and(call("edit_file", **EDIT))
    async with acp(script, workspace, BOTH) as (client, _, session):
        one = Editor(client, session, {"a.txt": "unsaved text\n"})
        await client.say(session, "go")
        assert "unsaved text" in client.text(session)
        assert one.texts["a.txt"] == "edited text\n"
        assert (workspace / "a.txt").read_text() == "saved text\n"
        request = await client.until(lambda m: m.get("method") == ASK)
        (diff,) = request["params"]["toolCall"]["content"]
        assert (diff["oldText"], diff["newText"]) == ("unsaved text\n", "edited text\n")


async def test_a_saved_file_is_written_through_an_editor_that_can_write(acp: Speakers, workspace: Path) -> None:
    (workspace / "a.txt").write_text("unsaved? no\n")
    async with acp(reading_and(call("edit_file", **EDIT)), workspace, BOTH) as (client, _, session):
        one = Editor(client, session)
        await client.say(session, "go")
        assert one.texts["a.txt"] == "edited? no\n"


async def test_a_saved_file_is_written_to_disk_if_the_editor_can_only_read(acp: Speakers, workspace: Path) -> None:
    (workspace / "a.txt").write_text("unsaved? no\n")
    async with acp(reading_and(call("edit_file", **EDIT)), workspace, READS) as (client, _, session):
        Editor(client, session)
        await client.say(session, "go")
        assert (workspace / "a.txt").read_text() == "edited? no\n"


async def test_unsaved_text_is_not_overwritten_if_the_editor_can_only_read(acp: Speakers, workspace: Path) -> None:
    (workspace / "a.txt").write_text("saved text\n")
    async with acp(reading_and(call("edit_file", **EDIT)), workspace, READS) as (client, _, session):
        Editor(client, session, {"a.txt": "unsaved text\n"})
        await client.say(session, "go")
        assert "has unsaved changes, and the editor cannot write files" in client.text(session)
        assert (workspace / "a.txt").read_text() == "saved text\n"


async def test_text_typed_between_reading_and_writing_is_not_lost(acp: Speakers, workspace: Path) -> None:
    (workspace / "a.txt").write_text("saved text\n")
    async with acp(reading_and(call("edit_file", **EDIT)), workspace, BOTH) as (client, _, session):
        one = Editor(client, session, {"a.txt": "unsaved text\n"})

        def answer(request: Json) -> Json:
            one.texts["a.txt"] = "unsaved text, typed on\n"
            return choose("allow_once")(request)

        client.handlers[ASK] = answer
        await client.say(session, "go")
        assert one.texts["a.txt"] == "unsaved text, typed on\n"
        assert "has changed" in client.text(session)


async def test_line_ends_that_an_editor_normalizes_are_preserved(acp: Speakers, workspace: Path) -> None:
    (workspace / "a.txt").write_bytes(b"unsaved? no\r\nmore\r\n")
    async with acp(reading_and(call("edit_file", **EDIT)), workspace, BOTH) as (client, _, session):
        Editor(client, session, {"a.txt": "unsaved? no\nmore\n"})
        await client.say(session, "go")
        assert (workspace / "a.txt").read_bytes() == b"edited? no\r\nmore\r\n"


async def test_new_files_and_images_do_not_involve_the_editor(acp: Speakers, workspace: Path) -> None:
    (workspace / "a.txt").write_bytes(b"bytes \0 of a program")
    script = reading_and(call("write_file", path="new.txt", content="made\n"))
    async with acp(script, workspace, BOTH) as (client, _, session):
        one = Editor(client, session)
        await client.say(session, "go")
        assert (workspace / "new.txt").read_text() == "made\n"
        assert "a.txt" not in one.asked


async def test_a_failed_write_of_the_editor_is_an_error_result(acp: Speakers, workspace: Path) -> None:
    (workspace / "a.txt").write_text("saved text\n")
    async with acp(reading_and(call("edit_file", **EDIT)), workspace, BOTH) as (client, _, session):
        Editor(client, session, {"a.txt": "unsaved text\n"})
        del client.handlers["fs/write_text_file"]
        await client.say(session, "go")
        assert "The editor did not write a.txt: method not found" in client.text(session)


async def test_a_hanging_editor_delays_one_read_and_the_turn_can_be_cancelled(acp: Speakers, workspace: Path) -> None:
    (workspace / "a.txt").write_text("saved text\n")
    async with acp(reading_and(), workspace, BOTH) as (client, _, session):
        client.handlers["fs/read_text_file"] = lambda _: Unanswered
        prompt = client.start_say(session, "go")
        asked = await client.until(lambda m: m.get("method") == "fs/read_text_file")
        client.notify("session/cancel", {"sessionId": session})
        assert (await client.result(prompt))["stopReason"] == "cancelled"
        withdrawn = await client.until(lambda m: m.get("method") == "$/cancel_request")
        assert withdrawn["params"] == {"requestId": asked["id"]}
