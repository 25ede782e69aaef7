"""Tools that use the editor's language servers: which are offered, what they return, and misbehaving editors."""

import asyncio
from pathlib import Path

import pytest

from deputy_server.lsp import editor
from tests.support.messages_api import Script
from tests.support.model_replies import Json, call, calls, say
from tests.support.rpc import EVERYTHING, RpcClient, Unanswered
from tests.support.shared_server import Deputies, last_text

pytestmark = pytest.mark.asyncio(loop_scope="module")

DIAGNOSTICS = "deputy/editor/diagnostics"
ASK = "deputy/permission/request"
TEXT = "def grüße(name):\n    return nmae\n\n\nprint(grüße('you'))\n"


def declaring(**flags: bool) -> Json:
    deputy = {"protocolVersion": 1, "events": True, "permissions": True, **flags}
    return {**EVERYTHING, "experimental": {"deputy": deputy}}


KNOWING = declaring(diagnostics=True, navigation=True)


def asking(name: str, **input: object) -> Script:
    """The agent calls a tool and reports the result."""

    def play(body: Json, _: int) -> object:
        if len(body["messages"]) == 1:
            return calls(call(name, **input))
        (result,) = body["messages"][-1]["content"]
        return say(("error: " if result.get("is_error") else "") + str(result["content"]))

    return play  # type: ignore[return-value]


def problem(line: int, message: str, **more: object) -> Json:
    at = {"line": line, "character": 0}
    return {"range": {"start": at, "end": at}, "message": message, "severity": 1, **more}


def spot(path: Path | str, line: int) -> Json:
    at = {"line": line, "character": 4}
    return {"uri": path if isinstance(path, str) else path.as_uri(), "range": {"start": at, "end": at}}


async def told(client: RpcClient, prompt: str = "go") -> str:
    """The agent's answer at the end of a turn."""
    session_id, _ = await client.session()
    assert (await client.prompt(session_id, prompt))["stopReason"] == "end_turn"
    return client.events("message")[-1]["text"]


def open_file(client: RpcClient, path: Path, text: str) -> None:
    document = {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": text}
    client.notify("textDocument/didOpen", {"textDocument": document})


@pytest.mark.requirement("X25")
@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        (EVERYTHING, set[str]()),
        (declaring(diagnostics=True), {"diagnostics"}),
        (KNOWING, {"diagnostics", "lookup"}),
    ],
    ids=["none", "diagnostics", "all"],
)
async def test_the_tools_are_offered_only_where_an_editor_can_answer(
    deputy: Deputies, workspace: Path, capabilities: Json, expected: set[str]
) -> None:
    async with deputy(lambda _body, _n: say("hello"), workspace, capabilities) as (client, api):
        await told(client)
        offered = {tool["name"] for tool in api.requests[0].body["tools"]}
        assert offered & {"diagnostics", "lookup"} == expected


@pytest.mark.requirement("X25")
async def test_diagnostics_of_the_workspace_are_listed_most_severe_first(deputy: Deputies, workspace: Path) -> None:
    (workspace / "a.py").write_text(TEXT)
    (workspace / ".env").write_text("KEY=secret\n")
    async with deputy(asking("diagnostics"), workspace, KNOWING) as (client, _):
        asked: list[Json] = []
        client.handlers[DIAGNOSTICS] = lambda params: (
            asked.append(params)
            or {
                "items": [
                    {
                        "uri": (workspace / "a.py").as_uri(),
                        "diagnostics": [
                            problem(4, "never used", severity=2, source="lint", code="W1"),
                            problem(1, 'undefined\x1b[31m "nmae"'),
                            {"message": "no range"},
                            "rubbish",
                        ],
                    },
                    {"uri": (workspace / ".env").as_uri(), "diagnostics": [problem(0, "odd key KEY=secret")]},
                    {"uri": "file:///elsewhere/b.py", "diagnostics": [problem(0, "not here")]},
                    {"uri": "untitled:1", "diagnostics": [problem(0, "nowhere")]},
                    None,
                ]
            }
        )
        said = await told(client)
        assert said.splitlines() == [
            'a.py:2: error: undefined\\u{1b}[31m "nmae"',
            "a.py:5: warning: never used [lint W1]",
        ]
        assert asked == [{}]


@pytest.mark.parametrize(("find", "method"), [("definition", "definition"), ("references", "references")])
async def test_navigation_uses_the_editors_units_and_returns_lines(
    deputy: Deputies, workspace: Path, find: str, method: str
) -> None:
    file = workspace / "a.py"
    file.write_text(TEXT.replace("print", "\U0001f600 = print"))
    script = asking("lookup", find=find, path="a.py", line=5, symbol="grüße")
    async with deputy(script, workspace, KNOWING) as (client, _):
        asked: list[Json] = []
        found = [spot(file, 0), spot("file:///usr/lib/x.py", 2), spot(file, 0), {"uri": 3}]
        client.handlers[f"deputy/editor/{method}"] = lambda params: asked.append(params) or {"items": found}
        assert (await told(client)).splitlines() == ["a.py:1: def grüße(name):", "/usr/lib/x.py:3:"]
        assert asked == [{"uri": file.as_uri(), "position": {"line": 4, "character": 11}}]
        (started,) = client.events("tool_call")
        assert (started["title"], started["kind"]) == (f"lookup({find} of grüße in a.py:5)", "search")


async def test_hover_and_symbols_are_returned(deputy: Deputies, workspace: Path) -> None:
    file = workspace / "a.py"
    file.write_text(TEXT)
    symbol = {**spot(file, 0), "name": "grüße", "kind": 12, "container": "a"}
    strange = symbol | {"uri": (workspace / "b.py").as_uri()}
    for input, expected in (
        ({"find": "hover", "path": "a.py", "symbol": "nmae"}, "(variable) nmae"),
        ({"find": "symbols", "path": "a.py"}, "1: function grüße (in a)"),
        ({"find": "symbols", "symbol": "gr"}, "a.py:1: function grüße (in a)"),
    ):
        async with deputy(asking("lookup", **input), workspace, KNOWING) as (client, _):
            client.handlers["deputy/editor/hover"] = lambda _: {"text": "(variable) \x1b[1mnmae\n"}
            client.handlers["deputy/editor/symbols"] = lambda params: {
                "items": {str({"uri": file.as_uri()}): [strange, symbol], str({"query": "gr"}): [symbol]}[str(params)]
            }
            assert await told(client) == expected


async def test_symbols_of_files_that_need_approval_are_left_out(deputy: Deputies, workspace: Path) -> None:
    (workspace / ".env").write_text("API_KEY=1\n")
    (workspace / "link.sh").symlink_to(".env")
    library = workspace.parent / "library.py"
    uris = [(workspace / ".env").as_uri(), (workspace / "link.sh").as_uri(), library.as_uri()]
    span = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}
    async with deputy(asking("lookup", find="symbols", symbol="K"), workspace, KNOWING) as (client, _):
        client.handlers["deputy/editor/symbols"] = lambda _: {
            "items": [{"name": f"KEY{n}", "kind": 13, "uri": uri, "range": span} for n, uri in enumerate(uris)]
        }
        said = await told(client)
    assert said.splitlines() == [f"{library}:1: variable KEY2", "[left out: 2 files that need approval to read]"]


@pytest.mark.parametrize(
    ("input", "error"),
    [
        ({"find": "hover", "path": "a.py", "symbol": "nmae", "line": 1}, "nmae does not occur on line 1 of a.py"),
        ({"find": "hover", "path": "a.py"}, "symbol: required here"),
        ({"find": "hover", "path": ".", "symbol": "x"}, "hover needs the file"),
        ({"find": "hover", "path": "b.py", "symbol": "x"}, "b.py does not exist"),
        ({"find": "rename", "path": "a.py"}, "find: "),
    ],
    ids=str,
)
async def test_a_failed_lookup_returns_the_reason(deputy: Deputies, workspace: Path, input: Json, error: str) -> None:
    (workspace / "a.py").write_text(TEXT)
    async with deputy(asking("lookup", **input), workspace, KNOWING) as (client, _):
        assert error in await told(client)


@pytest.mark.parametrize("answer", [None, [], "text", {"items": 3}, {"items": [1, None, {}]}], ids=str)
async def test_an_invalid_response_does_not_count_as_no_diagnostics(
    deputy: Deputies, workspace: Path, answer: object
) -> None:
    (workspace / "a.py").write_text(TEXT)
    async with deputy(asking("diagnostics", path="a.py"), workspace, KNOWING) as (client, _):
        client.handlers[DIAGNOSTICS] = lambda _: answer
        assert "error: The editor sent an invalid response" in await told(client)


async def test_an_error_of_the_editor_is_an_error_result_and_the_turn_continues(
    deputy: Deputies, workspace: Path
) -> None:
    (workspace / "a.py").write_text(TEXT)
    async with deputy(asking("diagnostics"), workspace, KNOWING) as (client, _):
        assert await told(client) == "error: The editor returned an error: method not found"


async def test_a_request_to_a_hanging_editor_times_out_and_is_withdrawn(deputy: Deputies, workspace: Path) -> None:
    (workspace / "a.py").write_text(TEXT)
    async with deputy(asking("diagnostics"), workspace, KNOWING) as (client, _):
        client.handlers[DIAGNOSTICS] = lambda _: Unanswered
        assert await told(client) == f"error: The editor did not respond within {editor.DIAGNOSTICS_TIMEOUT:g} s."
        request = next(m for m in client.received if m.get("method") == DIAGNOSTICS)
        await client.until(lambda m: m.get("method") == "$/cancelRequest" and m["params"] == {"id": request["id"]})


async def test_the_number_of_diagnostics_is_bounded(deputy: Deputies, workspace: Path) -> None:
    (workspace / "a.py").write_text(TEXT)
    flood = {
        "uri": (workspace / "a.py").as_uri(),
        "diagnostics": [problem(n, f"{n} {'x' * 1000}") for n in range(20_000)],
    }
    async with deputy(asking("diagnostics"), workspace, KNOWING) as (client, _):
        client.handlers[DIAGNOSTICS] = lambda _: {"items": [flood]}
        said = await told(client)
        assert len(said) < 45_000
        assert said.splitlines()[-1].endswith("more problems]")


def editing(old: str, new: str) -> Script:
    """The agent reads a file, changes it, and reports the result."""

    def play(body: Json, _: int) -> object:
        match len(body["messages"]):
            case 1:
                return calls(call("read_file", path="a.py"))
            case 3:
                return calls(call("edit_file", path="a.py", old_string=old, new_string=new))
            case _:
                (result,) = body["messages"][-1]["content"]
                return say(str(result["content"]))

    return play  # type: ignore[return-value]


class Working:
    """An editor with a document and a language server that reports ``broken`` as long as the text contains it."""

    def __init__(self, client: RpcClient, file: Path, text: str, broken: str) -> None:
        self.client, self.file, self.text, self.broken = client, file, text, broken
        self.waits: list[object] = []
        client.handlers[ASK] = lambda permission_request: {
            "outcome": {"outcome": "selected", "optionId": permission_request["options"][0]["optionId"]}
        }
        client.handlers["workspace/applyEdit"] = self.apply
        client.handlers[DIAGNOSTICS] = self.diagnostics
        open_file(client, file, text)

    def apply(self, params: Json) -> Json:
        ((change,),) = ([*params["edit"]["documentChanges"]],)
        (edit,) = change["edits"]
        lines = self.text.splitlines(keepends=True)
        start, end = edit["range"]["start"], edit["range"]["end"]
        before = "".join(lines[: start["line"]]) + lines[start["line"]][: start["character"]]
        after = lines[end["line"]][end["character"] :] + "".join(lines[end["line"] + 1 :])
        self.text = before + edit["newText"] + after
        identifier = {"uri": self.file.as_uri(), "version": 2}
        self.client.notify(
            "textDocument/didChange", {"textDocument": identifier, "contentChanges": [{"text": self.text}]}
        )
        return {"applied": True}

    def diagnostics(self, params: Json) -> Json:
        self.waits.append(params.get("wait"))
        lines = self.text.splitlines()
        found = [problem(n, "old trouble", source="lint") for n, line in enumerate(lines) if "nmae" in line]
        found += [problem(n, f"no {self.broken}") for n, line in enumerate(lines) if self.broken in line]
        return {"items": [{"uri": params["uris"][0], "diagnostics": found}]}


@pytest.mark.requirement("X25")
async def test_an_edit_result_contains_new_diagnostics(deputy: Deputies, workspace: Path) -> None:
    file = workspace / "a.py"
    file.write_text(TEXT)
    async with deputy(editing("print(", "prnt("), workspace, KNOWING) as (client, _):
        editor = Working(client, file, TEXT, "prnt")
        assert (await told(client)).splitlines() == [
            "Changed a.py: line 5.",
            "The editor reports new problems in this file:",
            "  line 5: error: no prnt",
        ]
        assert editor.waits == [None, 1.5]


async def test_an_edit_result_without_new_diagnostics_is_unchanged(deputy: Deputies, workspace: Path) -> None:
    file = workspace / "a.py"
    file.write_text(TEXT)
    async with deputy(editing("print(", "\nprint("), workspace, KNOWING) as (client, _):
        Working(client, file, TEXT, "prnt")
        assert await told(client) == "Changed a.py: lines 5-6."


async def test_a_hanging_editor_does_not_prevent_an_edit(deputy: Deputies, workspace: Path) -> None:
    file = workspace / "a.py"
    file.write_text(TEXT)
    async with deputy(editing("print(", "prnt("), workspace, KNOWING) as (client, _):
        editor = Working(client, file, TEXT, "prnt")
        client.handlers[DIAGNOSTICS] = lambda _: Unanswered
        assert await told(client) == "Changed a.py: line 5."
        assert "prnt" in editor.text


@pytest.mark.requirement("X23")
async def test_mentioning_diagnostics_attaches_those_of_the_editor(deputy: Deputies, workspace: Path) -> None:
    (workspace / "a.py").write_text(TEXT)
    async with deputy(lambda body, _n: say(last_text(body)), workspace, KNOWING) as (client, _):
        found = {"uri": (workspace / "a.py").as_uri(), "diagnostics": [problem(1, "undefined: nmae")]}
        client.handlers[DIAGNOSTICS] = lambda _: {"items": [found]}
        said = await told(client, "Fix @diagnostics, please")
        assert said == "Fix @diagnostics, please[@diagnostics] diagnostics(.)\na.py:2: error: undefined: nmae"
        session_id, _ = await client.session()
        completions = await client.request("deputy/context/complete", {"sessionId": session_id, "text": "Fix @dia"})
        assert completions["items"][0] == {
            "text": "@diagnostics",
            "kind": "context",
            "detail": "problems shown in the editor",
        }


async def test_mentioning_diagnostics_without_a_capable_editor_attaches_a_notice(
    deputy: Deputies, workspace: Path
) -> None:
    async with deputy(lambda body, _n: say(last_text(body)), workspace) as (client, _):
        said = await told(client, "Fix @diagnostics")
        assert said.startswith("Fix @diagnostics[@diagnostics is not attached: No attached editor provides this")


async def test_a_disconnected_client_gets_no_requests(deputy: Deputies, workspace: Path) -> None:
    gate = asyncio.Event()

    def play(body: Json, _: int) -> object:
        if len(body["messages"]) == 1:
            return calls(call("diagnostics"), gate=gate)
        return say(str(body["messages"][-1]["content"][0]["content"]))

    async with deputy(play, workspace, KNOWING) as (client, api):  # type: ignore[arg-type]
        session_id, _ = await client.session()
        prompt = client.start_prompt(session_id, "go")
        await client.event("turn_started")
        await client.request("deputy/session/unload", {"sessionId": session_id})
        gate.set()
        await client.result(prompt)
        assert "No attached editor provides this information" in str(api.requests[-1].body["messages"][-1])
