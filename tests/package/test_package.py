"""The wheel and the source distribution: what is in them, what the index shows, and that the wheel works alone.

Every Python of this machine gets an environment of its own with the wheel and the pinned versions of what it needs.
"""

import asyncio
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from uv import find_uv_bin

from deputy_protocol.version import VERSION
from tests.package.interpreters import MINORS, others
from tests.support.acp import AcpClient
from tests.support.rpc import PATIENCE, RpcClient, attached

ROOT = Path(__file__).parents[2]
PACKAGES = ("protocol/deputy_protocol", "agents/deputy_agents", "server/deputy_server")
COMMIT_TIME = "1767225600"
USER = dict(os.environ)
"""The environment of the user, who may have configured an index and a cache for uv."""
PATIENCE_FOR_DOWNLOADS = 300
PATIENCE_FOR_COMMANDS = 120
"""The first start compiles all modules."""
OTHERS = others()


@dataclass(frozen=True)
class Built:
    """The wheel and the source distribution, and a second build of each: the wheel from the source distribution."""

    wheel: Path
    sdist: Path
    again: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    first, unpacked, again = map(tmp_path_factory.mktemp, ("first", "unpacked", "again"))
    _build(ROOT, first, "sdist", "wheel")
    (sdist,), (wheel,) = first.glob("*.tar.gz"), first.glob("*.whl")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    _build(ROOT, again, "sdist")
    _build(next(unpacked.iterdir()), again, "wheel")
    return Built(wheel, sdist, again)


def _build(source: Path, out: Path, *targets: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    options = [word for target in targets for word in ("-t", target)]
    environment = USER | {"SOURCE_DATE_EPOCH": COMMIT_TIME}
    subprocess.run([*command, *options], cwd=source, env=environment, check=True, timeout=PATIENCE)


@pytest.fixture(scope="module")
def metadata(built: Built) -> Message:
    with zipfile.ZipFile(built.wheel) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return BytesParser().parsebytes(wheel.read(name))


def _tracked(*folders: str) -> set[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=PATIENCE)
    return {name for name in listing.stdout.decode().split("\0") if name and (ROOT / name).is_file()}


@pytest.mark.requirement("L1")
def test_wheel_contains_every_file_of_the_packages(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == {name.partition("/")[2] for name in _tracked(*PACKAGES)}


@pytest.mark.requirement("L1")
def test_second_build_makes_the_same_files_byte_for_byte(built: Built) -> None:
    assert (built.again / built.wheel.name).read_bytes() == built.wheel.read_bytes()
    assert (built.again / built.sdist.name).read_bytes() == built.sdist.read_bytes()


def test_index_accepts_both_files(built: Built) -> None:
    check = [sys.executable, "-m", "twine", "check", "--strict", str(built.wheel), str(built.sdist)]
    ran = subprocess.run(check, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stdout


@pytest.mark.requirement("L2")
def test_version_is_stated_once(metadata: Message) -> None:
    files = {name: (ROOT / name).read_text("utf-8") for name in _tracked() if name.endswith((".toml", ".py", ".lua"))}
    states = re.compile(rf"""^.*(version|VERSION).*=.*["']{re.escape(VERSION)}["']""", re.MULTILINE)
    assert {name for name, text in files.items() if states.search(text)} == {"protocol/deputy_protocol/version.py"}
    assert metadata["Version"] == VERSION


def test_description_leads_to_files_of_its_version(metadata: Message) -> None:
    source = next(url.split(", ")[1] for url in metadata.get_all("Project-URL", []) if url.startswith("Source, "))
    raw = source.replace("github.com", "raw.githubusercontent.com")
    text = str(metadata.get_payload())
    targets = re.findall(r"\]\(([^)]+)\)", text)
    paths = {
        target.removeprefix(f"{base}/v{VERSION}/")
        for target in targets
        for base in (f"{source}/blob", raw)
        if target.startswith(f"{base}/v{VERSION}/")
    }
    assert paths, text
    assert [path for path in paths if not (ROOT / path.partition("#")[0]).exists()] == []
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    assert re.findall(r"!\[[^\]]*\]\((?!https://raw\.)", text) == []


def test_classifiers_name_the_supported_systems_and_versions(metadata: Message) -> None:
    names = metadata.get_all("Classifier", [])
    assert [name for name in names if re.search(r":: 3\.\d+$", name)] == [
        f"Programming Language :: Python :: 3.{minor}" for minor in MINORS
    ]
    systems = {name.rpartition(":: ")[2] for name in names if name.startswith("Operating System")}
    assert systems == {"Linux", "MacOS"}


def test_every_extra_is_documented_and_used(metadata: Message) -> None:
    page = (ROOT / "docs/install.md").read_text("utf-8")
    code = "".join((ROOT / name).read_text("utf-8") for name in _tracked(*PACKAGES) if name.endswith(".py"))
    extras = metadata.get_all("Provides-Extra", [])
    assert extras == sorted(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    assert [extra for extra in extras if f"| `{extra}` |" not in page] == []
    assert [extra for extra in extras if f"deputy-ls[{extra}]" not in code + page] == []


@pytest.mark.requirement("L4")
@pytest.mark.parametrize("name", ["deputy", "deputy-ls"])
def test_command_refuses_to_start_on_windows(name: str, tmp_path: Path) -> None:
    code = "import sys; sys.platform = 'win32'; from deputy_server.__main__ import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", code, name], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=PATIENCE
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("Deputy does not run on Windows itself.")
    assert "WSL" in ran.stderr


class Environment:
    """An environment with nothing but the wheel, for a user with an empty home folder."""

    def __init__(self, python: Path, wheel: Path, folder: Path) -> None:
        self.bin = folder / "venv/bin"
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        (self.workspace / "a.py").write_text('def retry():\n    return "colour"\n')
        uv, pinned = find_uv_bin(), ROOT / "requirements.txt"
        self._uv(uv, "venv", "--python", str(python), str(self.bin.parent))
        target = ("--python", str(self.bin / "python"))
        self._uv(uv, "pip", "install", *target, "--constraint", str(pinned), "--only-binary", ":all:", str(wheel))
        home = folder / "home"
        home.mkdir()
        self.env: Mapping[str, str] = {
            **{name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")},
            "HOME": str(home),
            "DEPUTY_STATE": str(folder / "state"),
            "PYTHONWARNINGS": "error",
        }

    def _uv(self, *command: str) -> None:
        ran = subprocess.run(
            [*command, "--quiet"], env=USER, capture_output=True, text=True, check=False, timeout=PATIENCE_FOR_DOWNLOADS
        )
        assert ran.returncode == 0, ran.stderr

    def run(self, command: str, *arguments: str) -> str:
        ran = subprocess.run(
            [self.bin / command, *arguments],
            cwd=self.workspace,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_FOR_COMMANDS,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            self.bin / "deputy", *arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=self.env, cwd=self.workspace
        )


async def _prove(environment: Environment) -> None:
    """Use the installed commands as a user does: demo, run, serve, acp."""
    for name in ("deputy", "deputy-ls"):
        assert environment.run(name, "--version") == f"deputy {VERSION}\n"
    assert "hello.py: changed, as approved" in environment.run("deputy", "demo", "--no-input")
    assert "a.py" in environment.run("deputy", "run", "where is retry defined?")
    async with attached(RpcClient(await environment.start("serve", "--stdio"))) as editor:
        answer = await editor.initialize(environment.workspace)
        assert answer["serverInfo"] == {"name": "deputy", "version": VERSION}
        assert await editor.shut_down() == 0
    async with attached(AcpClient(await environment.start("acp"))) as client:
        assert (await client.greet())["agentInfo"]["version"] == VERSION
        client.close_input()
        assert await client.exit_code() == 0


@pytest.mark.requirement("L1")
@pytest.mark.timeout(PATIENCE_FOR_DOWNLOADS)
@pytest.mark.asyncio
async def test_wheel_works_in_a_fresh_environment(built: Built) -> None:
    with TemporaryDirectory(prefix="deputy-wheel-") as folder:
        await _prove(Environment(Path(sys.executable), built.wheel, Path(folder)))


@pytest.mark.requirement("L1")
@pytest.mark.interpreters
@pytest.mark.timeout(PATIENCE_FOR_DOWNLOADS)
@pytest.mark.asyncio
@pytest.mark.parametrize("version", OTHERS)
async def test_wheel_works_on_every_python_of_this_machine(version: str, built: Built) -> None:
    with TemporaryDirectory(prefix="deputy-wheel-") as folder:
        await _prove(Environment(OTHERS[version], built.wheel, Path(folder)))
