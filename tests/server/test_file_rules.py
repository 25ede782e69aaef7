"""Attacks on rules about files over the wire: no tool reads past them, and no broad rule covers protected files."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.messages_api import messages_api
from tests.support.model_replies import Block, Json, Play, call, calls, say
from tests.support.rpc import serving

pytestmark = pytest.mark.asyncio

ASK = "deputy/permission/request"
CANARY = "canary-7431"


def deny(request: Json) -> Json:
    option = next(option for option in request["options"] if option["kind"] == "reject_once")
    return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}


def skill(file: str) -> Block:
    return call("skill", json_text=json.dumps({"name": "x", "file": file}))


async def attack(
    workspace: Path, tries: Sequence[Block], rules: list[Json], mode: str = "default", env: dict[str, str] | None = None
) -> tuple[list[Json], str]:
    """Let an agent try these calls, one after the other, and deny what is asked. Return the requests, and what the
    model has read."""

    def play(body: Json, _: int) -> Play:
        done = sum(message["role"] == "assistant" for message in body["messages"])
        return calls(tries[done]) if done < len(tries) else say("done")

    asked: list[Json] = []

    def answer(request: Json) -> Json:
        asked.append(request)
        return deny(request)

    async with messages_api(play) as api, serving(env={"ANTHROPIC_API_KEY": "k", **(env or {})}) as client:
        options = {"model": "m", "baseUrl": api.url, "trusted": True, "permissions": {"rules": rules}}
        await client.initialize(workspace, initializationOptions=options)
        client.handlers[ASK] = answer
        session_id, _ = await client.session(permissionMode=mode)
        await client.prompt(session_id, "go")
        assert await client.shut_down() == 0
        assert len(api.bodies) >= len(tries)
        return asked, json.dumps(api.bodies)


@pytest.fixture
def linked_skill(workspace: Path) -> Path:
    """A skill whose folder is a link to one with a secret."""
    config = workspace / "config"
    (config / "deep").mkdir(parents=True)
    (config / "SKILL.md").write_text("---\nname: x\ndescription: Does x.\n---\nRead notes.txt.\n")
    (config / ".env").write_text(f"KEY={CANARY}\n")
    (config / "deep/key.pem").write_text(CANARY)
    (config / "notes.txt").write_text(f"note {CANARY}\n")
    (config / "alias.txt").symlink_to(".env")
    (workspace / ".deputy/skills").mkdir(parents=True)
    (workspace / ".deputy/skills/x").symlink_to("../../config")
    return config


@pytest.mark.parametrize("file", [".env", "./deep/../.env", "alias.txt", "deep/key.pem"])
async def test_skill_asks_before_it_reads_a_secret_behind_a_linked_folder(
    linked_skill: Path, workspace: Path, file: str
) -> None:
    asked, read = await attack(workspace, [skill(file)], [])
    assert len(asked) == 1
    assert CANARY not in read


@pytest.mark.parametrize("pattern", ["config/**", ".deputy/skills/**", "**/notes.txt", "config/notes.txt"])
@pytest.mark.parametrize("mode", ["default", "bypass"])
async def test_rule_that_denies_a_path_applies_to_skills_by_the_real_and_the_linked_path(
    linked_skill: Path, workspace: Path, pattern: str, mode: str
) -> None:
    (linked_skill / "SKILL.md").rename(linked_skill / "SKILL.tmp")
    (workspace / "SKILL.md").write_text("---\nname: x\ndescription: Does x.\n---\nRead notes.txt.\n")
    (linked_skill / "SKILL.md").symlink_to("../SKILL.md")
    rule = {"tool": "*", "pattern": pattern, "action": "deny"}
    asked, read = await attack(workspace, [skill("notes.txt")], [rule], mode)
    assert asked == []
    assert CANARY not in read


@pytest.mark.parametrize("tool", ["*", "read_file"])
async def test_rule_that_denies_reading_applies_to_every_tool_that_reads(workspace: Path, tool: str) -> None:
    (workspace / "vault").mkdir()
    (workspace / "vault/x.txt").write_text(f"needle {CANARY}\n")
    (workspace / "link.txt").symlink_to("vault/x.txt")
    (workspace / "folder").symlink_to("vault")
    (workspace / "AGENTS.md").write_text("Be kind.\n@vault/more.md\n@vault-link.md\n")
    (workspace / "vault/more.md").write_text(f"more {CANARY}\n")
    (workspace / "vault-link.md").symlink_to("vault/x.txt")
    tries = [
        call("read_file", path="vault/x.txt"),
        call("read_file", path="link.txt"),
        call("read_file", path="folder/x.txt"),
        call("grep", pattern="needle", path="vault/x.txt"),
        call("grep", pattern="needle", path="link.txt"),
        call("grep", pattern="needle", path="folder"),
        call("grep", pattern="needle"),
        call("shell", command="cat < vault/x.txt"),
        call("shell", command="cat < folder/x.txt"),
    ]
    rule = {"tool": tool, "pattern": "vault/**", "action": "deny"}
    asked, read = await attack(workspace, tries, [rule, {"tool": "shell", "action": "allow"}], "bypass")
    assert asked == []
    assert CANARY not in read
    assert "Be kind." in read


@pytest.mark.parametrize("pattern", ["link.txt", "folder/**"])
async def test_rule_that_denies_a_link_applies_although_the_real_path_is_allowed(workspace: Path, pattern: str) -> None:
    (workspace / "real").mkdir()
    (workspace / "real/x.txt").write_text(f"needle {CANARY}\n")
    (workspace / "link.txt").symlink_to("folder/x.txt")
    (workspace / "folder").symlink_to("real")
    tries = [
        call("read_file", path="link.txt"),
        call("grep", pattern="needle", path="link.txt"),
        call("shell", command="cat < link.txt"),
    ]
    asked, read = await attack(workspace, tries, [{"tool": "*", "pattern": pattern, "action": "deny"}], "bypass")
    assert asked == []
    assert CANARY not in read


PROTECTED = [".git/hooks/pre-commit", "AGENTS.md", ".github/workflows/ci.yml", ".vscode/tasks.json", "src/CLAUDE.md"]
OWN = [".deputy/settings.json", ".mcp.json", ".deputy/skills/x/SKILL.md", ".claude/agents/x.md", "a/.deputy/x"]
BROAD: list[Json] = [
    {"tool": "*"},
    {"tool": "write_file"},
    {"tool": "write_file", "pattern": "**"},
    {"tool": "write_file", "pattern": "*/**"},
    {"tool": "write_file", "pattern": "**/*"},
    {"tool": "write_file", "pattern": ".*/**"},
    {"tool": "write_file", "pattern": "src/**"},
    {"tool": "shell"},
]


@pytest.mark.parametrize("mode", ["default", "accept_edits"])
async def test_broad_rules_cover_no_protected_file(workspace: Path, mode: str) -> None:
    rules = [{**rule, "action": "allow"} for rule in BROAD]
    tries = [call("write_file", path=path, content="x") for path in (*PROTECTED, *OWN)]
    tries += [call("shell", command=f"echo x > {path}") for path in (*PROTECTED, *OWN)]
    asked, _ = await attack(workspace, tries, rules, mode)
    assert len(asked) == len(tries)
    assert not any((workspace / path).exists() for path in (*PROTECTED, *OWN))


async def test_own_configuration_asks_in_bypass_under_every_rule_and_offers_no_lasting_approval(
    workspace: Path, tmp_path: Path
) -> None:
    home, state = tmp_path / "home", tmp_path / "state"
    (home / ".deputy").mkdir(parents=True)
    (workspace / "harmless.txt").symlink_to(".deputy/settings.json")
    (workspace / ".deputy").mkdir()
    rules = [{**rule, "action": "allow"} for rule in BROAD]
    rules += [{"tool": "*", "pattern": pattern, "action": "allow"} for pattern in (*OWN, ".deputy/**", ".mcp.json")]
    tries = [call("write_file", path=path, content="x") for path in (*OWN, "harmless.txt", ".DEPUTY/settings.json")]
    outside = [home / ".deputy/settings.json", home / ".mcp.json", state / "mcp.json"]
    tries += [call("shell", command=f"echo x > {path}") for path in (*OWN, "harmless.txt", *outside)]
    env = {"HOME": str(home), "DEPUTY_STATE": str(state), "PATH": os.environ["PATH"]}
    asked, _ = await attack(workspace, tries, rules, "bypass", env)
    assert len(asked) == len(tries)
    for request in asked:
        assert [option["kind"] for option in request["options"]] == ["allow_once", "reject_once", "reject_always"]
        assert "Deputy's own configuration" in request["reason"]
    assert not any(path.exists() for path in outside[:2])


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (".github/**", ".github/workflows/ci.yml"),
        (".github/workflows/*.yml", ".github/workflows/ci.yml"),
        ("**/AGENTS.md", "src/AGENTS.md"),
        ("AGENTS.md", "AGENTS.md"),
        (".vscode/**", ".vscode/tasks.json"),
        ("**/.git/**", ".git/hooks/pre-commit"),
        ("*.code-workspace", "all.code-workspace"),
    ],
)
async def test_rule_that_names_a_protected_file_covers_it(workspace: Path, pattern: str, path: str) -> None:
    rules = [{"tool": "write_file", "pattern": pattern, "action": "allow"}]
    asked, _ = await attack(workspace, [call("write_file", path=path, content="x")], rules)
    assert asked == []
    assert (workspace / path).read_text() == "x"
