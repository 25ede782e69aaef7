"""The sandbox for commands: what it is made of on each system, and that a command never runs without it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from deputy_agents.domain.errors import ToolError
from deputy_agents.files.sensitive import PROTECTED_ENDINGS, PROTECTED_FOLDERS, PROTECTED_NAMES, PROTECTED_PATHS
from deputy_agents.shell import confinement, file_view, sandbox
from deputy_agents.shell.confinement import Confinement, Start
from deputy_agents.shell.file_view import Mount
from deputy_agents.shell.mount_kinds import HIDDEN, HIDDEN_FILE, READ_ONLY, SCRATCH, WRITABLE
from deputy_agents.shell.sandbox import Mechanism
from deputy_agents.shell.seatbelt import seatbelt_profile


@pytest.fixture(autouse=True)
def _forget_mechanism() -> Iterator[None]:
    forget = sandbox.mechanism.cache_clear
    forget()
    yield
    forget()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    for name in (".ssh", ".aws", ".config/gcloud", ".config/gh", ".config/nvim", ".local/share/keyrings", ".cache"):
        (folder / name).mkdir(parents=True)
    for name in (".netrc", ".npmrc", ".bash_history", ".gitconfig", "notes.txt"):
        (folder / name).touch()
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    for name in (".git/hooks", ".vscode", ".deputy", ".github/workflows", ".github/ISSUE_TEMPLATE", "src/.vscode"):
        (folder / name).mkdir(parents=True)
    for name in (".envrc", "AGENTS.md", "main.py", ".github/workflows/ci.yml"):
        (folder / name).touch()
    (folder / ".zed").symlink_to("src")
    return folder


def view(home: Path, *roots: Path, sockets: Path | None = None) -> dict[str, str]:
    mounts = file_view.file_view(roots, {"HOME": str(home), "XDG_STATE_HOME": str(home / ".local/state")})
    return {path: kind for kind, path in mounts}


def below(folder: Path, seen: dict[str, str], kind: str) -> set[str]:
    return {
        str(Path(path).relative_to(folder)) for path, k in seen.items() if k == kind and path.startswith(f"{folder}/")
    }


@pytest.fixture(autouse=True)
def _no_scratch_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The folders of these tests are beneath /tmp, where everything is hidden anyway."""
    monkeypatch.setattr(file_view, "_SCRATCH", ())
    monkeypatch.setattr(file_view, "_SOCKETS", tmp_path / "no sockets")


def test_secrets_of_the_home_folder_are_hidden(home: Path, root: Path) -> None:
    seen = view(home, root)
    assert below(home, seen, HIDDEN) == {".ssh", ".aws", ".config/gcloud", ".config/gh", ".local/share/keyrings"}
    assert below(home, seen, HIDDEN_FILE) == {".netrc", ".npmrc", ".bash_history"}


def test_protected_files_of_the_workspace_cannot_be_written(home: Path, root: Path) -> None:
    seen = view(home, root)
    assert seen[str(root)] == WRITABLE
    assert below(root, seen, READ_ONLY) == {".git", ".vscode", ".deputy", ".github/workflows", ".envrc", "AGENTS.md"}


@pytest.mark.requirement("Q3")
def test_private_command_sees_tools_of_the_home_folder_and_nothing_else_of_it(
    home: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_view, "_OF_PEOPLE", ())
    for name in ("documents", "bin", "miniconda3/bin"):
        (home / name).mkdir(parents=True)
    path = f"{home}/bin:{home}/miniconda3/bin:/usr/bin"
    environ = {"HOME": str(home), "PATH": path}
    (home / "ws").mkdir()
    roots, hidden = [home / "ws"], {str(home / "ws/.env"): HIDDEN_FILE}
    seen = {path: kind for kind, path in file_view.file_view(roots, environ, hidden=hidden)}
    assert seen[str(home)] == HIDDEN
    assert below(home, seen, READ_ONLY) == {".cache", ".config", ".gitconfig", ".local", "bin", "miniconda3"}
    assert below(home, seen, WRITABLE) == {"ws"}
    assert below(home, seen, HIDDEN) == {".config/gcloud", ".config/gh", ".local/share/keyrings"}
    assert below(home, seen, HIDDEN_FILE) == {"ws/.env"}


def test_what_is_in_a_folder_comes_after_the_folder(home: Path, root: Path) -> None:
    inside = home / ".ssh" / "work"
    inside.mkdir()
    paths = list(view(home, home, root, inside))
    assert paths.index(str(home)) < paths.index(str(home / ".ssh")) < paths.index(str(inside))
    assert view(home, home, inside) | {str(inside): WRITABLE} == view(home, home, inside)


def test_sockets_outside_the_workspace_are_hidden(home: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs, gone = root / "app.sock", home / ".cache" / "with blank.sock", home / "gone.sock"
    in_hidden = home / ".ssh" / "control"
    for path in (ours, theirs, in_hidden):
        path.touch()
    listing = home / "unix"
    rows = [
        f"0000: 00000002 00000000 00010000 0001 01 {n} {path}" for n, path in enumerate((ours, theirs, gone, in_hidden))
    ]
    listing.write_text(
        "\n".join(["Num RefCount", *rows, "0000: 00000002 00000000 00010000 0001 01 9 @abstract", "0: 1"])
    )
    monkeypatch.setattr(file_view, "_SOCKETS", listing)
    seen = view(home, root)
    assert seen[str(theirs)] == HIDDEN_FILE
    assert not {str(ours), str(gone), str(in_hidden)} & set(seen)


@pytest.mark.parametrize(("user", "kernel"), [(1000, ""), (0, "--ro-bind /proc/sys /proc/sys ")])
def test_bubblewrap_gets_no_rights_and_no_network(monkeypatch: pytest.MonkeyPatch, user: int, kernel: str) -> None:
    monkeypatch.setattr(sandbox.os, "geteuid", lambda: user)
    mounts = [Mount(HIDDEN, "/run"), Mount(SCRATCH, "/tmp"), Mount(WRITABLE, "/w"), Mount(READ_ONLY, "/w/.git")]
    monkeypatch.setattr(sandbox, "mechanism", lambda: Mechanism.BUBBLEWRAP)
    monkeypatch.setattr(sandbox, "file_view", lambda *_, **__: [*mounts, Mount(HIDDEN_FILE, "/home/u/.netrc")])
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(sandbox, "broker_problem", lambda: "not available")
    start = sandbox.sandboxed(["bash", "-c", "ls"], Confinement((Path("/w"),)), "/w/src", -1)
    assert start.mode == "plain"
    assert " ".join(start.command) == (
        f"/bin/bwrap --ro-bind / / --dev /dev --proc /proc {kernel}--tmpfs /run --tmpfs /tmp --bind /w /w "
        "--ro-bind /w/.git /w/.git --ro-bind /dev/null /home/u/.netrc --remount-ro /run "
        "--unshare-user-try --unshare-net --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try "
        "--cap-drop ALL --new-session --die-with-parent --chdir /w/src -- bash -c ls"
    )


def test_macos_profile_denies_what_the_last_matching_rule_names() -> None:
    mounts = [Mount(SCRATCH, "/private/tmp"), Mount(WRITABLE, '/w/a "b"\\c'), Mount(READ_ONLY, "/w/.git")]
    profile = seatbelt_profile([*mounts, Mount(HIDDEN, "/u/.ssh"), Mount(HIDDEN_FILE, "/u/.netrc")])
    assert profile.startswith("(version 1)\n(allow default)\n(deny network*)\n")
    assert profile.index("(deny file-write*)\n") < profile.index("(allow file-read* file-write* (subpath")
    assert [line for line in profile.splitlines() if "regex" not in line and "metadata" not in line][-6:] == [
        '(allow file-read* file-write* (subpath "/private/tmp"))',
        r'(allow file-read* file-write* (subpath "/w/a \"b\"\\c"))',
        '(allow file-read* (subpath "/w/.git"))',
        '(deny file-write* (subpath "/w/.git"))',
        '(deny file-read* file-write* (subpath "/u/.ssh"))',
        '(deny file-read* file-write* (literal "/u/.netrc"))',
    ]


@pytest.mark.requirement("Q3")
def test_macos_profile_covers_protected_names_that_do_not_exist() -> None:
    profile = seatbelt_profile([Mount(WRITABLE, "/w.x"), Mount(HIDDEN_FILE, "/w.x/conf/deep/.env")])
    patterns = re.findall(r'\(deny (file-write\S*)(?: file-write-unlink)? \(regex #"(.*)"\)\)', profile)
    denied = [re.compile(pattern) for kind, pattern in patterns if kind == "file-write*"]
    names = [*PROTECTED_NAMES, *PROTECTED_FOLDERS, *(f"{folder}/new" for folder in PROTECTED_FOLDERS)]
    names += ["/".join(pair) for pair in PROTECTED_PATHS] + [f"a{ending}" for ending in PROTECTED_ENDINGS]
    for name in names:
        for path in (f"/w.x/{name}", f"/w.x/a/b/{name.upper()}"):
            assert any(pattern.search(path) for pattern in denied), path
    for path in ("/w.x/main.py", "/w.x/.github/ISSUE_TEMPLATE/a.md", "/w.x/git/x", "/w-x/.git", "/w.x/agents.mdx"):
        assert not any(pattern.search(path) for pattern in denied), path
    created = [re.compile(pattern) for kind, pattern in patterns if kind == "file-write-create"]
    assert any(pattern.search("/w.x/.github") for pattern in created)
    for folder in ("/w.x/conf", "/w.x/conf/deep"):
        assert f'(deny file-write-unlink (literal "{folder}"))' in profile


@pytest.mark.parametrize(
    ("platform", "bubblewrap", "namespaces", "expected"),
    [
        ("linux", None, None, Mechanism.BUBBLEWRAP),
        ("linux", "not installed", None, Mechanism.NAMESPACES),
        ("linux", "not installed", "not allowed", None),
        ("win32", None, None, None),
    ],
)
def test_without_a_mechanism_the_command_does_not_run(
    platform: str,
    bubblewrap: str | None,
    namespaces: str | None,
    expected: Mechanism | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox.sys, "platform", platform)
    monkeypatch.setattr(sandbox, "_bubblewrap_problem", lambda: bubblewrap)
    monkeypatch.setattr(sandbox, "probe", lambda start: namespaces)
    if expected is not None:
        assert sandbox.mechanism() is expected
    else:
        with pytest.raises(ToolError, match="or turn the setting off"):
            sandbox.sandboxed(["ls"], Confinement(()), "/w", -1)


def test_a_bubblewrap_that_fails_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho setting up uid map: Permission denied >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: str(broken))
    monkeypatch.setattr(sandbox.sys, "platform", "linux")
    monkeypatch.setattr(sandbox, "probe", lambda start: None)
    assert sandbox.mechanism() is Mechanism.NAMESPACES


def test_commands_run_plain_where_they_cannot_be_isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "isolation_problem", lambda: "not allowed")
    assert confinement.plan_program(["ls"], isolated=True) == Start(("ls",), "plain")
    monkeypatch.setattr(confinement, "isolation_problem", lambda: None)
    assert confinement.plan_program(["ls"], isolated=True) == Start(("ls",), "isolated")
    assert confinement.plan_program(["ls"], isolated=False) == Start(("ls",), "plain")
