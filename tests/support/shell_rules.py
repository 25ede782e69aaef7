"""Decisions about lines of bash under rules, in a small workspace."""

from pathlib import Path

from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.permission.decide import Policy, decide_all
from deputy_agents.permission.rule_patterns import lasting_rules, parse_rule
from deputy_agents.shell.access import required_access

ALLOW, ASK, DENY = DecisionKind.ALLOW, DecisionKind.ASK, DecisionKind.DENY


def sample_workspace(folder: Path) -> Path:
    """A folder with files, secrets, and links to secrets and out of the workspace."""
    root = folder.resolve() / "root"
    for name in ("src", "sub/deep", "docs"):
        (root / name).mkdir(parents=True)
    for name in ("a.txt", "src/a.py", ".env", "sub/key.pem", "docs/x.md"):
        (root / name).write_text("x\n")
    (root / "notes").symlink_to(".env")
    (root / "docs" / "hosts").symlink_to("/etc/hosts")
    (root / "out").symlink_to("/etc")
    (root / "keys").symlink_to("sub")
    return root


def decision(
    root: Path, line: str, *rules: Rule, folder: str = ".", mode: PermissionMode = PermissionMode.DEFAULT
) -> DecisionKind:
    needed = required_access(line, (root / folder).resolve(), root, (root,))
    return decide_all(Policy(mode, rules), needed.access).kind


def lasting(root: Path, line: str, folder: str = ".") -> tuple[Rule, ...]:
    """The rules of the answer "Always allow"."""
    needed = required_access(line, (root / folder).resolve(), root, (root,))
    return lasting_rules(needed.access, ALLOW)


def allow(*patterns: str) -> tuple[Rule, ...]:
    return tuple(parse_rule(f"shell({pattern})", ALLOW) for pattern in patterns)
