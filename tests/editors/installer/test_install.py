"""The program that installs the server for editors, with real environments and a package index on loopback."""

import functools
import hashlib
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
INSTALLER = ROOT / "editors" / "installer" / "install.py"
UV = str(Path(sys.executable).parent / "uv")
PATIENCE = 60
CLOSED = "http://127.0.0.1:9/simple/"
"""An index that cannot be reached."""

TOOLS = pytest.mark.parametrize("options", [["--uv", UV], []], ids=["uv", "pip"])


def make_wheel(folder: Path, name: str, files: dict[str, str], entry_points: str = "") -> Path:
    """A wheel with those files, of version 1.0."""
    info = f"{name}-1.0.dist-info"
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": entry_points,
    }
    contents[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*contents, f"{info}/RECORD"])
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in contents.items():
            archive.writestr(path, text)
    return wheel


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """The address of a package index with one package, ``helper``."""
    wheel = make_wheel(tmp_path / "index" / "simple" / "helper", "helper", {"helper.py": "VERSION = '1.0'\n"})
    page = f'<!DOCTYPE html><html><body><a href="{wheel.name}">{wheel.name}</a></body></html>'
    (wheel.parent / "index.html").write_text(page, "utf-8")
    handler = functools.partial(_Quiet, directory=str(tmp_path / "index"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/simple/"
        server.shutdown()
        thread.join()


class Place:
    """What an editor passes: requirements of ``helper``, and a server that needs it."""

    def __init__(self, folder: Path, index: str) -> None:
        self.folder = folder
        self.into = folder / "data" / "server"
        self.requirements = folder / "requirements.txt"
        helper = (folder / "index" / "simple" / "helper").glob("*.whl")
        self.pin(hashlib.sha256(next(helper).read_bytes()).hexdigest())
        code = "import helper\n\ndef main():\n    print('deputy', helper.VERSION)\n"
        self.package = make_wheel(
            folder, "deputy_server", {"deputy_server.py": code}, "[console_scripts]\ndeputy = deputy_server:main\n"
        )
        self.index = index

    def pin(self, digest: str) -> None:
        self.requirements.write_text(f"helper==1.0 --hash=sha256:{digest}\n", "utf-8")

    @contextmanager
    def start(self, *options: str) -> Iterator["subprocess.Popen[str]"]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
        settings = {
            "PIP_INDEX_URL": self.index,
            "PIP_RETRIES": "1",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_CACHE_DIR": "1",
            "UV_DEFAULT_INDEX": self.index,
            "UV_HTTP_RETRIES": "0",
            "UV_CACHE_DIR": str(self.folder / "cache"),
            "VIRTUAL_ENV": str(self.folder / "another"),
            "PYTHONPATH": str(self.folder),
        }
        command = [sys.executable, "-I", str(INSTALLER), "--into", str(self.into)]
        command += ["--requirements", str(self.requirements), "--package", str(self.package), *options]
        with subprocess.Popen(
            command, env=kept | settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def run(self, *options: str) -> list[dict[str, object]]:
        """All messages of an installation."""
        with self.start(*options) as process:
            assert process.stdout is not None
            messages = [json.loads(line) for line in process.stdout]
            assert process.wait(PATIENCE) == (0 if "ready" in messages[-1] else 1)
            return messages


@pytest.fixture
def place(tmp_path: Path, index: str) -> Place:
    return Place(tmp_path, index)


def left_in(place: Place) -> list[str]:
    return sorted(path.name for path in place.into.parent.iterdir())


@TOOLS
@pytest.mark.requirement("N1")
def test_server_is_installed_from_the_hashed_requirements_and_starts(place: Place, options: list[str]) -> None:
    messages = place.run(*options)
    assert messages[-1] == {"ready": "1.0"}
    assert [message["text"] for message in messages if "step" in message] == [
        "Create a Python environment",
        "Download and install the packages",
        "Install Deputy",
        "Check the server",
    ]
    started = subprocess.run([place.into / "bin" / "deputy"], capture_output=True, text=True, check=True, timeout=30)
    assert started.stdout == "deputy 1.0\n"
    state = json.loads((place.into / "install.json").read_text("utf-8"))
    assert state == {
        "state": "ready",
        "version": "1.0",
        "requirements": hashlib.sha256(place.requirements.read_bytes()).hexdigest(),
        "package": hashlib.sha256(place.package.read_bytes()).hexdigest(),
    }


@TOOLS
@pytest.mark.requirement("N1")
def test_package_with_another_hash_is_not_installed_and_nothing_is_left(place: Place, options: list[str]) -> None:
    place.pin("0" * 64)
    assert place.run(*options)[-1]["failed"] == "hash"
    assert left_in(place) == ["server.lock"]


def test_index_that_cannot_be_reached_is_the_named_cause(place: Place) -> None:
    place.index = CLOSED
    last = place.run("--uv", UV)[-1]
    assert last["failed"] == "offline"
    assert str(last["message"]).startswith("The package index cannot be reached.")
    assert left_in(place) == ["server.lock"]


def test_second_installation_replaces_the_first(place: Place) -> None:
    place.run("--uv", UV)
    (place.into / "broken").touch()
    assert place.run("--uv", UV)[-1] == {"ready": "1.0"}
    assert not (place.into / "broken").exists()


def test_folder_with_other_files_is_left_alone(place: Place) -> None:
    place.into.mkdir(parents=True)
    (place.into / "thesis.txt").touch()
    assert place.run("--uv", UV)[-1]["failed"] == "occupied"
    assert left_in(place) == ["server", "server.lock"]
    assert (place.into / "thesis.txt").exists()


@pytest.fixture
def slow(place: Place) -> Place:
    """An installation that ends only when it is cancelled."""
    hang = place.folder / "uv"
    hang.write_text("#!/bin/sh\nexec sleep 600\n", "utf-8")
    hang.chmod(0o755)
    return place


def test_end_of_input_cancels_and_removes_everything(slow: Place) -> None:
    with slow.start("--uv", str(slow.folder / "uv")) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["step"] == 1
        process.stdin.close()
        assert json.loads(process.stdout.readline())["failed"] == "cancelled"
        assert process.wait(PATIENCE) == 1
    assert left_in(slow) == ["server.lock"]


def test_two_installations_at_a_time_do_not_disturb_each_other(slow: Place) -> None:
    with slow.start("--uv", str(slow.folder / "uv")) as first:
        assert first.stdout is not None
        assert json.loads(first.stdout.readline())["step"] == 1
        assert slow.run("--uv", UV) == [
            {"failed": "busy", "message": "Another window installs the server. Wait until it has finished."}
        ]
        assert (slow.into / "install.json").exists()


@pytest.mark.parametrize(
    ("printed", "cause"),
    [
        ("error: invalid peer certificate: UnknownIssuer", "certificate"),
        ("The virtual environment was not created: ensurepip is not available.", "venv"),
        ("OSError: [Errno 28] No space left on device", "disk"),
        ("error: failed to create directory: Permission denied (os error 13)", "denied"),
        ("ERROR: No matching distribution found for helper==1.0", "missing"),
        ("WARNING: Retrying after connection broken by NewConnectionError: [Errno 111] Connection refused", "offline"),
        ("it broke", "other"),
    ],
)
def test_cause_of_a_failed_step_is_named(place: Place, printed: str, cause: str) -> None:
    uv = place.folder / "uv"
    uv.write_text(f"#!/bin/sh\necho '{printed}' >&2\nexit 2\n", "utf-8")
    uv.chmod(0o755)
    last = place.run("--uv", str(uv))[-1]
    assert last["failed"] == cause
    if cause == "other":
        assert last["message"] == "Create a Python environment: this failed. it broke"


def test_uv_is_downloaded_by_its_installer_into_the_given_folder(tmp_path: Path, index: str) -> None:
    (tmp_path / "index" / "install.sh").write_text(
        'echo "$UV_UNMANAGED_INSTALL" > "$UV_UNMANAGED_INSTALL/uv"\n', "utf-8"
    )
    folder = tmp_path / "own" / "uv"
    command = ["sh", str(INSTALLER.with_name("get-uv.sh")), str(folder)]
    address = {"DEPUTY_UV_INSTALLER": index.replace("simple/", "install.sh"), "no_proxy": "127.0.0.1"}
    subprocess.run(command, env={**os.environ, **address}, check=True, timeout=PATIENCE)
    assert [path.name for path in folder.iterdir()] == ["uv"]
    assert (folder / "uv").read_text("utf-8") == f"{folder}\n"
    closed = {**os.environ, **address, "DEPUTY_UV_INSTALLER": CLOSED}
    failed = subprocess.run(command, env=closed, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert failed.returncode != 0
    assert failed.stderr
