"""``read_file`` and ``list_dir``."""

from base64 import b64decode
from pathlib import Path

import pytest

from deputy_agents.domain.errors import OutsideRoots, ToolError
from deputy_agents.domain.event import Location, ToolKind
from deputy_agents.domain.rule import AccessRequest, Action
from tests.support.files import hands_on
from tests.support.images import broken_png, gif, png

pytestmark = pytest.mark.asyncio


async def test_file_is_returned_with_numbered_lines(workspace: Path) -> None:
    (workspace / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\n\r\nthree \x0c x")
    hands = hands_on(workspace)
    output = await hands.call("read_file", path="a.txt")
    assert output.content == "     1\tone\n     2\t\n     3\tthree \x0c x"
    assert output.locations == (Location(str(workspace / "a.txt"), 1, 3),)
    assert not output.is_error


@pytest.mark.requirement("A5")
async def test_reading_requests_read_access_to_the_file(workspace: Path) -> None:
    (workspace / "src").mkdir()
    (workspace / "src/a.py").touch()
    hands = hands_on(workspace)
    prepared = await hands.prepare("read_file", path=str(workspace / "src/a.py"), offset=3)
    assert prepared.target == "src/a.py"
    assert list(prepared.access) == [AccessRequest("read_file", Action.READ, "src/a.py")]
    assert prepared.locations == (Location(str(workspace / "src/a.py"), 3),)
    assert hands.tools["read_file"].kind is ToolKind.READ


async def test_file_that_may_hold_secrets_requests_more_than_read_access(workspace: Path) -> None:
    (workspace / ".env").touch()
    (workspace / "harmless").symlink_to(".env")
    hands = hands_on(workspace)
    for path, also in ((".env", ()), ("harmless", (("harmless", None),))):
        request = AccessRequest("read_file", Action.READ_SECRET, ".env", also=also)
        assert await hands.access("read_file", path=path) == [request]


async def test_long_file_is_cut_with_a_note_on_how_to_continue(workspace: Path) -> None:
    (workspace / "long.txt").write_text("".join(f"line {number}\n" for number in range(1, 2502)))
    hands = hands_on(workspace)
    first = (await hands.text("read_file", path="long.txt")).splitlines()
    assert first[-1] == "[lines 1 to 2000 of 2501; continue with offset 2001]"
    assert (await hands.text("read_file", path="long.txt", offset=2001)).splitlines()[-1] == "  2501\tline 2501"
    part = await hands.text("read_file", path="long.txt", offset=10, limit=2)
    assert part == "    10\tline 10\n    11\tline 11\n[lines 10 to 11 of 2501; continue with offset 12]"


async def test_result_is_bounded_for_long_lines(workspace: Path) -> None:
    (workspace / "wide.txt").write_text(("x" * 5000 + "\n") * 500)
    text = await hands_on(workspace).text("read_file", path="wide.txt")
    assert len(text) < 62_000
    assert text.splitlines()[0].endswith("x [cut: 5000 characters]")
    assert "continue with offset" in text.splitlines()[-1]


async def test_very_large_file_is_read_in_parts_and_cannot_be_changed(workspace: Path) -> None:
    (workspace / "huge.log").write_text("".join(f"entry {number}\n" for number in range(1, 1_000_001)))
    hands = hands_on(workspace)
    part = await hands.call("read_file", path="huge.log", offset=900_000, limit=2)
    assert part.content == (
        "900000\tentry 900000\n900001\tentry 900001\n"
        "[lines 900000 to 900001 of a very large file; continue with offset 900002]"
    )
    assert part.locations == (Location(str(workspace / "huge.log"), 900_000, 900_001),)
    assert await hands.text("read_file", path="huge.log", offset=1_000_000) == "1000000\tentry 1000000"
    with pytest.raises(ToolError, match=r"offset: beyond the end of huge\.log"):
        await hands.call("read_file", path="huge.log", offset=1_000_001)
    with pytest.raises(ToolError, match="more than the 10,485,760 that can be read as a whole"):
        await hands.call("edit_file", path="huge.log", old_string="entry 7\n", new_string="x\n")


@pytest.mark.requirement("D12")
@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.png", png(640, 48), "a.png: PNG image, 640 x 48 pixels"),
        ("misnamed.PNG", gif(), "misnamed.PNG: GIF image, 2 x 1 pixels"),
    ],
)
async def test_image_is_returned_with_its_format_and_size(
    workspace: Path, name: str, data: bytes, message: str
) -> None:
    (workspace / name).write_bytes(data)
    output = await hands_on(workspace).call("read_file", path=name)
    assert output.content == message
    (image,) = output.images
    assert (b64decode(image.data), image.media_type[6:].upper()) == (data, message.split()[1])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (png()[:-8], r"a\.png: The image is damaged or incomplete"),
        (broken_png(), r"a\.png: The image is damaged or incomplete"),
        (png() + b"\1" * 2**25, r"a\.png has 33,554,500 bytes, more than the 33,554,432"),
        (b"\0\1\2", r"a\.png is a binary file"),
    ],
)
async def test_image_that_a_model_would_reject_is_an_error(workspace: Path, data: bytes, message: str) -> None:
    (workspace / "a.png").write_bytes(data)
    with pytest.raises(ToolError, match=message):
        await hands_on(workspace).call("read_file", path="a.png")


async def test_text_with_the_name_of_an_image_is_read_as_text(workspace: Path) -> None:
    (workspace / "a.png").write_text("no picture")
    assert await hands_on(workspace).text("read_file", path="a.png") == "     1\tno picture"


async def test_empty_file_is_reported_as_empty(workspace: Path) -> None:
    (workspace / "empty").touch()
    hands = hands_on(workspace)
    assert await hands.text("read_file", path="empty") == "[empty is empty]"
    assert hands.context.marks.seen.keys() == {workspace / "empty"}


async def test_invalid_bytes_are_announced(workspace: Path) -> None:
    (workspace / "latin.txt").write_bytes(b"caf\xe9")
    text = await hands_on(workspace).text("read_file", path="latin.txt")
    assert text == "[not UTF-8: invalid bytes are shown as \ufffd]\n     1\tcaf\ufffd"


async def test_open_document_is_read_with_its_unsaved_text(workspace: Path) -> None:
    hands = hands_on(workspace)
    hands.documents.show(workspace / "unsaved.txt", "typed")
    assert await hands.text("read_file", path="unsaved.txt") == "     1\ttyped"


@pytest.mark.parametrize(
    ("input", "message"),
    [
        ({}, "path: field required"),
        ({"path": "a", "ofset": 1}, "ofset: unknown field; the fields are: path, offset, limit"),
        ({"path": "a", "offset": 0}, "offset: "),
        ({"path": "a", "limit": "many"}, "limit: "),
        ({"path": 7}, "path: "),
        ({"path": "none.txt"}, "There is no file none.txt"),
        ({"path": "a.txt", "offset": 3}, "offset: a.txt has only 1 lines"),
        ({"path": "folder"}, "use list_dir"),
    ],
)
async def test_invalid_input_is_rejected_with_the_field(
    workspace: Path, input: dict[str, object], message: str
) -> None:
    (workspace / "a.txt").write_text("one")
    (workspace / "folder").mkdir()
    with pytest.raises(ToolError, match=message):
        await hands_on(workspace).call("read_file", **input)


async def test_null_counts_as_absent(workspace: Path) -> None:
    (workspace / "a.txt").write_text("one")
    assert await hands_on(workspace).text("read_file", path="a.txt", offset=None, limit=None) == "     1\tone"


@pytest.mark.parametrize("name", ["read_file", "list_dir", "glob", "grep", "edit_file", "write_file"])
async def test_file_tools_reject_paths_outside_the_workspace(workspace: Path, name: str) -> None:
    (workspace / "link").symlink_to("/etc")
    extra = {
        "glob": {"pattern": "*"},
        "grep": {"pattern": "root"},
        "edit_file": {"old_string": "root", "new_string": "x"},
        "write_file": {"content": "x"},
    }.get(name, {})
    for path in ("/etc/hostname", "../x", "link/hostname", "link"):
        with pytest.raises(OutsideRoots, match="outside the workspace"):
            await hands_on(workspace).call(name, path=path, **extra)


async def test_read_returns_the_file_that_the_gate_decided_about(workspace: Path) -> None:
    (workspace / "plain.txt").write_text("plain")
    (workspace / ".env").write_text("TOKEN=1")
    (workspace / "alias").symlink_to("plain.txt")
    ready = await hands_on(workspace).ready("read_file", {"path": "alias"})
    (workspace / "alias").unlink()
    (workspace / "alias").symlink_to(".env")
    assert "plain" in (await ready.run()).content
    (workspace / "plain.txt").unlink()
    (workspace / "plain.txt").symlink_to(".env")
    with pytest.raises(ToolError):
        await ready.run()


async def test_folder_is_listed_sorted_with_marks(workspace: Path) -> None:
    (workspace / "sub").mkdir()
    (workspace / "b.txt").touch()
    (workspace / "a\nb.txt").touch()
    (workspace / ".env").touch()
    (workspace / "link").symlink_to("/etc")
    (workspace / ".git").mkdir()
    hands = hands_on(workspace)
    assert await hands.text("list_dir", path=".") == ".env\na\\nb.txt\nb.txt\nlink@\nsub/"
    assert await hands.text("list_dir", path="sub") == "[empty folder]"
    assert await hands.access("list_dir", path="sub") == [AccessRequest("list_dir", Action.READ, "sub")]


async def test_listing_omits_files_ignored_by_git(workspace: Path) -> None:
    for path in ("build/out.o", "src/keep.log", "src/a.log", "src/a.py", "src/gen/x.py", "node_modules/p/i.js"):
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).touch()
    (workspace / ".gitignore").write_text("build/\n*.log\nnode_modules\n/src/gen/\n")
    (workspace / "src/.gitignore").write_text("!keep.log\n")
    hands = hands_on(workspace)
    assert await hands.text("list_dir", path=".") == ".gitignore\nsrc/"
    assert await hands.text("list_dir", path="src") == ".gitignore\na.py\nkeep.log"
    assert await hands.text("list_dir", path="node_modules/p") == "i.js"


async def test_listing_is_bounded(workspace: Path) -> None:
    for number in range(510):
        (workspace / f"{number:03}").touch()
    lines = (await hands_on(workspace).text("list_dir", path=".")).splitlines()
    assert lines[-2:] == ["499", "[500 of 510 names; use glob to find the rest]"]


@pytest.mark.parametrize(("path", "message"), [("a.txt", "use read_file"), ("none", "no such file or folder")])
async def test_listing_anything_but_a_folder_is_an_error(workspace: Path, path: str, message: str) -> None:
    (workspace / "a.txt").touch()
    with pytest.raises(ToolError, match=message):
        await hands_on(workspace).call("list_dir", path=path)
