"""Serves VS Code with the extension on loopback, with a sample project in a temporary folder: `make try-vscode`."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from deputy_server.demo import sample
from tests.editors.vscode.vscode import vscode, with_extension

KEPT = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "DEPUTY_MODEL")


def main() -> None:
    """Runs until Ctrl+C. Without an API key in the environment the offline model answers."""
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    settings = {} if "ANTHROPIC_API_KEY" in environment else {"deputy.model": "offline"}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with TemporaryDirectory(prefix="deputy-try-") as folder:
        home = Path(folder)
        project = home / "sample"
        sample.write(project)
        with vscode(home, *with_extension(), settings=settings, environment=environment) as url:
            print(f"Open {url}/?folder={project} in a browser, then choose Deputy in the bar on the left.")
            print(f"Example prompt: {sample.REQUEST}\nPress Ctrl+C to stop.", flush=True)
            with suppress(KeyboardInterrupt):
                signal.pause()


if __name__ == "__main__":
    main()
