# ruff: noqa: ASYNC240 - the disk is the subject of these tests
"""Confinement to the roots, lossless reads, and atomic writes."""

import os
import socket
import stat
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deputy_agents.domain.errors import OutsideRoots, ToolError
from deputy_agents.domain.settings import Root
from deputy_agents.files import disk
from deputy_agents.files.encoding import decode
from deputy_agents.files.place import PathKind
from deputy_agents.files.sensitive import is_secret
from deputy_agents.files.workspace import Workspace, digest
from deputy_agents.text import well_formed
from tests.support.files import OpenDocuments

pytestmark = pytest.mark.asyncio


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("do not read")
    return folder


async def read(workspace: Workspace, path: str, cwd: Path | None = None) -> str | None:
    place = await workspace.locate(path, cwd or workspace.roots[0])
    file = await workspace.read(place)
    return None if file is None else file.text


async def write(workspace: Workspace, path: str, text: str, expected: str | None) -> None:
    place = await workspace.locate(path, workspace.roots[0])
    await workspace.write(place, text, expected=expected, label="worker")


# -- confinement -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../outside/secret.txt",
        "sub/../../outside/secret.txt",
        "link/secret.txt",
        "link.txt",
        "chain",
        "link/../outside/secret.txt",
        "link/new.txt",
        "dangling",
        "/etc/passwd",
        "/proc/self/environ",
        "/proc/self/root/etc/passwd",
        "/dev/zero",
        "//etc/passwd",
    ],
)
async def test_no_path_leads_out_of_the_roots(workspace: Path, outside: Path, path: str) -> None:
    (workspace / "sub").mkdir()
    (workspace / "link").symlink_to(outside)
    (workspace / "link.txt").symlink_to(outside / "secret.txt")
    (workspace / "chain").symlink_to(workspace / "link.txt")
    (workspace / "dangling").symlink_to(outside / "not-there")
    with pytest.raises(OutsideRoots, match="outside the workspace"):
        await Workspace([workspace]).locate(path, workspace)


async def test_root_at_the_top_of_the_file_system_does_not_expose_the_environment() -> None:
    with pytest.raises(OutsideRoots):
        await Workspace([Path("/")]).locate("/proc/self/environ", Path("/"))


@pytest.mark.parametrize(("path", "says"), [("", "empty"), ("a\0b", "null"), ("~/x", "not expanded"), ("~root", "~")])
async def test_invalid_path_is_rejected(workspace: Path, path: str, says: str) -> None:
    with pytest.raises(ToolError, match=says):
        await Workspace([workspace]).locate(path, workspace)


async def test_links_inside_the_roots_are_followed(workspace: Path) -> None:
    (workspace / "real.txt").write_text("text")
    (workspace / "link.txt").symlink_to("real.txt")
    place = await Workspace([workspace]).locate("link.txt", workspace)
    assert (place.path.name, place.subject, place.kind) == ("real.txt", "real.txt", PathKind.FILE)


async def test_link_loops_are_rejected(workspace: Path) -> None:
    (workspace / "loop").symlink_to("loop")
    with pytest.raises(OutsideRoots, match="loop"):
        await read(Workspace([workspace]), "loop")


async def test_relative_paths_start_at_the_working_folder(workspace: Path) -> None:
    (workspace / "sub").mkdir()
    (workspace / "sub/a.txt").write_text("here")
    assert await read(Workspace([workspace]), "a.txt", workspace / "sub") == "here"
    assert await read(Workspace([workspace]), "../sub/a.txt", workspace / "sub") == "here"


async def test_further_root_is_accessible_and_the_innermost_root_determines_the_subject(tmp_path: Path) -> None:
    inner, other = tmp_path / "one/inner", tmp_path / "two"
    inner.mkdir(parents=True)
    other.mkdir()
    (other / "b.txt").write_text("b")
    files = Workspace([tmp_path / "one", inner, other])
    assert await read(files, str(other / "b.txt"), tmp_path / "one") == "b"
    assert (await files.locate("inner/x.txt", tmp_path / "one")).subject == "x.txt"


async def test_further_folder_is_read_only_unless_configured_as_writable(tmp_path: Path, workspace: Path) -> None:
    for name in ("library", "notes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
    (tmp_path / "library/link").symlink_to(tmp_path)
    further = [Root(tmp_path / "library"), Root(tmp_path / "notes", writable=True)]
    files = await Workspace.open([workspace], None, further)
    assert await read(files, "../library/a.txt") == "library"
    await write(files, str(tmp_path / "notes/a.txt"), "new", "notes")
    assert (tmp_path / "notes/a.txt").read_text() == "new"
    with pytest.raises(ToolError, match=r"agents may only read \(setting `roots`\)"):
        await write(files, str(tmp_path / "library/a.txt"), "new", "library")
    with pytest.raises(OutsideRoots):
        await read(files, str(tmp_path / "library/link/other.txt"))


async def test_workspace_is_writable_beneath_a_read_only_further_folder(tmp_path: Path, workspace: Path) -> None:
    for further in (Root(tmp_path), Root(workspace)):
        place = await Workspace([workspace], None, [further]).locate("a.txt", workspace)
        assert (place.root, place.writable, place.main) == (workspace, True, True)


async def test_root_that_is_a_link_is_resolved(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "alias").symlink_to(workspace)
    (workspace / "a.txt").write_text("a")
    files = await Workspace.open([tmp_path / "alias"])
    assert await read(files, str(tmp_path / "alias/a.txt")) == "a"


@pytest.mark.parametrize("swapped", ["folder", "folder/a.txt"])
async def test_name_replaced_by_a_link_after_the_check_is_not_followed(
    workspace: Path, outside: Path, swapped: str
) -> None:
    (outside / "a.txt").write_text("do not read")
    (workspace / "folder").mkdir()
    (workspace / "folder/a.txt").write_text("fine")
    files = Workspace([workspace])
    place = await files.locate("folder/a.txt", workspace)
    (workspace / swapped).rename(workspace / "moved")
    (workspace / swapped).symlink_to(outside if swapped == "folder" else outside / "a.txt")
    with pytest.raises(ToolError, match="replaced by a link"):
        await files.read(place)
    with pytest.raises(ToolError, match="replaced by a link"):
        await files.write(place, "changed", expected="fine", label="worker")
    with pytest.raises(ToolError, match="replaced by a link"):
        await files.write(place, "changed", expected=None, label="worker")
    assert (outside / "a.txt").read_text() == "do not read"
    assert sorted(entry.name for entry in outside.iterdir()) == ["a.txt", "secret.txt"]


async def test_working_directory_remains_the_checked_folder(workspace: Path, outside: Path) -> None:
    (workspace / "folder").mkdir()
    (workspace / "folder/a.txt").touch()
    files = Workspace([workspace])
    place = await files.locate("folder", workspace)
    async with files.working_directory(place) as cwd:
        await anyio.Path(workspace / "folder").rename(workspace / "moved")
        await anyio.Path(workspace / "folder").symlink_to(outside)
        found = await anyio.run_process(["ls"], cwd=cwd)
    assert found.stdout == b"a.txt\n"


# -- reading -----------------------------------------------------------------------------------------------------


async def test_special_files_are_rejected_without_waiting(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    (workspace / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        # Relative, as the path of a socket has to be short.
        with pytest.MonkeyPatch.context() as here:
            here.chdir(workspace)
            listener.bind("socket")
        with anyio.fail_after(5):
            for name, says in (
                ("pipe", "pipe"),
                ("socket", "pipe, socket"),
                ("folder", "use list_dir"),
                (".", "folder"),
            ):
                with pytest.raises(ToolError, match=says):
                    await read(Workspace([workspace]), name)
    with pytest.raises(ToolError, match="pipe"):
        await write(Workspace([workspace]), "pipe", "x", None)


async def test_device_is_rejected(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Making one takes privileges, so a plain file says that it is one.
    (workspace / "device").touch()
    files = Workspace([workspace])
    place = await files.locate("device", workspace)
    genuine = os.stat

    def device(*args: object, **kwargs: object) -> os.stat_result:
        found = genuine(*args, **kwargs)  # pyright: ignore[reportArgumentType]
        return os.stat_result((stat.S_IFCHR | 0o666, *found[1:])) if args == ("device",) else found

    def unopened(*args: object, **kwargs: object) -> int:
        assert args[0] != "device", "a device was opened"
        return genuine_open(*args, **kwargs)  # pyright: ignore[reportArgumentType]

    genuine_open = os.open
    monkeypatch.setattr(os, "stat", device)
    monkeypatch.setattr(os, "open", unopened)
    with pytest.raises(ToolError, match="device"):
        await files.read(place)


async def test_huge_file_is_read_in_parts_only(workspace: Path) -> None:
    with (workspace / "huge.log").open("wb") as file:
        file.write(b"first\n" + b"x" * 100_000 + b"\nthird\n")
        file.seek((1 << 28) - 6)
        file.write(b"\nlast\n")
    files = Workspace([workspace])
    place = await files.locate("huge.log", workspace)
    with pytest.raises(disk.TooLarge, match=r"268,435,456 bytes.*read as a whole"):
        await files.read(place)
    part = await files.read_lines(place, 1, 3)
    assert [len(line) for line in part.lines] == [6, 65_536, 6]
    assert not part.last
    assert await files.read_lines(place, 5, 10) == disk.Lines(["last\n"], last=True)
    assert await files.read_lines(place, 6, 10) == disk.Lines([], last=True)


async def test_gigabyte_of_zeros_is_binary(workspace: Path) -> None:
    with (workspace / "huge").open("wb") as file:
        file.truncate(1 << 30)
    files = Workspace([workspace])
    with pytest.raises(ToolError, match=r"binary file \(1,073,741,824 bytes\)"):
        await files.read_lines(await files.locate("huge", workspace), 1, 10)


async def test_unreadable_file_is_rejected_with_the_reason(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "locked").touch()
    genuine = os.open

    def locked(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "locked":
            raise PermissionError(13, "Permission denied")
        return genuine(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", locked)
    with pytest.raises(ToolError, match=r"locked: permission denied"):
        await read(Workspace([workspace]), "locked")


async def test_binary_files_are_rejected(workspace: Path) -> None:
    (workspace / "data.bin").write_bytes(b"abc\0def")
    with pytest.raises(ToolError, match=r"binary file \(7 bytes\)"):
        await read(Workspace([workspace]), "data.bin")


async def test_edit_preserves_bytes_that_are_not_utf_8(workspace: Path) -> None:
    path = workspace / "latin.txt"
    path.write_bytes(b"caf\xe9 one\n")
    files = Workspace([workspace])
    text = await read(files, "latin.txt")
    assert text is not None
    await write(files, "latin.txt", text.replace("one", "two"), text)
    assert path.read_bytes() == b"caf\xe9 two\n"
    with pytest.raises(ToolError, match=r"not UTF-8\. Add only ASCII characters, not ü"):
        await write(files, "latin.txt", "ü\n", text.replace("one", "two"))
    assert path.read_bytes() == b"caf\xe9 two\n"


def shown_as(workspace: Path, data: bytes, shown: str) -> tuple[Path, OpenDocuments, Workspace]:
    """A file with ``data`` that is open in an editor, which decodes it as ``shown``."""
    path, documents = workspace / "latin.txt", OpenDocuments()
    path.write_bytes(data)
    documents.show(path, shown)
    return path, documents, Workspace([workspace], documents)


async def test_document_that_the_editor_could_not_decode_is_changed_on_disk_and_keeps_its_bytes(
    workspace: Path,
) -> None:
    path, documents, files = shown_as(workspace, b"caf\xe9\xe8 one\r\n", "caf\ufffd one\n")
    text = await read(files, "latin.txt")
    assert text == "caf\udce9\udce8 one\r\n"
    await write(files, "latin.txt", text.replace("one", "two"), text)
    assert path.read_bytes() == b"caf\xe9\xe8 two\r\n"
    assert documents.open[path].text == "caf\ufffd one\n"


async def test_undecoded_document_with_unsaved_changes_is_left_unchanged(workspace: Path) -> None:
    path, documents, files = shown_as(workspace, b"caf\xe9 one\n", "caf\ufffd one more\n")
    text = await read(files, "latin.txt")
    assert text == "caf\ufffd one more\n"
    with pytest.raises(ToolError, match="does not know its encoding"):
        await write(files, "latin.txt", text.replace("one", "two"), text)
    assert path.read_bytes() == b"caf\xe9 one\n"
    assert documents.open[path].text == text


async def test_replacement_character_that_is_in_the_file_is_ordinary_text(workspace: Path) -> None:
    path, documents, files = shown_as(workspace, "\ufffd one\n".encode(), "\ufffd one\n")
    await write(files, path.name, "\ufffd two\n", "\ufffd one\n")
    assert documents.open[path].text == "\ufffd two\n"


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
async def test_file_with_a_byte_order_mark_keeps_its_encoding(workspace: Path, codec: str) -> None:
    path = workspace / "marked.txt"
    bom = "" if codec == "utf-8-sig" else "\ufeff"
    path.write_bytes(f"{bom}grün\r\n".encode(codec))
    files = Workspace([workspace])
    assert await read(files, "marked.txt") == "grün\r\n"
    await write(files, "marked.txt", "größer\r\n", "grün\r\n")
    assert path.read_bytes() == f"{bom}größer\r\n".encode(codec)


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=40))
async def test_decoded_text_encodes_to_the_same_bytes(data: bytes) -> None:
    if (found := decode(data)) is not None:
        text, encoding = found
        assert encoding.encode(text) == data
        well_formed(text).encode()


async def test_missing_file_has_no_text(workspace: Path) -> None:
    assert await read(Workspace([workspace]), "none.txt") is None
    assert await read(Workspace([workspace]), "no/such/none.txt") is None


async def test_name_with_a_line_end_is_escaped(workspace: Path) -> None:
    (workspace / "a\nb").write_bytes(b"\0")
    with pytest.raises(ToolError, match=r"a\\nb is a binary file"):
        await read(Workspace([workspace]), "a\nb")


# -- writing -----------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), st.booleans())
async def test_writing_unchanged_text_keeps_the_bytes(
    tmp_path_factory: pytest.TempPathFactory, text: str, bom: bool
) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    before = (b"\xef\xbb\xbf" if bom else b"") + text.encode()
    (folder / "a.txt").write_bytes(before)
    files = Workspace([folder])
    seen = await read(files, "a.txt")
    assert seen is not None
    await write(files, "a.txt", seen, seen)
    assert (folder / "a.txt").read_bytes() == before


async def test_write_preserves_byte_order_mark_and_mode(workspace: Path) -> None:
    path = workspace / "run.sh"
    path.write_bytes(b"\xef\xbb\xbfone\r\n")
    path.chmod(0o754)
    await write(Workspace([workspace]), "run.sh", "two\r\n", "one\r\n")
    assert path.read_bytes() == b"\xef\xbb\xbftwo\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o754


async def test_other_hard_link_keeps_its_text(workspace: Path) -> None:
    (workspace / "shared").write_text("old")
    os.link(workspace / "shared", workspace / "mine")
    await write(Workspace([workspace]), "mine", "new", "old")
    assert ((workspace / "shared").read_text(), (workspace / "mine").read_text()) == ("old", "new")


async def test_file_without_the_expected_text_is_left_unchanged(workspace: Path) -> None:
    files = Workspace([workspace])
    (workspace / "a.txt").write_text("of somebody else")
    for expected in ("as it was read", None):
        with pytest.raises(ToolError, match="has changed since"):
            await write(files, "a.txt", "mine", expected)
    with pytest.raises(ToolError, match="has changed since"):
        await write(files, "gone.txt", "mine", "as it was read")
    assert (workspace / "a.txt").read_text() == "of somebody else"
    assert [entry.name for entry in workspace.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("expected", ["old", None])
async def test_concurrent_change_right_before_the_replacement_is_kept(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, expected: str | None
) -> None:
    path = workspace / "a.txt"
    if expected:
        path.write_text(expected)

    def interfere(_: int) -> None:
        path.write_text("of somebody else")

    monkeypatch.setattr(os, "fsync", interfere)
    with pytest.raises(ToolError, match=r"changed during the write|exists now"):
        await write(Workspace([workspace]), "a.txt", "mine", expected)
    assert path.read_text() == "of somebody else"
    assert [entry.name for entry in workspace.iterdir()] == ["a.txt"]


@pytest.mark.requirement("X2")
async def test_failed_write_leaves_no_trace(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    (workspace / "a.txt").write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ToolError, match="the disk is full"):
        await write(Workspace([workspace]), "a.txt", "new", "old")
    assert [(entry.name, entry.read_text()) for entry in workspace.iterdir()] == [("a.txt", "old")]


async def test_new_file_gets_its_folders_and_the_default_mode(workspace: Path) -> None:
    usual = workspace / "usual"
    usual.touch()
    await write(Workspace([workspace]), "some/new/a.txt", "text", None)
    made = workspace / "some/new/a.txt"
    assert made.read_text() == "text"
    assert (made.stat().st_mode, made.stat().st_nlink) == (usual.stat().st_mode, 1)


async def test_new_file_is_created_on_a_file_system_without_hard_links(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", unsupported)
    await write(Workspace([workspace]), "a.txt", "text", None)
    assert [(entry.name, entry.read_text()) for entry in workspace.iterdir()] == [("a.txt", "text")]


async def test_read_only_file_is_not_replaced(workspace: Path) -> None:
    (workspace / "a.txt").write_text("old")
    (workspace / "a.txt").chmod(0o444)
    with pytest.raises(ToolError, match="read-only"):
        await write(Workspace([workspace]), "a.txt", "new", "old")


async def test_text_that_cannot_be_encoded_is_rejected(workspace: Path) -> None:
    for text in ("\ud800", "\udc80"):
        with pytest.raises(ToolError, match="lone surrogates"):
            await write(Workspace([workspace]), "a.txt", text, None)
    with pytest.raises(ToolError, match="more than"):
        await write(Workspace([workspace]), "a.txt", "x" * (disk.MAX_BYTES + 1), None)


async def test_files_are_accessed_by_path_without_folder_descriptors(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_DIR_FD", False)
    files = Workspace([workspace])
    await write(files, "sub/a.txt", "one", None)
    await write(files, "sub/a.txt", "two", "one")
    assert await read(files, "sub/a.txt") == "two"
    place = await files.locate("sub", workspace)
    assert await files.entries(place) == [disk.Entry("a.txt")]
    async with files.working_directory(place) as cwd:
        assert cwd == str(workspace / "sub")


# -- open documents ----------------------------------------------------------------------------------------------


async def test_open_document_takes_precedence_over_the_disk(workspace: Path) -> None:
    documents = OpenDocuments()
    files = Workspace([workspace], documents)
    (workspace / "a.txt").write_text("saved")
    documents.show(workspace / "a.txt", "being typed")
    documents.show(workspace / "new.txt", "never saved")
    assert await read(files, "a.txt") == "being typed"
    assert await read(files, "new.txt") == "never saved"


async def test_open_document_is_changed_only_through_the_editor(workspace: Path) -> None:
    documents = OpenDocuments()
    files = Workspace([workspace], documents)
    (workspace / "a.txt").write_text("saved")
    documents.show(workspace / "a.txt", "typed", version=7)
    with pytest.raises(ToolError, match="changed in the editor"):
        await write(files, "a.txt", "mine", "saved")
    await write(files, "a.txt", "mine", "typed")
    assert documents.open[workspace / "a.txt"].text == "mine"
    assert (documents.applied, (workspace / "a.txt").read_text()) == (["worker"], "saved")


async def test_open_document_whose_file_was_moved_is_not_created_again(workspace: Path) -> None:
    documents = OpenDocuments()
    files = Workspace([workspace], documents)
    (workspace / "a.txt").write_text("old")
    documents.show(workspace / "a.txt", "old")
    documents.show(workspace / "new.txt", "never saved")
    place, new = await files.locate("a.txt", workspace), await files.locate("new.txt", workspace)
    (workspace / "a.txt").rename(workspace / "b.txt")
    with pytest.raises(ToolError, match="was removed from disk"):
        await files.write(place, "mine", expected="old", label="worker")
    assert documents.applied == []
    await files.write(new, "mine", expected="never saved", label="worker")
    assert documents.open[workspace / "new.txt"].text == "mine"


class Slow(OpenDocuments):
    """Applies an edit once ``go`` is set."""

    entered: anyio.Event
    go: anyio.Event

    async def apply(self, path: Path, new_text: str, *, version: int | None, label: str) -> None:
        self.entered.set()
        await self.go.wait()
        await super().apply(path, new_text, version=version, label=label)


@pytest.mark.parametrize("sessions", [1, 2])
async def test_second_of_two_concurrent_changes_sees_the_first(workspace: Path, sessions: int) -> None:
    documents = Slow()
    documents.entered, documents.go = anyio.Event(), anyio.Event()
    documents.show(workspace / "a.txt", "old")
    files = Workspace([workspace], documents)
    others = files if sessions == 1 else Workspace([workspace], documents)

    async def too_late() -> None:
        with pytest.raises(ToolError, match=r"changed in the editor since it was read; read it again"):
            await write(files, "a.txt", "second", "old")

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write, others, "a.txt", "first", "old")
            await documents.entered.wait()
            tasks.start_soon(too_late)
            documents.go.set()
    await write(files, "a.txt", "third", "first")
    assert await read(files, "a.txt") == "third"


async def test_change_that_never_ends_blocks_others_for_a_bounded_time(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deputy_agents.files.workspace.CHANGE_TIMEOUT", 0.01)
    documents = Slow()
    documents.entered, documents.go = anyio.Event(), anyio.Event()
    documents.show(workspace / "a.txt", "old")
    files = Workspace([workspace], documents)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write, files, "a.txt", "first", "old")
            await documents.entered.wait()
            with pytest.raises(ToolError, match="by another agent; try again later"):
                await write(files, "a.txt", "second", "old")
            documents.go.set()


# -- names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        *(
            ".env",
            ".env.local",
            "a/.ENV",
            "prod.env",
            "id_rsa",
            "keys/server.pem",
            "tls.key",
            ".netrc",
            ".npmrc",
            ".pypirc",
        ),
        *("credentials", ".ssh/config", ".aws/credentials", "deep/secrets.yaml", ".git-credentials"),
        *("id_work", "infra/terraform.tfstate", "kubeconfig", ".vault-token", ".git/config", ".azure/token", ".boto"),
    ],
)
async def test_files_with_secrets_are_recognized_by_name(path: str) -> None:
    assert is_secret(path)


@pytest.mark.parametrize(
    "path", [".env.example", "env.py", "environment.ts", "keyboard.py", "credentials.py", ".", "id_rsa.pub", "config"]
)
async def test_other_files_are_not_secrets(path: str) -> None:
    assert not is_secret(path)


async def test_secret_is_recognized_by_its_name_and_by_the_name_of_a_link(workspace: Path) -> None:
    (workspace / "plain.txt").touch()
    (workspace / ".env.real").touch()
    (workspace / ".env").symlink_to("plain.txt")
    (workspace / "harmless.txt").symlink_to(".env.real")
    files = Workspace([workspace])
    assert (await files.locate(".env", workspace)).secret
    assert (await files.locate("harmless.txt", workspace)).secret
    assert not (await files.locate("plain.txt", workspace)).secret


@pytest.mark.parametrize(
    ("path", "protected"),
    [
        *((".git/hooks/pre-commit", True), (".vscode/tasks.json", True), ("a/.GIT/config", True), (".envrc", True)),
        *(("AGENTS.md", True), ("src/CLAUDE.md", True), (".github/workflows/ci.yml", True), (".gitlab-ci.yml", True)),
        *((".devcontainer/devcontainer.json", True), ("all.code-workspace", True), (".zed/tasks.json", True)),
        *((".dir-locals.el", True), (".lazy.lua", True), (".yarnrc.yml", True), (".gitattributes", True)),
        *((".bashrc", True), (".cursor/mcp.json", True), ("docs/agents.md", True), ("github/workflows/a", False)),
        *((".gitignore", False), ("git/hooks", False), (".github/a.yml", False), (".", False)),
    ],
)
async def test_files_that_other_programs_run_are_protected(workspace: Path, path: str, protected: bool) -> None:
    assert (await Workspace([workspace]).locate(path, workspace)).protected is protected


async def test_path_outside_the_working_folder_is_shown_as_absolute(workspace: Path) -> None:
    files = Workspace([workspace])
    place = await files.locate("sub/a.txt", workspace)
    assert files.shown(place, workspace) == "sub/a.txt"
    assert files.shown(place, workspace / "other") == str(workspace / "sub/a.txt")
    assert files.shown(replace(place, path=workspace / "a\u202eb"), workspace) == "a\\u{202e}b"


async def test_different_texts_have_different_digests() -> None:
    assert digest("a") == digest("a") != digest("b")
    assert digest("\ud800")
