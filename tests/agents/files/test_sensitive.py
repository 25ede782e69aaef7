"""Files that are recognized by their names: secret, protected, and Deputy's own configuration."""

import re
from pathlib import Path

import pytest

from deputy_agents.files import sensitive
from deputy_agents.files.sensitive import is_own_configuration, is_secret, protected_part

DOCS = Path(__file__).parents[3] / "docs/permissions.md"


def variants(path: str) -> list[str]:
    """The path as file systems that fold names also find it."""
    folder, _, name = path.rpartition("/")
    prefix = f"{folder}/" if folder else ""
    wide = "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in name)
    hidden = f"{name[:2]}\u200c{name[2:]}"
    return [path, path.upper(), f"{prefix}{hidden}", f"{prefix}{name}. ", f"{prefix}{name}::$DATA", f"{prefix}{wide}"]


@pytest.mark.parametrize(
    "path",
    [
        *(".env", ".env.production", "app.env", "id_rsa", "id_ed25519.bak", "server.pem", "tls.key", "a.p12", "a.pfx"),
        *("vault.kdbx", ".pgpass", ".my.cnf", ".htpasswd", "credentials.json", "service-account-1.json", "kubeconfig"),
        *("kubeconfig-prod", "prod.tfstate", "prod.tfstate.backup", ".terraformrc", ".netrc", "_netrc", ".npmrc"),
        *(".pypirc", ".git-credentials", ".vault-token", "work.ovpn", "master.key", "wp-config.php"),
        *("local.settings.json", ".yarnrc.yml", "a/.aws/credentials", ".config/gcloud/x", ".azure/x", "b/.kube/config"),
        *(".docker/config.json", ".git/config", "sub/.git/config", ".ssh/anything", ".gnupg/x", ".cargo/credentials"),
        *(".config/gh/hosts.yml", ".m2/settings.xml", "secrets.yml", "client_secret_1.json"),
    ],
)
def test_secret_files_are_recognized_in_every_spelling(path: str) -> None:
    assert [one for one in variants(path) if not is_secret(one)] == []


@pytest.mark.parametrize(
    "path",
    [
        *(".env.example", ".env.sample", ".env.template", "id_rsa.pub", "id_generator.ts", "identity.py", "envoy.yaml"),
        *("keyboard.key.md", "kubeconfig.go", "config", "git/config", "src/credentials.py", "monkey", "secrets/a.txt"),
        *("README.md", "tests/test_env.py", "package.json", "docs/ssh.md", "id_map.json", ""),
    ],
)
def test_common_files_are_not_secret(path: str) -> None:
    assert not is_secret(path)


@pytest.mark.parametrize(
    ("path", "part"),
    [
        *(
            (".git/hooks/pre-commit", ".git"),
            ("sub/.git", ".git"),
            ("AGENTS.md", "agents.md"),
            ("a/GEMINI.md", "gemini.md"),
        ),
        *(
            (".github/workflows/ci.yml", ".github"),
            (".zed/tasks.json", ".zed"),
            ("x.code-workspace", ".code-workspace"),
        ),
        *((".devcontainer/a", ".devcontainer"), (".gitlab-ci.yml", ".gitlab-ci.yml"), (".lazy.lua", ".lazy.lua")),
        *(
            (".nvim.lua", ".nvim.lua"),
            (".exrc", ".exrc"),
            (".dir-locals.el", ".dir-locals.el"),
            (".cursor/a", ".cursor"),
        ),
        *(
            (".yarnrc.yml", ".yarnrc.yml"),
            (".bashrc", ".bashrc"),
            (".ssh/config", ".ssh"),
            (".gitmodules", ".gitmodules"),
        ),
        *((".husky/pre-push", ".husky"), (".pre-commit-config.yaml", ".pre-commit-config.yaml"), (".envrc", ".envrc")),
        *((".pnpmfile.cjs", ".pnpmfile.cjs"), ("a.pth", ".pth"), ("sitecustomize.py", "sitecustomize.py")),
        *((".cargo/config.toml", ".cargo"), (".bazelrc", ".bazelrc"), (".gdbinit", ".gdbinit"), (".vimrc", ".vimrc")),
        *((".idea/a.xml", ".idea"), (".vscode/AGENTS.md", ".vscode"), (".circleci/config.yml", ".circleci")),
        *(("Jenkinsfile", "jenkinsfile"), (".hg/hgrc", ".hg"), (".config/fish/config.fish", ".config")),
    ],
)
def test_protected_files_are_recognized_by_the_part_that_protects_them(path: str, part: str) -> None:
    assert {protected_part(one) for one in variants(path)} == {part}


@pytest.mark.parametrize(
    "path",
    ["src/app.py", "github/workflows/a", ".github/FUNDING.yml", ".gitignore", "package.json", "conftest.py", "."],
)
def test_common_files_are_not_protected(path: str) -> None:
    assert protected_part(path) is None


@pytest.mark.parametrize(
    ("path", "own"),
    [
        *(("/w/.deputy/settings.json", True), ("/w/.DEPUTY/x", True), ("/w/.deputy", True), ("/w/.mcp.json", True)),
        *(("/w/a/.deputy/skills/x/SKILL.md", True), ("/w/.claude/skills/x", True), ("/w/.claude/settings.json", False)),
        *(("/w/deputy/settings.json", False), ("/state/deputy/sessions.db", True), ("/state/other", False)),
    ],
)
def test_own_configuration_is_recognized(path: str, own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPUTY_STATE", "/state/deputy")
    assert is_own_configuration(Path(path)) is own


def test_docs_list_every_name() -> None:
    """``docs/permissions.md`` has all names, in the order of the code or sorted, and no others."""
    section = DOCS.read_text().partition("## Names of secret and protected files")[2]
    secret, protected, own = (block.split() for block in re.findall(r"```text\n(.*?)```", section, re.DOTALL))

    def folders(names: frozenset[str]) -> set[str]:
        return {f"{name}/" for name in names}

    def pairs(paths: tuple[tuple[str, str], ...]) -> set[str]:
        return {"/".join(parts) for parts in paths}

    assert set(secret) == {
        *sensitive.SECRET_NAMES,
        *folders(sensitive.SECRET_FOLDERS),
        *pairs(sensitive.SECRET_PATHS),
    }
    assert set(protected) == {
        *sensitive.PROTECTED_NAMES,
        *(f"*{ending}" for ending in sensitive.PROTECTED_ENDINGS),
        *folders(sensitive.PROTECTED_FOLDERS),
        *pairs(sensitive.PROTECTED_PATHS),
    }
    assert set(own) == {*sensitive.OWN_NAMES, *folders(sensitive.OWN_FOLDERS), *pairs(sensitive.OWN_PATHS)}
    assert all(f"`{ending}`" in section for ending in sensitive.NO_SECRET)
