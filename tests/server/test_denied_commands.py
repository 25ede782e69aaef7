"""Deny rules over the wire, in the mode that allows everything else."""

import json
from pathlib import Path

import pytest

from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.shared_server import Deputies

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASK = "deputy/permission/request"
USUAL = (
    "echo deploy now",
    "i=0; while [ $i -lt 2 ]; do i=$((i+1)); done; echo $i",
    "for x in $(echo a b); do echo $x; done",
    "echo 'Fix std::map: deploy now'",
)
ATTACKS = (
    "./wrapper deploy now",
    "./wrapper -c 'deploy now'",
    "echo 'deploy now' | ./wrapper",
    "x='a[$(deploy now)]'; echo $((x))",
    "for x in 'a[$(deploy now)]'; do echo $((x)); done",
    "echo > /dev/null >& 'x$(deploy now)'",
    "sh -c '[[ a || deploy now ]]'",
    "cat <<E\nfoo \\\nE\n: '\nE\ndeploy now\n: '",
    "y=deploy; x='$($y now)'; echo \"${x@P}\"",
    "hash -p ./deploy d; d now",
    "git rebase -x'deploy now' main",
    "./wrapper -cdeploy now",
    "apt-get -oDPkg::Pre-Invoke::='deploy now' install x",
    "apt-get install x -o DPkg::Pre-Invoke::='./deploy now'",
    "apt install --option=APT::Update::Pre-Invoke::='deploy now' x",
)


def play(body: Json, index: int) -> Play:
    every = (*USUAL, *ATTACKS)
    return calls(call("shell", command=every[index])) if index < len(every) else say("done")


async def test_denied_command_runs_in_no_other_command_without_approval(deputy: Deputies, workspace: Path) -> None:
    rules = [{"tool": "shell", "pattern": "deploy *", "action": "deny"}]
    (workspace / ".deputy").mkdir()
    (workspace / ".deputy" / "settings.json").write_text(json.dumps({"permissions": {"rules": rules}}))
    asked: list[str] = []

    def answer(permission_request: Json) -> Json:
        asked.append(permission_request["input"]["command"])
        option = next(option for option in permission_request["options"] if option["kind"] == "reject_once")
        return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}

    async with deputy(play, workspace) as (client, _):
        client.handlers[ASK] = answer
        session_id, _ = await client.session(permissionMode="bypass")
        assert (await client.prompt(session_id, "go"))["stopReason"] == "end_turn"
    assert asked == list(ATTACKS)
