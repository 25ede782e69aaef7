# ruff: noqa: ASYNC240 - the disk is the subject of these tests
"""``edit_file`` and ``write_file``."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import Location, ToolKind
from deputy_agents.domain.preview import DiffPreview
from deputy_agents.domain.rule import AccessRequest, Action, DecisionKind
from deputy_agents.domain.settings import Root
from deputy_agents.permission.rule_patterns import Match, lasting_rule, matches, parse_rule
from deputy_agents.tool.edit import EditFile, EditFileArgs
from tests.support.files import Hands, hands_on

pytestmark = pytest.mark.asyncio


@pytest.fixture
def file(workspace: Path) -> Path:
    path = workspace / "src/lib.rs"
    path.parent.mkdir()
    path.write_text("fn one() {}\nfn two() {}\nfn three() {}\n")
    return path


@pytest.fixture
def hands(workspace: Path) -> Hands:
    return hands_on(workspace)


async def having_read(hands: Hands, path: str = "src/lib.rs") -> Hands:
    await hands.call("read_file", path=path)
    return hands


@pytest.mark.requirement("A5")
async def test_edit_has_a_preview_and_requests_edit_access(file: Path, hands: Hands) -> None:
    await having_read(hands)
    prepared = await hands.prepare("edit_file", path="src/lib.rs", old_string="two", new_string="deux")
    before = file.read_text()
    assert prepared.target == "src/lib.rs"
    assert list(prepared.access) == [AccessRequest("edit_file", Action.EDIT, "src/lib.rs")]
    assert prepared.locations == (Location(str(file), 2, 2),)
    assert prepared.preview == DiffPreview(str(file), before, before.replace("two", "deux"))
    assert hands.tools["edit_file"].kind is hands.tools["write_file"].kind is ToolKind.EDIT


async def test_edit_replaces_the_text_and_reports_the_changed_lines(file: Path, hands: Hands) -> None:
    await having_read(hands)
    output = await hands.call("edit_file", path="src/lib.rs", old_string="two() {}", new_string="two() {\n}")
    assert file.read_text() == "fn one() {}\nfn two() {\n}\nfn three() {}\n"
    assert output.content == "Changed src/lib.rs: lines 2-3."
    assert output.locations == (Location(str(file), 2, 3),)


async def test_file_need_not_be_read_again_between_edits(file: Path, hands: Hands) -> None:
    await having_read(hands)
    await hands.call("edit_file", path="src/lib.rs", old_string="one", new_string="1")
    await hands.call("edit_file", path="src/lib.rs", old_string="two", new_string="2")
    assert file.read_text() == "fn 1() {}\nfn 2() {}\nfn three() {}\n"


async def test_replace_all_replaces_every_occurrence(file: Path, hands: Hands) -> None:
    await having_read(hands)
    output = await hands.call("edit_file", path="src/lib.rs", old_string="{}\n", new_string="{\n}\n", replace_all=True)
    assert file.read_text() == "fn one() {\n}\nfn two() {\n}\nfn three() {\n}\n"
    assert output.content == "Changed src/lib.rs: lines 1-2, 3-4, 5-6."


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("fn", "fun", r"src/lib.rs: old_string occurs 3 times \(lines 1, 2, 3\)\. Make it unique or set replace_all"),
        ("fn two() {\n", "x", r"not found. Line 2 is the nearest match: fn two\(\) \{\}"),
        ("fn two() {}\nfn 3() {}", "x", "Line 2 differs in white space or in the lines after it"),
        ("    fn two() {}", "x", "Line 2 differs in white space"),
        ("zzzzzzzzzzzz", "x", r"old_string was not found\.$"),
        ("two", "two", "the same as the old one"),
        ("", "x", "old_string: "),
    ],
)
async def test_edit_that_cannot_be_applied_is_rejected_with_a_hint(
    file: Path, hands: Hands, old: str, new: str, message: str
) -> None:
    await having_read(hands)
    before = file.read_text()
    with pytest.raises(ToolError, match=message):
        await hands.call("edit_file", path="src/lib.rs", old_string=old, new_string=new)
    assert file.read_text() == before


async def test_file_that_was_not_read_cannot_be_changed(file: Path, hands: Hands) -> None:
    calls = ("edit_file", {"old_string": "one", "new_string": "1"}), ("write_file", {"content": "x"})
    for name, input in calls:
        with pytest.raises(ToolError, match=r"src/lib\.rs has not been read yet\. Use read_file first"):
            await hands.call(name, path="src/lib.rs", **input)
    other = hands_on(file.parents[1])
    await having_read(other)
    with pytest.raises(ToolError, match="not been read"):
        await hands.call("write_file", path="src/lib.rs", content="x")


async def test_error_reveals_nothing_of_a_file_that_was_not_read(workspace: Path, hands: Hands) -> None:
    (workspace / ".env").write_text("TOKEN=hunter2\n")
    with pytest.raises(ToolError) as error:
        await hands.call("edit_file", path=".env", old_string="TOKEN=hunter", new_string="x")
    assert "hunter2" not in str(error.value)


async def test_file_that_changed_since_it_was_read_cannot_be_changed(file: Path, hands: Hands) -> None:
    await having_read(hands)
    ready = await hands.ready("edit_file", {"path": "src/lib.rs", "old_string": "one", "new_string": "1"})
    file.write_text("fn one() {} // typed by the user\n")
    for call in (ready.run(), hands.call("write_file", path="src/lib.rs", content="x")):
        with pytest.raises(ToolError, match=r"has changed since you read it\. Read it again"):
            await call
    assert file.read_text() == "fn one() {} // typed by the user\n"


async def test_edit_does_not_follow_a_link_that_replaced_the_file(file: Path, hands: Hands, tmp_path: Path) -> None:
    await having_read(hands)
    ready = await hands.ready("edit_file", {"path": "src/lib.rs", "old_string": "one", "new_string": "1"})
    (tmp_path / "outside").write_text(file.read_text())
    file.unlink()
    file.symlink_to(tmp_path / "outside")
    with pytest.raises(ToolError, match="outside the workspace"):
        await ready.run()
    file.unlink()
    (file.parent / "other.rs").write_text("fn one() {}\nfn two() {}\nfn three() {}\n")
    file.symlink_to("other.rs")
    with pytest.raises(ToolError, match="leads to another file"):
        await ready.run()
    assert "fn one" in (tmp_path / "outside").read_text()
    assert "fn one" in (file.parent / "other.rs").read_text()


async def test_preview_builds_on_earlier_proposals(file: Path, hands: Hands) -> None:
    await having_read(hands)
    hands.context = replace(hands.context, proposed={file: "fn uno() {}\n", file.with_name("new.rs"): "a\n"})
    second = await hands.prepare("edit_file", path="src/lib.rs", old_string="uno", new_string="1")
    assert second.preview == DiffPreview(str(file), "fn uno() {}\n", "fn 1() {}\n")
    of_new = await hands.prepare("edit_file", path="src/new.rs", old_string="a", new_string="b")
    assert of_new.preview == DiffPreview(str(file.with_name("new.rs")), "a\n", "b\n")


async def test_edit_that_builds_on_a_rejected_one_fails(file: Path, hands: Hands) -> None:
    await having_read(hands)
    hands.context = replace(hands.context, proposed={file: "fn uno() {}\n"})
    ready = await hands.ready("edit_file", {"path": "src/lib.rs", "old_string": "uno", "new_string": "1"})
    with pytest.raises(ToolError, match="not found"):
        await ready.run()


async def test_new_file_can_be_written_and_changed_without_reading_it(workspace: Path, hands: Hands) -> None:
    prepared = await hands.prepare("write_file", path="a/b.txt", content="one\n")
    assert prepared.preview == DiffPreview(str(workspace / "a/b.txt"), None, "one\n")
    assert not (workspace / "a").exists()
    assert await hands.text("write_file", path="a/b.txt", content="one\n") == "Created a/b.txt: line 1."
    await hands.call("edit_file", path="a/b.txt", old_string="one", new_string="two")
    assert (workspace / "a/b.txt").read_text() == "two\n"
    assert await hands.text("write_file", path="empty", content="") == "Created empty: no lines."


async def test_file_created_before_the_call_runs_is_not_overwritten(workspace: Path, hands: Hands) -> None:
    ready = await hands.ready("write_file", {"path": "a.txt", "content": "mine"})
    (workspace / "a.txt").write_text("not mine")
    with pytest.raises(ToolError, match="has not been read yet"):
        await ready.run()
    assert (workspace / "a.txt").read_text() == "not mine"


async def test_new_file_that_is_open_in_the_editor_is_written_there(workspace: Path, hands: Hands) -> None:
    ready = await hands.ready("write_file", {"path": "a.txt", "content": "mine\n"})
    hands.documents.show(workspace / "a.txt", "", version=1)
    await ready.run()
    assert hands.documents.open[workspace / "a.txt"].text == "mine\n"
    hands.documents.show(workspace / "b.txt", "", version=1)
    assert await hands.text("write_file", path="b.txt", content="b") == "Changed b.txt: line 1."


async def test_file_that_was_read_can_be_overwritten(file: Path, hands: Hands) -> None:
    await having_read(hands)
    assert await hands.text("write_file", path="src/lib.rs", content="x\ny\n") == "Changed src/lib.rs: lines 1-2."
    assert file.read_text() == "x\ny\n"


async def test_edit_keeps_line_ends_and_byte_order_mark(workspace: Path, hands: Hands) -> None:
    path = workspace / "dos.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    await having_read(hands, "dos.txt")
    await hands.call("edit_file", path="dos.txt", old_string="one\ntwo", new_string="1\n2")
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\nthree\r\n"
    await hands.call("write_file", path="dos.txt", content="a\nb\n")
    assert path.read_bytes() == b"\xef\xbb\xbfa\r\nb\r\n"


async def test_lines_that_are_not_edited_keep_their_line_ends(workspace: Path, hands: Hands) -> None:
    path = workspace / "mixed.txt"
    path.write_bytes(b"one\r\ntwo\nthree\nfour\n")
    await having_read(hands, "mixed.txt")
    await hands.call("edit_file", path="mixed.txt", old_string="three\nfour", new_string="3\n4")
    assert path.read_bytes() == b"one\r\ntwo\n3\n4\n"


@given(
    st.lists(st.sampled_from(["a", "b", "\n", "\r\n", "$", "\\1"]), max_size=12).map("".join),
    st.sampled_from(["a", "b", "\n", "a\nb", "$", "\\1"]),
    st.sampled_from(["", "x", "\\1", "x\ny"]),
)
async def test_replace_all_ignores_differences_of_line_ends(text: str, old: str, new: str) -> None:
    args = EditFileArgs(path="p", old_string=old, new_string=new, replace_all=True)
    plain = text.replace("\r\n", "\n")
    if old not in plain:
        with pytest.raises(ToolError, match="not found"):
            EditFile.change(args, text)
        return
    change = EditFile.change(args, text)
    assert change.text.replace("\r\n", "\n") == plain.replace(old, new)
    assert len(change.old) == len(change.new) == plain.count(old)


async def test_open_document_is_edited_in_the_editor_with_the_label_of_the_agent(file: Path, hands: Hands) -> None:
    hands.documents.show(file, "fn typed() {}\n", version=3)
    await having_read(hands)
    await hands.call("edit_file", path="src/lib.rs", old_string="typed", new_string="edited")
    assert hands.documents.open[file].text == "fn edited() {}\n"
    assert hands.documents.applied == ["worker: edit_file(src/lib.rs)"]
    assert "one" in file.read_text()


async def test_change_that_the_editor_cannot_make_is_rejected_before_approval(file: Path, hands: Hands) -> None:
    hands.documents.show(file, "caf\ufffd one\n")
    await having_read(hands)
    change = {"path": "src/lib.rs", "old_string": "one", "new_string": "two"}
    await hands.prepare("edit_file", **change)
    file.write_bytes(b"caf\xe9\n")  # the editor could not decode it, and the user has typed after it
    with pytest.raises(ToolError, match="does not know its encoding"):
        await hands.prepare("edit_file", **change)


@pytest.mark.parametrize("is_open", [True, False])
async def test_change_of_a_read_only_file_is_rejected_before_approval(file: Path, hands: Hands, is_open: bool) -> None:
    if is_open:  # a user with the rights could save it there
        hands.documents.show(file, file.read_text())
    await having_read(hands)
    change = {"path": "src/lib.rs", "old_string": "one", "new_string": "1"}
    ready = await hands.ready("edit_file", change)
    file.chmod(0o444)
    with pytest.raises(ToolError, match=r"lib\.rs is read-only"):
        await hands.prepare("edit_file", **change)
    with pytest.raises(ToolError, match=r"lib\.rs is read-only"):
        await ready.run()
    assert hands.documents.applied == []


async def test_edit_changes_only_the_edited_bytes_of_a_file_that_is_not_utf_8(workspace: Path, hands: Hands) -> None:
    path = workspace / "latin.txt"
    path.write_bytes(b"caf\xe9 one\n")
    await having_read(hands, "latin.txt")
    prepared = await hands.prepare("edit_file", path="latin.txt", old_string="one", new_string="two")
    assert prepared.preview == DiffPreview(str(path), "caf\ufffd one\n", "caf\ufffd two\n")
    await hands.call("edit_file", path="latin.txt", old_string="one", new_string="two")
    assert path.read_bytes() == b"caf\xe9 two\n"
    for name, input in (
        ("edit_file", {"old_string": "two", "new_string": "zwölf"}),
        ("write_file", {"content": "caf\ufffd"}),
    ):
        with pytest.raises(ToolError, match="Add only ASCII characters"):
            await hands.prepare(name, path="latin.txt", **input)


async def test_lasting_rule_applies_to_one_file_of_one_root(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "notes").mkdir()
    hands = hands_on(workspace, Root(tmp_path / "notes", writable=True))
    (here,) = await hands.access("write_file", path="a.txt", content="x")
    (there,) = await hands.access("write_file", path=str(tmp_path / "notes/a.txt"), content="x")
    assert (here.subject, there.subject) == ("a.txt", "a.txt")
    for one, other in ((here, there), (there, here)):
        rule = lasting_rule(one, DecisionKind.ALLOW)
        assert matches(rule, one) is Match.YES
        assert matches(rule, other) is Match.NO
    assert matches(parse_rule("write_file(*.txt)", DecisionKind.DENY, "settings"), there) is Match.YES
    assert matches(parse_rule(f"write_file({tmp_path}/**)", DecisionKind.DENY, "settings"), there) is Match.YES


async def test_edit_in_a_read_only_root_is_rejected_before_approval(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library/a.txt").write_text("text\n")
    hands = hands_on(workspace, Root(tmp_path / "library"))
    path = str(tmp_path / "library/a.txt")
    assert await hands.text("read_file", path=path) == "     1\ttext"
    with pytest.raises(ToolError, match="may only read"):
        await hands.prepare("write_file", path=path, content="x")


async def test_changing_a_protected_file_requests_more_than_edit_access(workspace: Path, hands: Hands) -> None:
    (workspace / ".git/hooks").mkdir(parents=True)
    access = await hands.access("write_file", path=".git/hooks/pre-commit", content="#!/bin/sh\n")
    assert access == [AccessRequest("write_file", Action.EDIT_PROTECTED, ".git/hooks/pre-commit")]
    assert (await hands.access("write_file", path=".env", content="A=1"))[0].action is Action.EDIT


async def test_misleading_file_name_is_shown_escaped(hands: Hands) -> None:
    prepared = await hands.prepare("write_file", path="a\u202e\nb.txt", content="x")
    assert prepared.target == "a\\u{202e}\\nb.txt"
    assert prepared.access[0].subject == "a\u202e\nb.txt"


async def test_edit_of_a_missing_file_suggests_write_file(hands: Hands) -> None:
    with pytest.raises(ToolError, match=r"none.txt: the file does not exist; use write_file to create it"):
        await hands.call("edit_file", path="none.txt", old_string="a", new_string="b")


async def test_file_deleted_after_approval_is_not_created_again(file: Path, hands: Hands) -> None:
    await having_read(hands)
    approved = [
        await hands.ready("edit_file", {"path": "src/lib.rs", "old_string": "two", "new_string": "deux"}),
        await hands.ready("write_file", {"path": "src/lib.rs", "content": "fn four() {}\n"}),
    ]
    file.unlink()
    for call in approved:
        with pytest.raises(ToolError, match=r"src/lib.rs was deleted or moved since you read it\."):
            await call.run()
    assert not file.exists()


async def test_preview_of_a_deleted_file_shows_a_new_file(file: Path, hands: Hands) -> None:
    await having_read(hands)
    file.unlink()
    prepared = await hands.prepare("write_file", path="src/lib.rs", content="fn four() {}\n")
    assert prepared.preview == DiffPreview(str(file), None, "fn four() {}\n")
    await hands.call("write_file", path="src/lib.rs", content="fn four() {}\n")
    assert file.read_text() == "fn four() {}\n"
