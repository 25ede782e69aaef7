"""What tests need that install packages from the index: uv, and its cache outside the isolated environment."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

UV = Path(sys.executable).parent / "uv"


def cache() -> str:
    """The user's own cache of uv, so that packages are downloaded once."""
    environment = os.environ | {"HOME": pwd.getpwuid(os.getuid()).pw_dir}
    command = [UV, "cache", "dir"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.strip()
