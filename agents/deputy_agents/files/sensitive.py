"""Files that need more care than others, recognized by their names only.

*Secret* files may hold keys, passwords or tokens. *Protected* files are run or obeyed by other programs: a change is
equivalent to a command. *Own configuration* is what Deputy itself obeys: a change of it would turn one approval into
permissions for every later prompt.

Names are compared as file systems do that ignore case, normal forms and invisible characters: ``.ENV`` is ``.env``.
"""

import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from fnmatch import translate
from functools import lru_cache
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Final

from deputy_agents.files.paths import config_folder, state_folder

SECRET_NAMES: Final = (
    *(".env", ".env.*", ".env-*", ".env_*", "*.env", ".envrc", "id_*", "*.pem", "*.key", "*.p12", "*.p8", "*.pfx"),
    *("*.jks", "*.keystore", "*.kdbx", "*.kdb", "*.ppk", "*.ovpn", "*.agekey", "*.keytab", "*.keychain*"),
    *("*.tfvars", "*.tfvars.json", "*.tfstate", "*.tfstate.*", ".terraformrc", "terraform.rc"),
    *(".netrc", "_netrc", ".authinfo", ".npmrc", ".yarnrc.yml", ".pypirc", ".pgpass", "pgpass.conf", ".my.cnf"),
    *(".mylogin.cnf", ".git-credentials", ".htpasswd", ".htdigest", ".dockercfg", ".dockerconfigjson", ".boto"),
    *(".s3cfg", ".gem_credentials", ".vault-token", ".vault_pass*", "vault_pass*", "kubeconfig*", "*.kubeconfig"),
    *("rclone.conf", ".rclone.conf", ".databrickscfg", ".snowsql", "auth.json", "local.settings.json"),
    *("credentials", "credentials.json", "credentials.toml", "credentials.y*ml", "credentials.ini", "credentials.xml"),
    *("credentials.csv", "credentials.db", "credentials.yml.enc", "*-credentials.json", "*_credentials.json"),
    *("secrets.json", "secrets.toml", "secrets.y*ml", "secrets.ini", "secrets.xml", "secrets.txt", "secret.json"),
    *("secret.toml", "secret.y*ml", "secrets-*.y*ml", "client_secret*.json", "appsettings.secrets.json"),
    *("service-account*.json", "service_account*.json", "serviceaccount*.json", "wp-config.php"),
    *("cookies.sqlite", "logins.json", "key4.db", ".bash_history", ".zsh_history", ".psql_history", ".mysql_history"),
    *(".python_history", ".node_repl_history", ".rediscli_history", "application_default_credentials.json"),
)
"""Patterns of names of files that may hold secrets, in lower case."""

SECRET_FOLDERS: Final = frozenset(
    {".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", "gcloud", ".gcloud", ".oci", ".password-store", ".secrets"}
)
"""Folders whose files may hold secrets, at any depth."""

SECRET_PATHS: Final = (
    (".git", "config"),  # the address of a remote may have a token
    (".config", "gh"),
    (".config", "hub"),
    (".config", "op"),
    (".config", "doctl"),
    (".config", "heroku"),
    (".config", "sops"),
    (".cargo", "credentials"),
    (".cargo", "credentials.toml"),
    (".gem", "credentials"),
    (".bundle", "config"),
    (".m2", "settings.xml"),
    (".m2", "settings-security.xml"),
    (".gradle", "gradle.properties"),
    (".nuget", "nuget.config"),
    (".terraform.d", "credentials.tfrc.json"),
    (".composer", "auth.json"),
    (".jupyter", "jupyter_server_config.json"),
    (".kaggle", "kaggle.json"),
    (".streamlit", "secrets.toml"),
)
"""Two parts of a path that follow each other: a file, or a folder with files, that may hold secrets."""

NO_SECRET: Final = (".example", ".sample", ".template", ".dist", ".pub", ".tmpl", ".defaults")
"""Endings of files that stand in for one with secrets."""
_COMMON_ENDINGS: Final = (
    *(".py", ".pyi", ".ts", ".tsx", ".js", ".jsx", ".mjs", ".vue", ".go", ".rs", ".java", ".kt", ".cs", ".rb", ".php"),
    *(".c", ".h", ".cc", ".cpp", ".hpp", ".swift", ".sh", ".sql", ".md", ".json", ".csv", ".html", ".css", ".svg"),
)
_COMMON_STEMS: Final = ("id_", "kubeconfig", "vault_pass")
"""Beginnings of names that other files have too, with one of ``_COMMON_ENDINGS``: ``id_generator.ts``."""

PROTECTED_FOLDERS: Final = frozenset(
    {".git", ".hg", ".jj", ".svn", ".bzr", ".githooks", ".husky", ".deputy", ".claude", ".cursor", ".gemini", ".codex"}
    | {".agents", ".windsurf", ".clinerules", ".roo", ".continue", ".amazonq", ".junie", ".kiro", ".opencode", ".qwen"}
    | {".vscode", ".idea", ".zed", ".fleet", ".vs", ".theia", ".helix", ".vim", ".nvim", ".emacs.d", ".devcontainer"}
    | {".ssh", ".gnupg", ".gitlab", ".circleci", ".buildkite", ".woodpecker", ".semaphore", ".teamcity", ".direnv"}
    | {".yarn", ".mvn", ".mise"}
)
"""Folders in which every file is protected."""

PROTECTED_NAMES: Final = frozenset(
    {".git", ".gitattributes", ".gitmodules", ".gitconfig", ".hgrc", ".envrc", ".mcp.json", ".devcontainer.json"}
    | {"agents.md", "agents.override.md", "agent.md", "claude.md", "claude.local.md", "gemini.md", "qwen.md", "warp.md"}
    | {".cursorrules", ".windsurfrules", ".clinerules", ".roorules", ".rules", ".goosehints", ".aider.conf.yml"}
    | {".exrc", ".vimrc", ".gvimrc", ".nvimrc", ".nvim.lua", ".lazy.lua", ".vimrc.local", ".dir-locals.el"}
    | {".dir-locals-2.el", ".emacs", ".kateproject", ".kakrc", ".gdbinit", ".lldbinit", ".pdbrc", ".ghci", ".ocamlinit"}
    | {".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc", ".zshrc"}
    | {".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".xprofile", ".xinitrc"}
    | {".xsession", ".xsessionrc", ".tmux.conf", ".screenrc", ".curlrc", ".wgetrc", ".psqlrc", ".sqliterc", ".irbrc"}
    | {".pryrc", ".pythonrc", ".rprofile", ".renviron", ".octaverc", "sitecustomize.py", "usercustomize.py"}
    | {".pre-commit-config.yaml", ".pre-commit-config.yml", "prek.toml", "lefthook.yml", "lefthook.yaml"}
    | {".lefthook.yml", ".lefthook.yaml", "lefthook-local.yml", ".overcommit.yml", ".simple-git-hooks.json"}
    | {".simple-git-hooks.js", ".simple-git-hooks.cjs", ".huskyrc", ".huskyrc.json", ".yarnrc", ".yarnrc.yml"}
    | {".pnpmfile.cjs", ".pnpmfile.mjs", "pnpmfile.js", ".npmrc", "bunfig.toml", ".bunfig.toml", "pip.conf"}
    | {".bazelrc", "mise.toml", ".mise.toml", "mise.local.toml", ".mise.local.toml", ".miserc.toml"}
    | {".gitlab-ci.yml", ".travis.yml", "jenkinsfile", "azure-pipelines.yml", "bitbucket-pipelines.yml", ".drone.yml"}
    | {".drone.yaml", "appveyor.yml", ".appveyor.yml", ".cirrus.yml", ".woodpecker.yml"}
)
"""Names of protected files, at any depth, in lower case."""

PROTECTED_ENDINGS: Final = (".code-workspace", ".sublime-project", ".pth")
"""Endings of names of protected files."""

PROTECTED_PATHS: Final = (
    (".github", "workflows"),
    (".github", "actions"),
    (".github", "hooks"),
    (".github", "agents"),
    (".github", "prompts"),
    (".github", "instructions"),
    (".github", "copilot-instructions.md"),
    (".gitea", "workflows"),
    (".forgejo", "workflows"),
    (".cargo", "config"),
    (".cargo", "config.toml"),
    (".config", "fish"),
    (".config", "git"),
    (".config", "nvim"),
    (".config", "helix"),
    (".config", "zed"),
    (".config", "autostart"),
    (".config", "systemd"),
    (".config", "environment.d"),
    ("gradle", "wrapper"),
    (".bundle", "config"),
    (".gradle", "init.d"),
)
"""Two parts of a path that follow each other: a protected file, or a folder in which every file is protected."""

OWN_FOLDERS: Final = frozenset({".deputy"})
OWN_NAMES: Final = frozenset({".mcp.json"})
OWN_PATHS: Final = ((".claude", "agents"), (".claude", "commands"), (".claude", "skills"))
"""Folders, names and pairs of parts of Deputy's own configuration, which also includes its state folder."""

_SECRET_NAME: Final = re.compile("|".join(map(translate, SECRET_NAMES)))


@lru_cache(maxsize=4096)
def fold(name: str) -> str:
    """The name as file systems compare it that ignore case, normal forms and invisible characters; those of Windows
    also ignore dots and blanks at the end and what follows a colon."""
    if name.isascii():
        folded = name.lower()
    else:
        seen = "".join(char for char in name if unicodedata.category(char) != "Cf")
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold())
    before_stream = folded.partition(":")[0] or folded
    return before_stream.rstrip(". ") or folded


def is_secret(path: PurePath | str) -> bool:
    """Whether a file may contain secrets. Pass the path below a root."""
    return _is_secret(_parts(path))


def is_secret_in(folder: str, name: str) -> bool:
    """The same for the file ``name`` in a folder with the name ``folder``, apart from folders above it."""
    return _is_secret((fold(folder), fold(name)))


def _is_secret(parts: Sequence[str]) -> bool:
    *folders, name = parts
    if not SECRET_FOLDERS.isdisjoint(folders) or any(pair in SECRET_PATHS for pair in pairwise(parts)):
        return True
    if name.endswith(NO_SECRET) or (name.endswith(_COMMON_ENDINGS) and name.startswith(_COMMON_STEMS)):
        return False
    return _SECRET_NAME.match(name) is not None


def is_secret_folder(path: PurePath | str) -> bool:
    """Whether a folder may contain files that are secret because of its name, such as ``.ssh`` or ``.git``."""
    last = _parts(path)[-1]
    return last.startswith(".") and (last in SECRET_FOLDERS or any(last == folder for folder, _ in SECRET_PATHS))


def protected_part(path: PurePath | str) -> str | None:
    """The first part of a path that makes the file a protected one, as :func:`fold` returns it; ``None`` if the file is
    not protected. For a name with a protected ending, the ending. Pass the path below a root."""
    parts = _parts(path)
    last = len(parts) - 1
    for index, part in enumerate(parts):
        if index < last and (part in PROTECTED_FOLDERS or (part, parts[index + 1]) in PROTECTED_PATHS):
            return part
    if parts[last] in PROTECTED_NAMES:
        return parts[last]
    return next((ending for ending in PROTECTED_ENDINGS if parts[last].endswith(ending)), None)


def is_own_configuration(path: Path) -> bool:
    """Whether Deputy itself obeys the file at ``path``, an absolute path without links."""
    *folders, name = parts = _parts(path)
    return (
        not OWN_FOLDERS.isdisjoint(folders)
        or name in OWN_NAMES | OWN_FOLDERS
        or any(pair in OWN_PATHS for pair in pairwise(parts))
        or path.is_relative_to(os.path.realpath(state_folder(os.environ)))
        or _is_in_config(path)
    )


def _is_in_config(path: Path) -> bool:
    folder = config_folder(os.environ)
    return folder is not None and path.is_relative_to(os.path.realpath(folder))


def names_part(segments: Iterable[str], part: str) -> bool:
    """Whether one of ``segments``, literal parts of a pattern, is the protected ``part`` of a path."""
    ending = part in PROTECTED_ENDINGS
    return any(folded == part or (ending and folded.endswith(part)) for folded in map(fold, segments))


def _parts(path: PurePath | str) -> Sequence[str]:
    return [fold(part) for part in PurePath(path).parts] or [""]
