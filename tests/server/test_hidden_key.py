"""The key in the environment of the server and of the editor, and commands that look for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.messages_api import messages_api
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import serving

NAME, SECRET = "DEPUTY_TEST_NOTE", "known-to-the-editor-only"
"""Not the name of a key, because the values of those are removed from results."""
LOOKS = (
    "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep DEPUTY_TEST",
    "p=$$; while [ $p -gt 1 ]; do p=$(cut -d' ' -f4 /proc/$p/stat); cat /proc/$p/environ | tr '\\0' '\\n'; done",
    "grep -azo 'DEPUTY_TEST_NOTE=[a-z-]*' /proc/[0-9]*/environ",
)


@pytest.mark.asyncio
async def test_command_finds_the_key_neither_in_the_server_nor_in_the_editor(workspace: Path) -> None:
    def script(body: Json, number: int) -> Play:
        return calls(*(call("shell", command=text) for text in LOOKS)) if number == 0 else say("done")

    with subprocess.Popen(["sleep", "600"], env={NAME: SECRET}) as editor:  # noqa: ASYNC220 - it does not wait
        try:
            async with (
                messages_api(script) as api,
                serving(env={"ANTHROPIC_API_KEY": "k", NAME: SECRET}) as client,
            ):
                settings = {"model": "m", "baseUrl": api.url, "permissionMode": "bypass"}
                await client.initialize(workspace, initializationOptions=settings)
                session_id, _ = await client.session()
                assert (await client.prompt(session_id, "look"))["stopReason"] == "end_turn"
                results = str(api.bodies[-1]["messages"][-1])
                assert results.count("tool_result") == len(LOOKS)
                assert SECRET not in results
                assert await client.shut_down() == 0
        finally:
            editor.kill()


@pytest.mark.parametrize("arguments", [["serve", "--help"], ["doctor", "--help"], ["run", "--help"]])
def test_memory_is_hidden_from_the_start(arguments: list[str]) -> None:
    code = f"""
import ctypes, sys
sys.argv = ["deputy", *{arguments}]
from deputy_server.__main__ import main
try:
    main()
except SystemExit:
    print("dumpable:", ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ))
    assert ran.stdout.endswith("dumpable: 0\n")
