"""What users consent to is shown in full, also where a client shows messages and buttons alone."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.event import AgentRef, Batch, Option, OptionKind, PermissionRequest, ToolKind
from deputy_agents.domain.preview import CommandPreview, DiffPreview, Preview, TextPreview
from deputy_agents.domain.rule import RuleScope
from deputy_server.consent import MAX_BUTTON, button
from deputy_server.lsp.permission_requests import PREVIEW_LINES, message_request
from tests.support.model_replies import Json, call, calls, say
from tests.support.rpc import PLAIN
from tests.support.shared_server import Deputies

WORDS = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=400)
LASTING = {
    "allow_session": (OptionKind.ALLOW_ALWAYS, RuleScope.SESSION, "Allow in this session"),
    "allow_project": (OptionKind.ALLOW_ALWAYS, RuleScope.PROJECT, "Allow in this project"),
    "allow_user": (OptionKind.ALLOW_ALWAYS, RuleScope.USER, "Always allow"),
    "reject_session": (OptionKind.REJECT_ALWAYS, RuleScope.SESSION, "Deny in this session"),
}


def request(
    rules: tuple[str, ...] = (), preview: Preview | None = None, title: str = "t", reason: str = ""
) -> PermissionRequest:
    once = {OptionKind.ALLOW_ONCE: "Approve", OptionKind.REJECT_ONCE: "Deny"}
    options = (
        *(Option(kind, name, kind) for kind, name in once.items()),
        *(
            Option(option_id, f"{name}: {', '.join(rules)}", kind, rules, scope)
            for option_id, (kind, scope, name) in LASTING.items()
        ),
    )
    agent = AgentRef("agent", "primary", "primary", "m", 0)
    batch = Batch("batch", 0, 1)
    return PermissionRequest(
        "request", agent, batch, "call", title, "shell", ToolKind.EXECUTE, {}, (), options, preview, reason
    )


def shown(request: PermissionRequest) -> tuple[str, list[str]]:
    params = message_request(request)
    actions: list[Json] = params["actions"]  # type: ignore[assignment]
    return str(params["message"]), [action["title"] for action in actions]


@given(rules=st.lists(WORDS, min_size=1, max_size=6).map(tuple), title=WORDS, reason=WORDS)
def test_every_rule_title_and_reason_is_shown_in_full(rules: tuple[str, ...], title: str, reason: str) -> None:
    message, actions = shown(request(rules, title=title, reason=reason))
    assert title in message
    assert reason in message
    for action in actions:
        assert len(action) <= MAX_BUTTON
    for rule in rules:
        assert rule in message or all(rule in action for action in actions if action not in ("Approve", "Deny"))


@given(rules=st.lists(WORDS, min_size=1, max_size=6).map(tuple))
def test_each_action_stands_for_one_option(rules: tuple[str, ...]) -> None:
    options = request(rules).options
    assert len({button(option) for option in options}) == len(options)


@given(text=st.lists(WORDS, max_size=60).map("\n".join))
def test_no_command_address_or_query_is_cut(text: str) -> None:
    for preview in (CommandPreview(text, "/workspace"), TextPreview(text)):
        message, _ = shown(request(preview=preview))
        assert all(line in message for line in text.split("\n"))


@given(lines=st.lists(WORDS, min_size=1, max_size=60))
def test_a_long_diff_says_how_much_of_it_is_missing(lines: list[str]) -> None:
    message, _ = shown(request(preview=DiffPreview("/workspace/a", None, "".join(f"{line}\n" for line in lines))))
    missing = "which the transcript shows" in message
    assert missing or all(line in message for line in lines)
    if len(lines) > PREVIEW_LINES:
        assert f"… {len(lines) + 1 - PREVIEW_LINES} more lines" in message


@pytest.mark.asyncio(loop_scope="module")
async def test_rules_of_a_long_command_reach_a_client_without_a_plugin(deputy: Deputies, workspace: Path) -> None:
    harmless = " && ".join(f"touch {'x' * 60}{n}" for n in range(5))
    command = f"{harmless} && touch the-last-word"

    def play(body: Json, _: int) -> object:
        return calls(call("shell", command=command)) if len(body["messages"]) == 1 else say("done")

    async with deputy(play, workspace, PLAIN) as (client, _):  # type: ignore[arg-type]
        asked: list[Json] = []

        def always(params: Json) -> Json:
            asked.append(params)
            return next(action for action in params["actions"] if action["title"].startswith("Allow in this session"))

        client.handlers["window/showMessageRequest"] = always
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        (message,) = asked
        allowed = message["message"].split("Always allow:")[1].split("Deny in this session:")[0]
        assert "the-last-word" in allowed
        rules = (await client.request("deputy/rule/list", {"sessionId": session_id}))["rules"]
        assert len(rules) > 1
        assert all(rule["pattern"] in allowed for rule in rules)
        assert (workspace / "the-last-word").exists()
