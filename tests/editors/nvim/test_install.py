"""The plugin from a plain repository URL, as plugin managers load it, and the installation of its server."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editors.nvim.neovim import ROOT, Neovim, neovim
from tests.support.package_index import UV, cache

COMMIT = ("-c", "user.name=Deputy", "-c", "user.email=deputy@localhost", "commit", "--quiet", "--message", "all")


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    ).stdout


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a repository with the files of this one."""
    source = tmp_path_factory.mktemp("repository")
    for name in git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
        if name and os.path.lexists(ROOT / name):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name, follow_symlinks=False)
    git(source, "init", "--quiet")
    git(source, "add", "--all")
    git(source, *COMMIT)
    return f"file://{source}"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Neovim's folder for data, in an environment without a server."""
    monkeypatch.setenv("UV_CACHE_DIR", cache())
    monkeypatch.delenv("HTTPS_PROXY", raising=False)  # leads nowhere, except for these tests
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "uv").symlink_to(UV)
    monkeypatch.setenv("PATH", f"{tools}:{os.defpath}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("DATA", "STATE", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    return tmp_path / "data" / "nvim"


# Each puts the clone where that plugin manager does, and loads it in the same way.
MANAGERS = {
    "runtimepath": ("plugins/deputy", "vim.opt.runtimepath:prepend(CLONE)\nvim.cmd.runtime('plugin/deputy.lua')"),
    "vim.pack": ("site/pack/core/opt/deputy", "vim.cmd.packadd('deputy')\nvim.cmd.helptags(CLONE .. '/doc')"),
    "mini.deps": ("site/pack/deps/opt/deputy", "vim.cmd.packadd('deputy')\nvim.cmd.helptags(CLONE .. '/doc')"),
    "lazy.nvim": (
        "lazy/deputy",
        """vim.cmd.helptags(CLONE .. '/doc')
        vim.opt.runtimepath:prepend(CLONE)
        for _, file in ipairs(vim.fn.glob(CLONE .. '/plugin/**/*.lua', true, true)) do vim.cmd.source(file) end
        -- `opts` calls setup() of the only module in lua/, or of the one with the name of the plugin.
        assert(vim.deep_equal(vim.fn.readdir(CLONE .. '/lua'), { 'deputy' }))""",
    ),
}


def load(nvim: Neovim, clone: Path, how: str) -> None:
    nvim.lua("vim.opt.packpath:prepend(vim.fn.stdpath('data') .. '/site')")  # --clean leaves it out
    nvim.lua(f"CLONE = ...\n{how}\nrequire('deputy').setup({{ settings = {{ model = 'offline' }} }})", str(clone))


@pytest.mark.requirement("N3")
@pytest.mark.parametrize("manager", MANAGERS)
def test_plugin_is_loaded_from_a_clone_of_the_repository(url: str, data: Path, workspace: Path, manager: str) -> None:
    place, how = MANAGERS[manager]
    clone = data / place
    git(workspace, "clone", "--quiet", "--depth=1", url, str(clone))
    with neovim(workspace, plugin=False) as nvim:
        load(nvim, clone, how)
        assert nvim.lua("return vim.fn.exists(':Deputy')") == 2
        assert nvim.lua("return require('deputy.bundle').repository()") == str(clone)
        if manager == "runtimepath":
            nvim.command("helptags ALL")
        nvim.command("help deputy-install")
        assert nvim.lua("return vim.bo.filetype") == "help"
        nvim.command("set filetype=deputy")  # ftplugin
        assert nvim.lua("return vim.treesitter.language.get_lang('deputy')") == "markdown"
    assert git(clone, "status", "--porcelain") == ""  # updates need an unchanged clone


@pytest.fixture
def bare(url: str, data: Path, workspace: Path) -> Iterator[Neovim]:
    """Neovim with the plugin from its repository, and without a server."""
    clone = data / "site/pack/core/opt/deputy"
    git(workspace, "clone", "--quiet", "--depth=1", url, str(clone))
    with neovim(workspace, plugin=False) as nvim:
        load(nvim, clone, MANAGERS["vim.pack"][1])
        nvim.lua("ASKED, NOTICED = {}, {}; vim.notify = function(words) table.insert(NOTICED, words) end")
        yield nvim


def answer(nvim: Neovim, choice: str) -> None:
    """Answers questions, and keeps their texts in ``ASKED``."""
    nvim.lua(
        """local choice = ...
        vim.ui.select = function(_, options, choose) table.insert(ASKED, options.prompt); choose(choice) end""",
        choice,
    )


def health(nvim: Neovim) -> str:
    nvim.command("checkhealth deputy")
    return "\n".join(nvim.lines())


@pytest.mark.requirement("N3")
@pytest.mark.timeout(300)
def test_first_prompt_offers_the_server_and_is_answered_once_it_is_installed(
    bare: Neovim, data: Path, workspace: Path
) -> None:
    assert "run `:DeputyInstall`" in health(bare)
    answer(bare, "Not now")
    bare.ask("hello")
    bare.until("#NOTICED == 1")
    assert bare.lua("return NOTICED") == ["Deputy: there is no server. `:DeputyInstall` installs it."]
    (asked,) = bare.lua("return ASKED")
    assert asked.startswith("No server was found. Install it? This downloads its packages from the Python package ")
    assert not (data / "deputy").exists()  # nothing was downloaded

    answer(bare, "Install")
    bare.ask("hello")
    bare.until_shown("installing the server, 2 of 4: Download and install the packages")
    bare.until("#NOTICED >= 2")
    assert bare.lua("return NOTICED[2]") == "Deputy: the server 0.1.0 is installed"
    bare.until_shown("offline model")
    assert "0.1.0, from `:DeputyInstall`: " in health(bare)

    requirements = data / "site/pack/core/opt/deputy/requirements.txt"
    before = requirements.read_text("utf-8")
    requirements.write_text(f"{before}# another version\n", "utf-8")  # as after an update of the plugin
    assert bare.lua("return require('deputy.server').find()") is None
    assert "The installed server belongs to an earlier version of the plugin." in health(bare)
    requirements.write_text(before, "utf-8")
    with neovim(workspace, plugin=False) as later:
        load(later, data / "site/pack/core/opt/deputy", MANAGERS["vim.pack"][1])
        later.ask("hello")
        later.until_shown("offline model")
    answer(bare, "Remove")
    bare.command("DeputyUninstall")
    bare.until("vim.list_contains(NOTICED, 'Deputy: the server was removed')")
    assert not (data / "deputy").exists()


def test_failed_installation_names_its_cause_and_the_command_that_tries_again(
    bare: Neovim, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = "import sys; print('error: dns error', file=sys.stderr); sys.exit(2)"
    tool = data.parents[1] / "tools" / "uv"
    tool.unlink()
    # It runs the installer, and fails in its first step.
    tool.write_text(f'#!/bin/sh\ncase $1 in venv) exec "{sys.executable}" -c "{broken}";; *) exec "{UV}" "$@";; esac\n')
    tool.chmod(0o755)
    answer(bare, "Install")
    bare.command("DeputyInstall")
    bare.until("#NOTICED == 1")
    assert bare.lua("return NOTICED[1]") == (
        "Deputy: the server is not installed. The package index cannot be reached. Check your network connection and "
        "proxy, then try again. `:DeputyInstall` tries again."
    )
    assert not (data / "deputy" / "server").exists()


@pytest.mark.parametrize(
    ("found", "fits"),
    [("0.2.1", True), ("0.2.4", True), ("0.2.0", False), ("0.3.0", False), ("1.2.1", False), ("none", False)],
)
def test_a_server_fits_if_its_interface_can_only_be_larger(nvim: Neovim, found: str, fits: bool) -> None:
    assert nvim.lua("return require('deputy.bundle').fits(...)", found, "0.2.1") is fits


def test_a_server_of_another_version_is_named_and_not_used(nvim: Neovim, tmp_path: Path) -> None:
    other = tmp_path / "deputy"
    other.write_text("#!/bin/sh\necho deputy 0.0.9\n", "utf-8")
    other.chmod(0o755)
    nvim.lua("vim.env.PATH = ...", f"{tmp_path}:{os.defpath}")
    nvim.lua("vim.env.VIRTUAL_ENV = nil; require('deputy.bundle').repository = function() return '/nowhere' end")
    assert f"{other} has version 0.0.9, which does not fit this plugin." in health(nvim)
    assert "run `:DeputyInstall`" in health(nvim)
