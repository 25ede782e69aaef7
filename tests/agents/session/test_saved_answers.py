"""Answers that last longer than a session: what they write, what they allow, and what they never do."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.event import PermissionRequest
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.domain.settings import Settings
from deputy_agents.guidance.jsonc import parse_jsonc, with_item, without_item
from deputy_agents.guidance.rule_files import local_file
from deputy_agents.guidance.settings_writer import add_rules, remove_rule
from deputy_agents.model.scripted import call, calls, say, use
from deputy_agents.ports.permission import Selected
from deputy_agents.store.memory import MemoryStore
from tests.support.core import DENY, Cast, Core, Person, core

pytestmark = pytest.mark.requirement("Q1")

MAKE = call("shell", command="make test")
EDIT = call("write_file", path="a.txt", content="new\n")


def local(root: Path) -> Path:
    return root / ".deputy" / "settings.local.json"


def git(root: Path, *words: str) -> str:
    command = ["git", *words]
    return subprocess.run(command, cwd=root, check=True, timeout=30, capture_output=True, text=True).stdout


def rules_in(file: Path) -> list[object]:
    read = parse_jsonc(file.read_text())
    return read["permissions"]["rules"]  # type: ignore[index,call-overload,no-any-return]


def asked_ids(person: Person) -> list[str]:
    return [option.option_id for option in person.asked[0].options]


async def ask(root: Path, option: str, command: object = MAKE) -> Core:
    async with core(root, Cast([command, say("ok")]), Person(Selected(option))) as c:  # type: ignore[list-item]
        await c.turn()
        return c


@pytest.mark.asyncio
async def test_an_answer_for_the_project_is_a_rule_in_its_personal_file(workspace: Path) -> None:
    git(workspace, "init", "--quiet")
    person = Person(Selected("allow_project"))
    async with core(workspace, Cast([MAKE, MAKE, say("ok")]), person) as c:
        await c.turn()
        assert len(person.asked) == 1
        shown = next(option for option in person.asked[0].options if option.option_id == "allow_project")
        assert shown.rules == ("shell(make test)",)
        assert shown.scope == "project"
        sources = [rule.source for rule in c.session.permissions.rules()]
        assert sources == [str(local(workspace))]
    assert rules_in(local(workspace)) == [{"tool": "shell", "pattern": "make test", "action": "allow"}]
    assert local(workspace).stat().st_mode & 0o777 == 0o600
    assert ".deputy" not in git(workspace, "status", "--porcelain")


@pytest.mark.asyncio
async def test_an_answer_for_all_projects_is_a_rule_in_the_users_file_and_keeps_its_comments(workspace: Path) -> None:
    own = workspace.parent / "home" / ".deputy" / "settings.json"
    own.parent.mkdir(parents=True)
    own.write_text('{\n  // mine\n  "model": "m", /* kept */\n}\n')
    async with core(workspace, Cast([MAKE, say("ok")]), Person(Selected("allow_user"))) as c:
        await c.turn()
    text = own.read_text()
    assert "// mine" in text
    assert "/* kept */" in text
    assert rules_in(own) == [{"tool": "shell", "pattern": "make test", "action": "allow"}]
    other = workspace.parent / "other"
    other.mkdir()
    person = Person(DENY)
    async with core(other, Cast([MAKE, say("ok")]), person) as c:
        await c.turn()
        assert person.asked == []


@pytest.mark.asyncio
async def test_a_file_that_came_with_the_folder_allows_nothing_until_it_is_trusted(workspace: Path) -> None:
    local(workspace).parent.mkdir()
    local(workspace).write_text(
        json.dumps({"permissions": {"rules": [{"tool": "shell", "pattern": "make test", "action": "allow"}]}})
    )
    person = Person(DENY)
    async with core(workspace, Cast([MAKE, say("ok")]), person) as c:
        await c.turn()
        assert len(person.asked) == 1
    person = Person(DENY)
    async with core(workspace, Cast([MAKE, say("ok")]), person, settings=Settings(vouched=True)) as c:
        await c.turn()
        assert person.asked == []


@pytest.mark.asyncio
async def test_an_answer_makes_no_other_rule_of_such_a_file_count(workspace: Path) -> None:
    local(workspace).parent.mkdir()
    local(workspace).write_text('{"permissions": {"rules": [{"tool": "*", "action": "allow"}]}}')
    other = call("shell", command="make other")
    answers = iter([Selected("allow_project"), DENY])
    person = Person(lambda _: next(answers))
    async with core(workspace, Cast([MAKE, other, MAKE, say("ok")]), person) as c:
        await c.turn()
        assert person.titles == ["shell(make test)", "shell(make other)"]


@pytest.mark.asyncio
async def test_denials_of_the_personal_file_always_count(workspace: Path) -> None:
    local(workspace).parent.mkdir()
    local(workspace).write_text('{"permissions": {"rules": [{"tool": "shell", "action": "deny"}]}}')
    async with core(workspace, Cast([MAKE, say("ok")]), Person(Selected("allow_once"))) as c:
        await c.turn()
        assert "Denied" in c.told()[0]


@pytest.mark.asyncio
@pytest.mark.parametrize("path", [".deputy/settings.json", ".deputy/settings.local.json", ".mcp.json"])
async def test_no_lasting_answer_covers_deputys_own_configuration(workspace: Path, path: str) -> None:
    person = Person(DENY)
    script = Cast([call("write_file", path=path, content="{}\n"), say("ok")])
    async with core(workspace, script, person) as c:
        await c.turn()
    assert asked_ids(person) == ["allow_once", "reject_once", "reject_session"]


@pytest.mark.asyncio
async def test_a_lasting_answer_about_a_protected_file_covers_that_file_alone(workspace: Path) -> None:
    paths = [".vscode/a.json", ".vscode/b.json", "AGENTS.md"]
    script = Cast([*(call("write_file", path=path, content="x\n") for path in paths), say("ok")])
    answers = iter([Selected("allow_project"), DENY, DENY])
    person = Person(lambda _: next(answers))
    async with core(workspace, script, person) as c:
        await c.turn()
    assert person.titles == [f"write_file({path})" for path in paths]
    assert rules_in(local(workspace)) == [{"tool": "write_file", "pattern": ".vscode/a.json", "action": "allow"}]


@pytest.mark.asyncio
async def test_an_answer_that_cannot_be_saved_holds_for_the_session_and_says_why(workspace: Path) -> None:
    local(workspace).parent.mkdir()
    full = json.dumps({"permissions": {"rules": [{"tool": "glob", "action": "allow"}] * 500}})
    local(workspace).write_text(full)
    person = Person(Selected("allow_project"))
    async with core(workspace, Cast([EDIT, MAKE, MAKE, say("ok")]), person) as c:
        await c.turn()
        assert len(person.asked) == 2
        assert any("could not be saved" in str(problem) for problem in c.session.problems)
    assert local(workspace).read_text() == full


def test_a_file_is_never_written_through_a_link(tmp_path: Path) -> None:
    elsewhere, root = tmp_path / "elsewhere", tmp_path / "root"
    elsewhere.mkdir()
    root.mkdir()
    (root / ".deputy").symlink_to(elsewhere)
    with pytest.raises(InvalidRequest, match="is a link"):
        local_file(root)
    (elsewhere / "settings.json").symlink_to(tmp_path / "other.json")
    with pytest.raises(InvalidRequest, match="is a link"):
        add_rules(elsewhere / "settings.json", [Rule("1", "shell", DecisionKind.ALLOW)])
    assert not (tmp_path / "other.json").exists()


@pytest.mark.asyncio
async def test_a_saved_rule_is_removed_from_its_file_and_from_every_session(workspace: Path) -> None:
    async with core(workspace, Cast([MAKE, say("ok"), MAKE, say("ok")]), Person(Selected("allow_project"))) as c:
        await c.turn()
        (rule,) = c.session.permissions.rules()
        assert c.session.permissions.is_saved(rule)
        await c.session.permissions.forget_saved(rule.rule_id)
        assert c.session.permissions.rules() == ()
        assert rules_in(local(workspace)) == []
        await c.turn()
        assert len(c.session.permissions.rules()) == 1


@pytest.mark.asyncio
async def test_ids_of_earlier_clients_mean_the_session(workspace: Path) -> None:
    person = Person(Selected("allow_always"))
    async with core(workspace, Cast([MAKE, MAKE, say("ok")]), person, store=MemoryStore()) as c:
        await c.turn()
        assert len(person.asked) == 1
        assert [rule.source for rule in c.session.permissions.rules()] == ["session"]
    assert not local(workspace).exists()


@pytest.mark.asyncio
async def test_open_requests_that_a_saved_answer_covers_are_settled(workspace: Path) -> None:
    def answer(request: PermissionRequest) -> Selected:
        return Selected("allow_project")

    both = calls([use("shell", command="make test"), use("shell", command="make test")])
    person = Person(answer)
    async with core(workspace, Cast([both, say("ok")]), person) as c:
        await c.turn()
    assert rules_in(local(workspace)) == [{"tool": "shell", "pattern": "make test", "action": "allow"}]


def test_rules_that_are_added_at_once_all_stay(tmp_path: Path) -> None:
    file = tmp_path / ".deputy" / "settings.json"
    rules = [Rule(str(n), "shell", DecisionKind.ALLOW, f"make {n}") for n in range(24)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda rule: add_rules(file, [rule]), [*rules, *rules]))
    assert len(rules_in(file)) == 24
    assert remove_rule(file, rules[3])
    assert not remove_rule(file, rules[3])
    assert len(rules_in(file)) == 23


LINES = st.sampled_from(["", " // a comment", " /* one */", "\n"])
TEXTS = st.builds(
    lambda items, before, after, trailing, nested: (
        f'{{{before}\n"x": 1,\n"permissions": {{{after}\n"rules": ['
        + (",".join(f"\n    {json.dumps(item)}{nested}" for item in items) if items else nested)
        + (f",{after}" if trailing and items else "")
        + "\n]}}\n"
    ),
    st.lists(st.sampled_from([{"tool": "a"}, {"tool": "b", "pattern": "]},//"}, 1]), max_size=3),
    LINES,
    LINES,
    st.booleans(),
    st.sampled_from(["", " /* x */", " "]),
)


@given(text=TEXTS, item=st.sampled_from([{"tool": "c", "pattern": "//[,"}, "x"]))
def test_adding_and_removing_a_rule_changes_nothing_else(text: str, item: object) -> None:
    before = parse_jsonc(text)["permissions"]["rules"]  # type: ignore[index,call-overload]
    added = with_item(text, ["permissions", "rules"], item)
    assert parse_jsonc(added)["permissions"]["rules"] == [*before, item]  # type: ignore[index,call-overload]
    assert parse_jsonc(added)["x"] == 1  # type: ignore[index,call-overload]
    for comment in ("// a comment", "/* one */", "/* x */"):
        assert added.count(comment) == text.count(comment)
    for index in range(len(before) + 1):
        left = without_item(added, ["permissions", "rules"], index)
        expected = [*before, item]
        del expected[index]
        assert parse_jsonc(left)["permissions"]["rules"] == expected  # type: ignore[index,call-overload]
        for comment in ("// a comment", "/* one */"):
            assert left.count(comment) >= text.count(comment) - 1
