"""Code actions without a plugin: prompts about a selection or a diagnostic, and findings of reviews."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.model_replies import Json, call, calls, say
from tests.support.rpc import EVERYTHING, PATIENCE, PLAIN, RpcClient, RpcFailure
from tests.support.shared_server import Deputies, is_child, last_text
from tests.support.viewer import VIEWING, Viewer

pytestmark = pytest.mark.asyncio(loop_scope="module")

CODE = "one\ntwo\n    three = 1\nfour\n"


def span(first: int, last: int, end: int = 0) -> Json:
    return {"start": {"line": first, "character": 0}, "end": {"line": last, "character": end}}


async def actions(client: RpcClient, uri: str, at: Json, **context: object) -> list[Json]:
    params = {"textDocument": {"uri": uri}, "range": at, "context": {"diagnostics": [], **context}}
    return await client.request("textDocument/codeAction", params)


def titles(found: list[Json]) -> list[str]:
    return [action["title"] for action in found]


async def test_code_actions_start_prompts_about_a_selection(deputy: Deputies, workspace: Path) -> None:
    uri = (workspace / "a.py").as_uri()
    async with deputy(lambda *_: say("it is so"), workspace, VIEWING) as (client, api):
        viewer = Viewer(client)
        found = await actions(client, uri, span(1, 3))
        assert titles(found) == ["Deputy: explain this", "Deputy: review this"]
        command = found[0]["command"]
        await client.command(command["command"], *command["arguments"])
        await viewer.until(await viewer.opened(), "it is so")
        assert "Explain this code" in last_text(api.bodies[0])
        assert "(about a.py:2-3)" in last_text(api.bodies[0])


async def test_a_code_action_starts_a_prompt_that_fixes_a_diagnostic(deputy: Deputies, workspace: Path) -> None:
    uri = (workspace / "a.py").as_uri()
    wrong = {
        "range": span(2, 2, 5),
        "message": "undefined name `three`",
        "source": "ruff",
        "code": "F821",
        "severity": 1,
    }
    async with deputy(lambda *_: say("fixed"), workspace, VIEWING) as (client, api):
        viewer = Viewer(client)
        (fix,) = await actions(client, uri, span(2, 2), diagnostics=[wrong], only=["quickfix"])
        assert fix["kind"] == "quickfix"
        assert fix["title"] == 'Deputy: fix "undefined name `three`"'
        await client.command(fix["command"]["command"], *fix["command"]["arguments"])
        await viewer.until(await viewer.opened(), "fixed")
        assert last_text(api.bodies[0]) == "Fix this problem: undefined name `three` (ruff F821)\n\n(about a.py:3)"


async def test_no_code_action_without_a_selection_or_for_other_kinds(deputy: Deputies, workspace: Path) -> None:
    uri = (workspace / "a.py").as_uri()
    async with deputy(lambda *_: say("x"), workspace, VIEWING) as (client, _):
        assert await actions(client, uri, span(1, 1), triggerKind=2) == []
        assert await actions(client, uri, span(1, 2), only=["source.organizeImports"]) == []
        assert len(await actions(client, uri, span(1, 1), triggerKind=1)) == 2
    async with deputy(lambda *_: say("x"), workspace, EVERYTHING) as (client, _):
        assert await actions(client, uri, span(1, 2)) == []


async def test_a_client_without_code_action_literals_gets_commands(deputy: Deputies, workspace: Path) -> None:
    async with deputy(lambda *_: say("x"), workspace, PLAIN) as (client, _):
        (explain, _review) = await actions(client, (workspace / "a.py").as_uri(), span(1, 2))
        assert (explain["title"], explain["command"]) == ("Deputy: explain this", "deputy.prompt")


async def test_a_code_action_during_a_turn_is_queued(deputy: Deputies, workspace: Path) -> None:
    gate = asyncio.Event()
    async with deputy(lambda body, n: say(f"answer {n}", gate=None if n else gate), workspace, VIEWING) as (client, _):
        viewer = Viewer(client)
        uri = (workspace / "a.py").as_uri()
        await client.command("deputy.prompt", {"text": "first"})
        (explain, _) = await actions(client, uri, span(0, 1))
        await client.command("deputy.prompt", *explain["command"]["arguments"])
        with pytest.raises(RpcFailure) as failure:
            await client.command("deputy.prompt", {"text": "now"})
        assert failure.value.code == -32003
        gate.set()
        await viewer.until(await viewer.opened(), "answer 0", "answer 1")


@pytest.mark.parametrize(
    ("params", "field"),
    [({}, "textDocument"), ({"textDocument": {"uri": "x"}}, "range"), ({"textDocument": 1}, "textDocument"), ([], "")],
)
async def test_invalid_parameters_of_code_actions_are_rejected_with_the_field(
    deputy: Deputies, workspace: Path, params: object, field: str
) -> None:
    async with deputy(lambda *_: say("x"), workspace) as (client, _):
        with pytest.raises(RpcFailure) as failure:
            await client.request("textDocument/codeAction", params)
        assert failure.value.code == -32602
        assert field in failure.value.message


# -- findings ----------------------------------------------------------------------------------------------------------

FOUND = "- **critical** a.py:3: three is never read\n- **minor** a.py:1-2: dull names\n- **major** nowhere.py:1: no\n"


def reviewing(*answers: str) -> Callable[[Json, int], object]:
    """A primary that starts a review for each prompt; the reviews return ``answers``."""
    left = iter(answers)

    def play(body: Json, n: int) -> object:
        if is_child(body):
            return say(next(left))
        if "tool_result" in str(body["messages"][-1]):
            return say("reviewed")
        return calls(call("code_review", target="a.py"))

    return play


async def published(client: RpcClient, workspace: Path, count: int) -> list[Json]:
    """The diagnostics of the last of ``count`` publications for ``a.py``."""
    uri = (workspace / "a.py").as_uri()
    found: list[Json] = []

    def is_last(message: Json) -> bool:
        if message.get("method") == "textDocument/publishDiagnostics" and message["params"]["uri"] == uri:
            found.append(message["params"])
        return len(found) == count

    async with asyncio.timeout(PATIENCE):
        await client.until(is_last)
    return found[-1]["diagnostics"]


def change(client: RpcClient, uri: str, version: int, text: str) -> None:
    identifier = {"uri": uri, "version": version}
    client.notify("textDocument/didChange", {"textDocument": identifier, "contentChanges": [{"text": text}]})


@pytest.mark.requirement("X7")
async def test_findings_of_a_review_are_diagnostics_that_can_be_fixed_and_dismissed(
    deputy: Deputies, workspace: Path
) -> None:
    (workspace / "a.py").write_text(CODE)
    uri = (workspace / "a.py").as_uri()
    async with deputy(reviewing(FOUND), workspace, VIEWING) as (client, _):  # type: ignore[arg-type]
        item = {"uri": uri, "languageId": "python", "version": 7, "text": CODE}
        client.notify("textDocument/didOpen", {"textDocument": item})
        Viewer(client)
        await client.command("deputy.prompt", {"text": "review a.py"})
        first, second = await published(client, workspace, 1)
        assert first["range"] == {"start": {"line": 2, "character": 4}, "end": {"line": 2, "character": 13}}
        assert (first["severity"], first["source"], first["message"]) == (1, "deputy", "three is never read")
        assert (second["severity"], second["range"]["end"]) == (3, {"line": 1, "character": 3})
        found = await actions(client, uri, span(2, 2), diagnostics=[first], only=["quickfix"])
        assert titles(found) == ['Deputy: fix "three is never read"', 'Deputy: dismiss "three is never read"']
        dismiss = found[1]["command"]
        assert await client.command(dismiss["command"], *dismiss["arguments"]) == {"dismissed": True}
        assert await client.command(dismiss["command"], *dismiss["arguments"]) == {"dismissed": False}
        assert await published(client, workspace, 2) == [second]
        client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})


async def test_a_finding_moves_with_its_lines_and_disappears_when_they_change(
    deputy: Deputies, workspace: Path
) -> None:
    (workspace / "a.py").write_text(CODE)
    uri = (workspace / "a.py").as_uri()
    async with deputy(reviewing(FOUND), workspace) as (client, _):  # type: ignore[arg-type]
        item = {"uri": uri, "languageId": "python", "version": 1, "text": CODE}
        client.notify("textDocument/didOpen", {"textDocument": item})
        session_id, _ = await client.session()
        await client.prompt(session_id, "review a.py")
        assert len(await published(client, workspace, 1)) == 2
        change(client, uri, 2, f"zero\n{CODE}")
        assert [found["range"]["start"]["line"] for found in await published(client, workspace, 2)] == [3, 1]
        change(client, uri, 3, f"zero\n{CODE.replace('three', 'drei')}")
        assert [found["message"] for found in await published(client, workspace, 3)] == ["dull names"]
        client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})


async def test_findings_of_a_closed_file_disappear_when_an_agent_changes_the_lines(
    deputy: Deputies, workspace: Path
) -> None:
    (workspace / "a.py").write_text(CODE)
    review = reviewing(FOUND)

    def play(body: Json, n: int) -> object:
        if is_child(body) or "edit now" not in str(body["messages"]):
            return review(body, n)
        done = str(body["messages"]).split("edit now")[-1].count("tool_result")
        steps = [call("read_file", path="a.py"), call("edit_file", path="a.py", old_string="three", new_string="drei")]
        return calls(steps[done]) if done < 2 else say("edited")

    async with deputy(play, workspace) as (client, _):  # type: ignore[arg-type]
        client.handlers["deputy/permission/request"] = lambda asked: {
            "outcome": {"outcome": "selected", "optionId": asked["options"][0]["optionId"]}
        }
        session_id, _ = await client.session()
        await client.prompt(session_id, "review a.py")
        assert len(await published(client, workspace, 1)) == 2
        await client.prompt(session_id, "edit now")
        assert [found["message"] for found in await published(client, workspace, 2)] == ["dull names"]


async def test_a_later_review_replaces_the_findings_of_an_earlier_one(deputy: Deputies, workspace: Path) -> None:
    (workspace / "a.py").write_text(CODE)
    script = reviewing(FOUND, "- **minor** a.py:4: four what?\n")
    async with deputy(script, workspace) as (client, _):  # type: ignore[arg-type]
        session_id, _ = await client.session()
        await client.prompt(session_id, "review a.py")
        assert len(await published(client, workspace, 1)) == 2
        await client.prompt(session_id, "review a.py again")
        assert [found["message"] for found in await published(client, workspace, 2)] == ["four what?"]
