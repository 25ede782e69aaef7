"""Live-updating transcripts in an editor without a plugin, and their commands."""

import asyncio
from pathlib import Path

import pytest

from tests.support.messages_api import messages_api
from tests.support.model_replies import Json, call, calls, say
from tests.support.rpc import PLAIN, RpcFailure, serving
from tests.support.shared_server import Deputies, spawning
from tests.support.viewer import VIEWING, Viewer, path_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


def read(path: str) -> str:
    return Path(path).read_text("utf-8")


def gated(gate: asyncio.Event, words: str = "found it") -> object:
    return lambda _body, _n: say(words, gate=gate)


async def test_a_prompt_opens_a_live_transcript(deputy: Deputies, workspace: Path) -> None:
    gate = asyncio.Event()
    script = spawning("look in the tests", child=gated(gate))  # type: ignore[arg-type]
    async with deputy(script, workspace, VIEWING) as (client, _):
        viewer = Viewer(client)
        await client.command("deputy.prompt", {"text": "Where is it?"})
        uri = await viewer.opened()
        text = await viewer.until(uri, "⟳ running", "look in the tests")
        assert text.startswith("# Where is it?\n")
        assert "**You**\n\nWhere is it?\n" in text
        assert "Agents: 1 primary, 1 running, 0 finished\n" in text
        gate.set()
        text = await viewer.until(uri, "… idle", "**Deputy**\n\ndone\n")
        assert "- ✓ completed · [look in the tests](look-in-the-tests-" in text
        assert "Agents: 1 primary, 0 running, 1 finished\n" in text
        assert viewer.focused == []
        shown = [m["params"]["message"] for m in client.received if m.get("method") == "window/showMessage"]
        assert shown == []


async def test_a_streamed_answer_is_shown_as_it_grows(deputy: Deputies, workspace: Path) -> None:
    hold = asyncio.Event()
    async with deputy(lambda *_: say("one two", piece=4, hold=hold), workspace, VIEWING) as (client, _):
        viewer = Viewer(client)
        await client.command("deputy.prompt", {"text": "count"})
        uri = await viewer.opened()
        await viewer.until(uri, "**Deputy** ⟳\n\none ")
        hold.set()
        await viewer.until(uri, "**Deputy**\n\none two\n", gone="⟳")


async def test_code_lenses_are_at_the_right_lines_whatever_a_label_contains(deputy: Deputies, workspace: Path) -> None:
    script = spawning("Fix [docs](guide.md) now", child=gated(asyncio.Event()))  # type: ignore[arg-type]
    async with deputy(script, workspace, VIEWING) as (client, _):
        viewer = Viewer(client)
        await client.command("deputy.prompt", {"text": "one\u2028line\n```\nleft open"})
        uri = await viewer.opened()
        text = await viewer.until(uri, "Agents: 1 primary, 1 running", "Fix ")
        assert text.count("\n```") == 2
        at = next(number for number, line in enumerate(text.split("\n")) if "Fix " in line)
        await viewer.until_lenses(uri, [(0, "Stop"), (at, "Open"), (at, "Stop")])
        await viewer.press(uri, "Stop")


async def test_text_of_a_model_cannot_create_a_link_in_a_heading(deputy: Deputies, workspace: Path) -> None:
    script = spawning("[docs](http://evil) `x", child=lambda *_: say("done"))
    async with deputy(script, workspace, VIEWING) as (client, _):
        viewer = Viewer(client)
        await client.command("deputy.prompt", {"text": "go"})
        await viewer.until(await viewer.opened(), "1 finished")
        child = (await client.command("deputy.listAgents"))["agents"][-1]["agentId"]
        await client.command("deputy.openTranscript", {"agentId": child})
        text = await viewer.until(await viewer.opened(1), "started by")
        assert text.startswith("# [docs\\](http://evil) \\`x\n")


async def test_lenses_and_links_work_in_folders_of_any_name(workspace: Path, tmp_path: Path) -> None:
    (workspace / "a.py").write_text("x\n")
    env = {"ANTHROPIC_API_KEY": "test-key", "DEPUTY_STATE": str(tmp_path / "with space and \u00e4")}
    async with messages_api(spawning("look", child=lambda *_: say("see `a.py:1`"))) as api, serving(env=env) as client:
        await client.initialize(workspace, VIEWING, initializationOptions={"model": "m", "baseUrl": api.url})
        viewer = Viewer(client)
        await client.command("deputy.prompt", {"text": "look at `a.py:1`"})
        uri = await viewer.opened()
        await viewer.until(uri, "**Deputy**\n\ndone\n")
        assert "%20" in uri
        assert "Open" in {title for _, title, _ in await viewer.lenses(uri)}
        links = await client.request("textDocument/documentLink", {"textDocument": {"uri": uri}})
        assert (workspace / "a.py").as_uri() + "#L1" in [link["target"] for link in links]


async def test_lenses_stop_and_open_a_sub_agent(deputy: Deputies, workspace: Path) -> None:
    gate = asyncio.Event()
    script = spawning("first task", "second task", child=gated(gate))  # type: ignore[arg-type]
    async with deputy(script, workspace, VIEWING) as (client, _):
        viewer = Viewer(client)
        await client.command("deputy.prompt", {"text": "go"})
        uri = await viewer.opened()
        text = await viewer.until(uri, "[first task]", "[second task]", "Agents: 1 primary, 2 running")
        lines = text.splitlines()
        at = {
            name: next(n for n, line in enumerate(lines) if f"[{name}]" in line)
            for name in ("first task", "second task")
        }
        await viewer.until_lenses(uri, [(0, "Stop"), *((at[name], title) for name in at for title in ("Open", "Stop"))])
        assert await viewer.press(uri, "Stop", 1) == {"cancelled": True}
        await viewer.until(uri, "- ⊘ cancelled · [first task]", "- ⟳ running · [second task]")
        opened = await viewer.press(uri, "Open", 1)
        assert viewer.focused == [opened["uri"]]
        text = await viewer.until(opened["uri"], "# second task\n", "**Task**\n\nsecond task\n")
        assert "started by [go](" in text
        assert {title for _, title, _ in await viewer.lenses(opened["uri"])} == {"Open parent", "Stop"}
        await viewer.press(opened["uri"], "Open parent")
        assert viewer.focused[-1] == uri
        gate.set()
        await viewer.until(opened["uri"], "✓ completed", "**general**\n\nfound it\n")
        await viewer.until(uri, "**Deputy**\n\ndone\n")


def writing(*paths: str) -> object:
    def child(body: Json, _: int) -> object:
        if len(body["messages"]) == 1:
            return calls(*(call("write_file", path=path, content=f"new {path}\n") for path in paths))
        return say("written")

    return spawning("write them", child=child, mode="default")  # type: ignore[arg-type]


async def test_open_permission_requests_are_shown_completely_and_can_be_answered(
    deputy: Deputies, workspace: Path
) -> None:
    """Two requests about the same file are distinguished; answering one withdraws its message."""
    never = asyncio.Event()
    async with deputy(writing("a.txt", "b.txt"), workspace, VIEWING) as (client, _):  # type: ignore[arg-type]
        client.handlers["window/showMessageRequest"] = lambda _: never.wait()
        viewer = Viewer(client)
        await client.command("deputy.prompt", {"text": "go"})
        uri = await viewer.opened()
        text = await viewer.until(uri, "### [write them] write_file(a.txt)", "### [write them] write_file(b.txt)")
        assert "```diff\n@@ -0,0 +1 @@\n+new a.txt\n```" in text
        assert text.index("## Waiting for you\n") > text.index("[write them]")
        message = await client.until(lambda m: m.get("method") == "window/showMessageRequest")
        assert await viewer.press(uri, "Approve") == {"accepted": True}
        withdrawn = await client.until(lambda m: m.get("method") == "$/cancelRequest")
        assert withdrawn["params"]["id"] == message["id"]
        await viewer.until(uri, "write_file(b.txt) (", gone="write_file(a.txt) (")
        assert await viewer.press(uri, "Deny") == {"accepted": True}
        await viewer.until(uri, "**Deputy**\n\ndone\n", gone="## Waiting for you")
        assert (workspace / "a.txt").read_text() == "new a.txt\n"
        assert not (workspace / "b.txt").exists()


async def test_edits_are_reverted_from_the_document_of_the_agent_that_made_them(
    deputy: Deputies, workspace: Path
) -> None:
    async with deputy(writing("a.txt"), workspace, VIEWING) as (client, _):  # type: ignore[arg-type]
        client.handlers["window/showMessageRequest"] = lambda _: {"title": "Approve"}
        viewer = Viewer(client)
        await client.command("deputy.prompt", {"text": "go"})
        uri = await viewer.opened()
        await viewer.until(uri, "**Deputy**\n\ndone\n")
        assert "Revert edits" not in {title for _, title, _ in await viewer.lenses(uri)}
        child = (await viewer.press(uri, "Open"))["uri"]
        await viewer.until(child, "- ✓ `[write them] write_file(a.txt)` completed")
        assert (await viewer.press(child, "Revert edits"))["reverted"] == [(workspace / "a.txt").as_uri()]
        assert not (workspace / "a.txt").exists()


async def test_code_actions_offer_the_commands_of_lenses(deputy: Deputies, workspace: Path) -> None:
    gate = asyncio.Event()
    script = spawning("first task", child=gated(gate))  # type: ignore[arg-type]
    async with deputy(script, workspace, VIEWING) as (client, _):
        viewer = Viewer(client)
        await client.command("deputy.prompt", {"text": "go"})
        uri = await viewer.opened()
        text = await viewer.until(uri, "- ⟳ running · [first task]")
        line = next(number for number, line in enumerate(text.splitlines()) if "[first task]" in line)
        place = {"line": line, "character": 3}
        params = {"textDocument": {"uri": uri}, "range": {"start": place, "end": place}, "context": {"diagnostics": []}}
        actions = await client.request("textDocument/codeAction", params)
        assert [action["title"] for action in actions] == ["Open: first task", "Stop: first task"]
        gate.set()
        await viewer.until(uri, "**Deputy**\n\ndone\n")


async def test_locations_in_a_transcript_are_links(deputy: Deputies, workspace: Path) -> None:
    (workspace / "src").mkdir()
    (workspace / "src" / "a.py").write_text("one\ntwo\nthree\n")
    answer = "😀 It is in src/a.py:2-3, not in src/none.py:1 nor in ../out.py:1."
    async with deputy(lambda *_: say(answer), workspace, VIEWING) as (client, _):
        viewer = Viewer(client)
        await client.command("deputy.prompt", {"text": "where?"})
        uri = await viewer.opened()
        text = await viewer.until(uri, answer, "References: ")
        target = f"{(workspace / 'src' / 'a.py').as_uri()}#L2-L3"
        assert f"References: [src/a.py:2-3]({target})\n" in text
        links = await client.request("textDocument/documentLink", {"textDocument": {"uri": uri}})
        first = links[0]
        assert {link["target"] for link in links} == {target}
        line = next(number for number, line in enumerate(text.splitlines()) if line == answer)
        assert first["range"]["start"] == {"line": line, "character": len("xx It is in ")}


async def test_a_client_that_cannot_show_documents_gets_the_answer_and_the_path_as_a_message(
    deputy: Deputies, workspace: Path
) -> None:
    async with deputy(lambda *_: say("here it is"), workspace, PLAIN) as (client, _):
        started = await client.command("deputy.prompt", {"text": "go"})
        told = (await client.until(lambda m: m.get("method") == "window/showMessage"))["params"]["message"]
        answer, _, path = told.partition("\n\nFull transcript: ")
        assert answer == "here it is"
        assert "here it is" in read(path)
        opened = await client.command("deputy.openTranscript", {"agentId": started["agentId"]})
        assert path_of(opened["uri"]) == Path(path)


async def test_only_the_user_can_read_transcripts_and_they_contain_no_secrets(
    deputy: Deputies, workspace: Path
) -> None:
    async with deputy(lambda *_: say("the key is test-key-of-the-server"), workspace, VIEWING) as (client, _):
        viewer = Viewer(client)
        await client.command("deputy.prompt", {"text": "password = hunter22-and-more"})
        uri = await viewer.opened()
        text = await viewer.until(uri, "the key is")
        assert "hunter22" not in text
        path = path_of(uri)
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert path.parent.parent.name == "transcripts"
        assert path.parent.parent.stat().st_mode & 0o777 == 0o700


async def test_transcripts_are_deleted_with_their_session(deputy: Deputies, workspace: Path) -> None:
    async with deputy(lambda *_: say("x"), workspace, VIEWING) as (client, _):
        viewer = Viewer(client)
        await client.command("deputy.prompt", {"text": "one"})
        first = path_of(await viewer.opened())
        await client.command("deputy.newSession")
        await client.command("deputy.prompt", {"text": "two"})
        second = path_of(await viewer.opened(1))
        await client.request("deputy/session/delete", {"sessionId": first.parent.name})
        assert not first.parent.exists()
        assert second.exists()


async def test_an_unknown_agent_has_no_transcript(deputy: Deputies, workspace: Path) -> None:
    async with deputy(lambda *_: say("x"), workspace, VIEWING) as (client, _):
        with pytest.raises(RpcFailure) as failure:
            await client.command("deputy.openTranscript", {"agentId": "nobody"})
        assert failure.value.code == -32008
