"""Turns of ``deputy acp``: the content of prompts, updates, and every way to end."""

import asyncio
import base64
from pathlib import Path

import pytest

from tests.support.acp import ASK, SUBAGENTS, AcpClient, Speakers, choose
from tests.support.images import png
from tests.support.model_replies import Failure, Json, Play, call, calls, failing, say, think
from tests.support.rpc import RpcFailure
from tests.support.shared_server import last_text

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def send(client: AcpClient, session: str, *blocks: Json) -> Json:
    return await client.request("session/prompt", {"sessionId": session, "prompt": list(blocks)})


async def test_a_turn_streams_thoughts_and_text_and_ends_with_its_usage(acp: Speakers, workspace: Path) -> None:
    def script(_body: Json, _n: int) -> Play:
        return Play((think("let me see"), {"type": "text", "text": "Hello there"}), piece=4)

    async with acp(script, workspace) as (client, _, session):
        ended = await client.say(session, "hello")
        assert ended["stopReason"] == "end_turn"
        assert ended["usage"]["totalTokens"] == ended["usage"]["inputTokens"] + ended["usage"]["outputTokens"] > 0
        assert client.text(session, "agent_thought_chunk") == "let me see"
        assert client.text(session) == "Hello there"
        spoken = {update["messageId"] for update in client.updates("agent_message_chunk")}
        thought = {update["messageId"] for update in client.updates("agent_thought_chunk")}
        assert (len(spoken), len(thought), spoken & thought) == (1, 1, set())
        assert client.updates("session_info_update") == [{"sessionUpdate": "session_info_update", "title": "hello"}]
        assert client.updates("usage_update")[-1]["used"] == ended["usage"]["totalTokens"]


async def test_a_prompt_contains_files_lines_images_and_embedded_text(acp: Speakers, workspace: Path) -> None:
    async with acp(lambda _b, _n: say("seen"), workspace) as (client, api, session):
        file = (workspace / "a.py").as_uri()
        await send(
            client,
            session,
            {"type": "text", "text": "compare"},
            {"type": "resource_link", "uri": f"{file}#L3-L9", "name": "a.py"},
            {"type": "resource", "resource": {"uri": file, "text": "unsaved = True\n", "mimeType": "text/x-python"}},
            {"type": "image", "mimeType": "image/png", "data": base64.b64encode(png(2, 2)).decode()},
            {"type": "resource", "resource": {"uri": f"{file}.zip", "blob": "AAAA", "mimeType": "application/zip"}},
        )
        content: list[Json] = api.bodies[-1]["messages"][-1]["content"]
        texts = [block["text"] for block in content if block["type"] == "text"]
        assert texts[:4] == ["compare", "(about a.py:3-9)", "(about a.py)", "(about a.py.zip)"]
        assert "[a.py.zip is not attached: it is neither text nor an image]" in texts
        assert "[a.py, as the editor has it]\nunsaved = True\n" in texts
        assert [block["source"]["media_type"] for block in content if block["type"] == "image"] == ["image/png"]
        # Attached content is not part of the prompt that users see.
        assert (
            client.updates("session_info_update")[-1]["title"]
            == "compare (about a.py:3-9) (about a.py) (about a.py.zip)"
        )


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ({"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}, "audio is not supported"),
        ({"type": "image", "mimeType": "image/png", "data": "no picture"}, r"prompt\[0\]\.data"),
        ({"type": "video"}, "prompt"),
        ({"type": "text", "text": "  "}, "empty"),
    ],
)
async def test_unsupported_content_of_a_prompt_is_rejected_with_the_reason(
    acp: Speakers, workspace: Path, block: Json, reason: str
) -> None:
    async with acp(lambda _b, _n: say("never"), workspace) as (client, api, session):
        with pytest.raises(RpcFailure, match=reason) as failure:
            await send(client, session, block)
        assert failure.value.code == -32602
        assert api.requests == []


async def test_a_slash_command_of_the_workspace_is_listed_and_can_be_called(acp: Speakers, workspace: Path) -> None:
    folder = workspace / ".deputy" / "commands"
    folder.mkdir(parents=True)
    (folder / "fix.md").write_text("---\ndescription: Fixes one thing\nargument-hint: number\n---\nFix number $1.\n")
    async with acp(lambda _b, _n: say("fixed"), workspace) as (client, api, session):
        offered = await client.update("available_commands_update")
        own, *builtin = offered["availableCommands"]
        assert own == {"name": "fix", "description": "Fixes one thing", "input": {"hint": "number"}}
        assert {"compact", "context", "clear"} <= {command["name"] for command in builtin}
        await client.say(session, "/fix 7")
        assert last_text(api.bodies[-1]) == "Fix number 7."


@pytest.mark.requirement("R9")
async def test_slash_commands_go_back_and_fork_and_what_was_gone_back_over_is_not_replayed(
    acp: Speakers, workspace: Path
) -> None:
    (workspace / "a.txt").write_text("one\n")

    def script(body: Json, _: int) -> Play:
        match sum(message["role"] == "assistant" for message in body["messages"]):
            case 0:
                return calls(call("read_file", path="a.txt"))
            case 1:
                return calls(call("edit_file", path="a.txt", old_string="one", new_string="1"))
            case _:
                return say("changed it")

    async with acp(script, workspace) as (client, _, session):
        offered = await client.update("available_commands_update")
        assert {"rewind", "fork"} <= {command["name"] for command in offered["availableCommands"]}
        await client.request("session/set_mode", {"sessionId": session, "modeId": "accept_edits"})
        await client.say(session, "change it")
        assert (workspace / "a.txt").read_text() == "1\n"
        await client.say(session, "/fork")
        await client.say(session, "/rewind 1")
        assert (workspace / "a.txt").read_text() == "one\n"
        assert "Went back to before *change it*. Restored: `a.txt`." in client.text(session)
        listed = await client.request("session/list", {"cwd": str(workspace)})
        assert {"change it", "Fork of change it"} <= {one["title"] for one in listed["sessions"]}
        client.received.clear()
        await client.request("session/load", {"sessionId": session, "cwd": str(workspace), "mcpServers": []})
        assert client.text(session, "user_message_chunk") == "/rewind 1"
        assert client.updates("tool_call") == []


async def test_a_plan_has_priorities(acp: Speakers, workspace: Path) -> None:
    def script(body: Json, _: int) -> Play:
        if len(body["messages"]) > 1:
            return say("planned")
        steps = [
            {"content": "look", "status": "in_progress"},
            {"content": "fix", "status": "pending", "priority": "high"},
        ]
        return calls(call("todo", entries=steps))

    async with acp(script, workspace) as (client, _, session):
        await client.say(session, "plan it")
        assert (await client.update("plan"))["entries"] == [
            {"content": "look", "status": "in_progress", "priority": "medium"},
            {"content": "fix", "status": "pending", "priority": "high"},
        ]


async def test_a_retried_stream_is_not_shown_twice(acp: Speakers, workspace: Path) -> None:
    def script(_body: Json, n: int) -> Play:
        return say("Here is the answer.", piece=5, failure=Failure.CUT if n == 0 else None, after=2)

    async with acp(script, workspace) as (client, api, session):
        await client.say(session, "go")
        assert len(api.requests) == 2
        assert client.text(session) == "Here is the answer."


async def test_a_retried_answer_with_another_beginning_is_sent_as_a_new_message(acp: Speakers, workspace: Path) -> None:
    def script(_body: Json, n: int) -> Play:
        return say("Well, no.", failure=Failure.CUT) if n == 0 else say("Yes, of course it is so.")

    async with acp(script, workspace) as (client, _, session):
        await client.say(session, "go")
        last = client.updates("agent_message_chunk")[-1]
        assert last["content"]["text"] == "Yes, of course it is so."
        assert last["messageId"] != client.updates("agent_message_chunk")[0]["messageId"]


async def test_a_model_failure_is_an_error_with_an_action(acp: Speakers, workspace: Path) -> None:
    async with acp(lambda _b, _n: failing(401, "authentication_error", "invalid key"), workspace) as (
        client,
        _,
        session,
    ):
        with pytest.raises(RpcFailure) as failure:
            await client.say(session, "go")
        assert failure.value.code == -32006
        assert failure.value.data["action"]
        assert failure.value.data["retryable"] is False


@pytest.mark.parametrize("way", ["session/cancel", "$/cancel_request"])
async def test_a_turn_is_cancelled_in_both_ways_and_the_session_continues(
    acp: Speakers, workspace: Path, way: str
) -> None:
    gate = asyncio.Event()

    def script(_body: Json, n: int) -> Play:
        return say("late", gate=gate) if n == 0 else say("here again")

    async with acp(script, workspace) as (client, api, session):
        prompt = client.start_say(session, "go")
        await api.until(lambda: bool(api.requests))
        client.notify(way, {"sessionId": session} if way == "session/cancel" else {"requestId": prompt})
        assert (await client.result(prompt))["stopReason"] == "cancelled"
        await api.until(lambda: api.requests[0].left_early)
        assert (await client.say(session, "again"))["stopReason"] == "end_turn"
        assert client.text(session) == "here again"


async def test_a_cancel_right_after_a_prompt_cancels_it(acp: Speakers, workspace: Path) -> None:
    async with acp(lambda _b, _n: say("never heard", gate=asyncio.Event()), workspace) as (client, _, session):
        prompt = client.start_say(session, "go")
        client.notify("session/cancel", {"sessionId": session})
        assert (await client.result(prompt))["stopReason"] == "cancelled"


async def test_a_prompt_during_a_turn_is_queued(acp: Speakers, workspace: Path) -> None:
    gate = asyncio.Event()

    def script(body: Json, n: int) -> Play:
        return say(f"answer to {last_text(body)} ", gate=gate if n == 0 else None)

    async with acp(script, workspace) as (client, api, session):
        first = client.start_say(session, "one")
        await api.until(lambda: bool(api.requests))
        second = client.start_say(session, "two")
        gate.set()
        assert (await client.result(first))["stopReason"] == "end_turn"
        assert (await client.result(second))["stopReason"] == "end_turn"
        assert client.text(session) == "answer to one answer to two "


async def test_a_permission_request_shows_the_full_escaped_command_and_its_folder(
    acp: Speakers, workspace: Path
) -> None:
    def script(body: Json, _: int) -> Play:
        if len(body["messages"]) > 1:
            return say("ran")
        return calls(call("shell", command="printf 'one\\ntwo\\n' # \u202egnp.exe"))

    async with acp(script, workspace) as (client, _, session):
        asked: list[Json] = []
        client.handlers[ASK] = lambda permission_request: (
            asked.append(permission_request) or choose("allow_once")(permission_request)
        )
        await client.say(session, "run it")
        shown, why = asked[0]["toolCall"]["content"]
        assert why["content"]["text"] == "The mode default asks before commands; a rule for shell allows them."
        assert shown["content"]["text"] == (f"```\nprintf 'one\\ntwo\\n' # \\u{{202e}}gnp.exe\n```\nin `{workspace}`")
        kinds = [option["kind"] for option in asked[0]["options"]]
        assert "allow_once" in kinds
        assert "reject_once" in kinds
        ended = await client.update("tool_call_update", status="completed")
        assert "one\ntwo\n" in ended["content"][0]["content"]["text"]


@pytest.mark.parametrize(
    "reply",
    [
        None,
        {},
        {"outcome": {"outcome": "cancelled"}},
        {"outcome": {"outcome": "selected"}},
        {"outcome": {"outcome": "selected", "optionId": "everything"}},
        {"outcome": {"outcome": "allowed", "optionId": "allow_once"}},
        {"jsonrpc": "2.0", "id": "deputy-1", "error": {"code": -32601, "message": "no such method"}},
    ],
)
async def test_only_an_offered_option_approves(acp: Speakers, workspace: Path, reply: object) -> None:
    def script(body: Json, _: int) -> Play:
        return calls(call("write_file", path="a.txt", content="x")) if len(body["messages"]) == 1 else say("done")

    async with acp(script, workspace) as (client, _, session):

        def answer(_: Json) -> object:
            if isinstance(reply, dict) and "jsonrpc" in reply:
                permission_request = next(m for m in reversed(client.received) if m.get("method") == ASK)
                return reply | {"id": permission_request["id"]}
            return reply

        client.handlers[ASK] = answer
        assert (await client.say(session, "go"))["stopReason"] == "end_turn"
        assert not (workspace / "a.txt").exists()


async def test_mode_and_model_can_be_set_and_the_change_is_an_update(acp: Speakers, workspace: Path) -> None:
    def script(body: Json, _: int) -> Play:
        return calls(call("write_file", path="a.txt", content="x")) if len(body["messages"]) == 1 else say("done")

    async with acp(script, workspace) as (client, api, session):
        await client.request("session/set_mode", {"sessionId": session, "modeId": "accept_edits"})
        await client.update("current_mode_update", currentModeId="accept_edits")
        choice = {"sessionId": session, "configId": "model", "value": "another-model"}
        options = (await client.request("session/set_config_option", choice))["configOptions"]
        assert {option["id"]: option["currentValue"] for option in options} == {
            "mode": "accept_edits",
            "model": "another-model",
        }
        await client.until(lambda m: "another-model" in str(m) and "config_option_update" in str(m))
        assert (await client.say(session, "go"))["stopReason"] == "end_turn"
        assert (workspace / "a.txt").read_text() == "x"
        assert {body["model"] for body in api.bodies} == {"another-model"}
        # An edit without a permission request also shows its diff, before and after it is made.
        (edit,) = client.updates("tool_call")
        assert edit["content"] == [{"type": "diff", "path": str(workspace / "a.txt"), "oldText": None, "newText": "x"}]
        assert client.updates("tool_call_update")[-1]["content"] == edit["content"]


@pytest.mark.requirement("R9")
async def test_a_rewritten_file_shows_the_lines_that_changed(acp: Speakers, workspace: Path) -> None:
    lines = [f"line {number}\n" for number in range(1, 31)]
    (workspace / "a.txt").write_text("".join(lines))
    new = [*lines[:19], "line twenty\n", *lines[20:]]

    def script(body: Json, _: int) -> Play:
        match sum(message["role"] == "assistant" for message in body["messages"]):
            case 0:
                return calls(call("read_file", path="a.txt"))
            case 1:
                return calls(call("write_file", path="a.txt", content="".join(new)))
            case _:
                return say("done")

    async with acp(script, workspace) as (client, _, session):
        await client.request("session/set_mode", {"sessionId": session, "modeId": "accept_edits"})
        await client.say(session, "go")
        assert client.updates("tool_call_update")[-1]["content"] == [
            {
                "type": "diff",
                "path": str(workspace / "a.txt"),
                "oldText": "".join(lines[16:23]),
                "newText": "".join(new[16:23]),
            }
        ]


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({"configId": "mode", "value": "everything"}, "Unknown mode 'everything'"),
        ({"configId": "model", "value": " "}, "name is needed"),
        ({"configId": "colour", "value": "red"}, "Use one of: mode, model"),
    ],
)
async def test_an_unknown_option_is_rejected_with_a_message(
    acp: Speakers, workspace: Path, choice: Json, reason: str
) -> None:
    async with acp(lambda _b, _n: say("x"), workspace) as (client, _, session):
        with pytest.raises(RpcFailure, match=reason):
            await client.request("session/set_config_option", {"sessionId": session, **choice})


@pytest.mark.parametrize("able", [True, False])
async def test_problems_of_definitions_are_notices_or_text_before_the_turn(
    acp: Speakers, workspace: Path, able: bool
) -> None:
    broken = workspace / ".deputy" / "agents" / "broken.md"
    broken.parent.mkdir(parents=True)
    broken.write_text("---\nname: [\n---\nprompt\n")
    async with acp(lambda _b, _n: say("hello"), workspace, SUBAGENTS if able else None) as (client, _, session):
        if able:
            assert "broken.md" in (await client.update("notice", severity="warning"))["title"]
        await client.say(session, "hello")
        assert client.text(session).endswith("hello")
        assert ("broken.md" in client.text(session)) is not able
