"""The offline model in a real folder, with fake tools."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.message import Message, Reply, StopReason, Text, ToolResult, ToolUse, tool_uses
from deputy_agents.model.offline.model import OfflineModel
from deputy_agents.model.offline.words import is_greeting, keywords, loosened
from deputy_agents.ports.model import ModelRequest, TextPart
from tests.support.file_tools import EDITING, LEADING, READING, FileTools, ask, run_agent, specs

MODEL = OfflineModel(think=0, pace=0)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "README.md": "# Shop\n\nSells things. The retryPolicy is explained here.\n",
        "src/retry.py": (
            "import time\n\n\nclass RetryPolicy:\n    limit = 3\n\n    def wait(self):\n        return self.limit\n"
        ),
        "src/shop.py": "from src.retry import RetryPolicy\n\npolicy = RetryPolicy()\nprint(policy.wait())\n",
        "tests/test_retry.py": "def test_retry_policy():\n    assert RetryPolicy().wait() == 3\n",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


async def answer(root: Path, task: str, names: tuple[str, ...] = LEADING, tools: FileTools | None = None) -> str:
    return (await run_agent(MODEL, task, tools or FileTools(root), names))[-1].text


async def first_reply(task: str, names: tuple[str, ...] = LEADING) -> Reply:
    return await ask(MODEL, ModelRequest("offline", "", (Message("user", (Text(task),)),), specs(*names)))


# -- delegating ----------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.requirement("X18")
@pytest.mark.parametrize(
    "prompt", ["Where is RetryPolicy used?", "What does this project do?", "Describe the repo: retries"]
)
async def test_a_search_prompt_starts_two_to_four_read_only_children_in_one_response(prompt: str) -> None:
    reply = await first_reply(prompt)
    uses = tool_uses(reply.message)
    assert reply.stop_reason is StopReason.TOOL_USE
    assert 2 <= len(uses) <= 4
    assert {(use.name, use.input["mode"]) for use in uses} == {("spawn_agent", "read_only")}
    assert len({str(use.input["instructions"])[:30] for use in uses}) == len(uses)


@pytest.mark.asyncio
@pytest.mark.requirement("X18")
async def test_the_answer_cites_the_childrens_results_and_states_that_it_is_rule_based(project: Path) -> None:
    text = await answer(project, "Where is RetryPolicy defined and used?")
    assert "rule-based" in text
    for reference in ("`src/retry.py:4`", "`src/shop.py:3`", "`tests/test_retry.py:", "`README.md:"):
        assert reference in text
    assert "`class RetryPolicy:`" in text


@pytest.mark.asyncio
async def test_an_answer_without_hits_lists_the_workspace(project: Path) -> None:
    text = await answer(project, "Where is the Zyzzyva?")
    assert "nothing found" in text
    assert "`README.md`, `src/`, `tests/`" in text


@pytest.mark.asyncio
async def test_parts_of_a_name_are_searched_if_the_name_is_not_found(project: Path) -> None:
    text = await answer(project, "Where is retryPolicyFactory?")
    assert "Nothing found for `retryPolicyFactory` itself, but for parts of it" in text
    assert "src/retry.py" in text


@pytest.mark.asyncio
async def test_an_overview_shows_layout_and_documentation(project: Path) -> None:
    text = await answer(project, "What is this project?")
    assert "`README.md`, `src/`, `tests/`" in text
    assert "### Documentation\n- `README.md:1-3` — `# Shop` — Sells things." in text
    assert text.endswith("Start with `README.md:1-3`.")


@pytest.mark.asyncio
async def test_sources_precede_tests_and_settings_and_a_readme_precedes_other_documents(project: Path) -> None:
    for name in ("a/deep/notes.md", "a/retry.json", "a/test_first.py"):
        (project / name).parent.mkdir(exist_ok=True, parents=True)
        (project / name).write_text("RetryPolicy = RetryPolicy, RetryPolicy\n")
    text = await answer(project, "Where is RetryPolicy?")
    usages, _, aside = text.partition("### Usages\n")[2].partition("### Tests and docs\n")
    assert usages.startswith("- `src/shop.py")
    assert aside.startswith("- `README.md")


@pytest.mark.asyncio
async def test_entry_points_are_functions_and_not_mentions(project: Path) -> None:
    (project / "src/a.py").write_text('NAMES = "__main__"\n')
    (project / "src/b.py").write_text("def main():\n    pass\n")
    text = await answer(project, "What is this project?")
    assert "### Entry points\n- `src/b.py:1` — `def main():`" in text


@pytest.mark.asyncio
@pytest.mark.parametrize("task", ["Where is x?", "What does this project do?", 'replace "a" with "b"'])
async def test_an_empty_workspace_gets_an_answer(tmp_path: Path, task: str) -> None:
    text = await answer(tmp_path, task)
    assert "empty" in text or "nothing to change" in text or "nothing found" in text


@pytest.mark.asyncio
@pytest.mark.parametrize("task", ["hello", "Thanks!", "help"])
async def test_a_greeting_is_answered_with_instructions(task: str) -> None:
    reply = await first_reply(task)
    assert not tool_uses(reply.message)
    assert "offline model" in reply.message.text


@pytest.mark.asyncio
async def test_a_cancelled_child_is_reported_and_the_others_are_used(project: Path) -> None:
    def fail(use: ToolUse) -> str | None:
        cancelled = use.name == "spawn_agent" and str(use.input["instructions"]).startswith("Usages")
        return "Sub-agent cancelled by user." if cancelled else None

    text = await answer(project, "Where is RetryPolicy?", tools=FileTools(project, fail))
    assert "### Usages\nNot finished: Sub-agent cancelled by user." in text
    assert "src/retry.py" in text


@pytest.mark.asyncio
async def test_a_request_beyond_the_rules_gets_a_hint(project: Path) -> None:
    assert "needs a language model" in await answer(project, "Refactor the RetryPolicy")


@pytest.mark.asyncio
async def test_a_second_prompt_is_a_new_task(project: Path) -> None:
    tools = FileTools(project)
    history = await run_agent(MODEL, "Where is RetryPolicy?", tools, LEADING)
    messages = await run_agent(MODEL, "Where is Sells?", tools, LEADING, history)
    assert "`Sells`" in messages[-1].text


# -- replacing -----------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.requirement("X18")
async def test_a_replacement_starts_one_default_child_that_edits_every_file(project: Path) -> None:
    (use,) = tool_uses((await first_reply('replace "limit" with "maximum"')).message)
    assert (use.name, use.input["mode"]) == ("spawn_agent", "default")
    text = await answer(project, 'replace "limit" with "maximum"')
    assert "1 of 1 file changed" in text
    assert "`src/retry.py:5` (also line 8) — changed" in text
    assert "limit" not in (project / "src/retry.py").read_text()


@pytest.mark.asyncio
async def test_all_edits_are_proposed_in_one_response(project: Path) -> None:
    messages = await run_agent(MODEL, "rename RetryPolicy to Policy", FileTools(project), EDITING)
    per_response = [[use.name for use in tool_uses(message)] for message in messages if message.role == "assistant"]
    assert per_response == [["grep"], ["read_file"] * 3, ["edit_file"] * 3, []]


@pytest.mark.asyncio
async def test_a_denied_edit_is_reported_and_the_others_are_applied(project: Path) -> None:
    def fail(use: ToolUse) -> str | None:
        return "Denied by the user." if use.name == "edit_file" and use.input["path"] == "src/shop.py" else None

    text = await answer(project, "rename RetryPolicy to Policy", tools=FileTools(project, fail))
    assert "2 of 3 files changed" in text
    assert "`src/shop.py:1` (also line 3) — not changed: Denied by the user." in text
    assert "RetryPolicy" in (project / "src/shop.py").read_text()


@pytest.mark.asyncio
async def test_a_rename_leaves_longer_names_unchanged(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("foo = 1\nfoobar = 2\nprint(foo)\nprint(foobar)\n")
    await answer(tmp_path, "rename foo to qux")
    assert (tmp_path / "a.py").read_text() == "qux = 1\nfoobar = 2\nprint(qux)\nprint(foobar)\n"


@pytest.mark.asyncio
async def test_a_path_limits_a_replacement(project: Path) -> None:
    await answer(project, "replace RetryPolicy with Policy in src/shop.py.")
    assert "RetryPolicy" not in (project / "src/shop.py").read_text()
    assert "RetryPolicy" in (project / "src/retry.py").read_text()


@pytest.mark.asyncio
async def test_a_missing_path_is_reported(project: Path) -> None:
    assert "There is no file or folder nowhere.py" in await answer(project, "replace a with b in nowhere.py")


@pytest.mark.asyncio
async def test_special_characters_are_replaced_literally(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a.b(c)* \\1 x\na+b\n")
    await answer(tmp_path, 'replace "a.b(c)* \\\\1" with "[\\\\g<0>]"')
    assert (tmp_path / "a.txt").read_text() == "[\\g<0>] x\na+b\n"


@pytest.mark.asyncio
async def test_without_an_edit_tool_the_matches_are_listed(project: Path) -> None:
    text = await answer(project, "rename RetryPolicy to Policy", READING)
    assert "no tool to edit" in text
    assert "`src/retry.py:4`" in text


# -- arbitrary requests --------------------------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize("names", [(), ("grep",), ("read_file",), ("list_dir",), ("edit_file",), ("glob", "list_dir")])
@pytest.mark.parametrize("task", ["Where is RetryPolicy?", "What is this?", "replace a with b"])
async def test_requests_without_the_needed_tools_get_an_answer(
    project: Path, names: tuple[str, ...], task: str
) -> None:
    assert await answer(project, task, names)


blocks = st.one_of(
    st.builds(Text, st.text(max_size=40)),
    st.builds(ToolUse, st.sampled_from("ab"), st.sampled_from(["grep", "read_file", "spawn_agent", "edit_file", "?"])),
    st.builds(ToolResult, st.sampled_from("ab"), st.text(max_size=40) | st.just("a.py:1:x"), st.booleans()),
)
histories = st.lists(
    st.builds(Message, st.sampled_from(["user", "assistant"]), st.lists(blocks, max_size=3).map(tuple)), max_size=8
).map(tuple)
tool_sets = st.lists(st.sampled_from(LEADING), unique=True)


@pytest.mark.asyncio
@given(history=histories, names=tool_sets)
async def test_any_history_gets_an_answer_that_uses_only_available_tools(
    history: tuple[Message, ...], names: list[str]
) -> None:
    reply = await ask(MODEL, ModelRequest("offline", "", history, specs(*names)))
    uses = tool_uses(reply.message)
    assert reply.message.text
    assert {use.name for use in uses} <= set(names)
    assert (reply.stop_reason is StopReason.TOOL_USE) == bool(uses)


@pytest.mark.asyncio
async def test_rounds_are_bounded_without_results() -> None:
    messages = [Message("user", (Text("replace a with b"),))]
    for _ in range(20):
        reply = await ask(MODEL, ModelRequest("offline", "", tuple(messages), specs(*EDITING)))
        messages += [reply.message, Message("user", ())]
    assert not tool_uses(messages[-2])


@pytest.mark.asyncio
async def test_the_parts_add_up_to_the_reply() -> None:
    request = ModelRequest("offline", "", (Message("user", (Text("hello"),)),))
    *parts, reply = [event async for event in MODEL.stream(request)]
    assert isinstance(reply, Reply)
    assert len(parts) > 5
    assert "".join(part.text for part in parts if isinstance(part, TextPart)) == reply.message.text


# -- words ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("How does the state machine handle cancel?", ("machine", "cancel", "state")),
        ("Where is `parseConfig` called, and what does max_retries do?", ("parseConfig", "max_retries")),
        ("What does this project do?", ()),
        ("decides, decided, decide", ("decide",)),
        ("wo ist die Größe", ("Größe", "die", "ist")),
    ],
)
def test_keywords_are_the_specific_words_of_a_question(task: str, words: tuple[str, ...]) -> None:
    assert set(keywords(task)) == set(words)


def test_names_are_split_into_parts_and_stems() -> None:
    assert loosened(("parseConfigFiles", "max_retries")) == ("parse", "Config", "max", "retr")


def test_a_question_is_not_a_greeting() -> None:
    assert is_greeting("  ")
    assert not is_greeting("help me understand the parser of the lexer")
