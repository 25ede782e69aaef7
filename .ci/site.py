"""Hooks of MkDocs for the documentation site.

Documents link to each other as files of the repository. On the site, those below ``docs/`` and a few others are pages:
links between them become links between pages, and links to anything else lead to the source of the version.
"""

import posixpath
import re
import tomllib
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from deputy_protocol.version import VERSION

ROOT = Path(__file__).resolve().parents[1]
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "editors/README.md": "editors.md",
}
"""Documents that are not in the folder of the site, and their pages."""
UNLISTED = {"Guides": "*.md", "Decisions": "decisions/*.md"}
"""Sections that also get the pages of a folder that mkdocs.yml does not list."""
_LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^( *)(`{3,}).*?^\1\2`*$", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> None:
    config.site_url = URLS["Documentation"]
    config.repo_url = URLS["Source"]
    config.copyright = f"Deputy {VERSION}"
    docs, listed = Path(config.docs_dir), set(_pages(config.nav))
    for section in config.nav or []:
        for title, pages in section.items() if isinstance(section, dict) else ():
            if title in UNLISTED:
                found = (path.relative_to(docs).as_posix() for path in docs.glob(UNLISTED[title]))
                pages.extend(sorted(page for page in found if page not in listed))


def _pages(nav: object) -> list[str]:
    match nav:
        case str():
            return [nav]
        case list():
            return [page for part in nav for page in _pages(part)]
        case dict():
            return [page for part in nav.values() for page in _pages(part)]
        case _:
            return []


def on_files(files: Files, config: MkDocsConfig) -> None:
    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text("utf-8")))


def on_page_markdown(markdown: str, *, page: Page, files: Files, **_: object) -> str:
    uri = page.file.src_uri
    source = next((name for name, made in OUTSIDE.items() if made == uri), f"docs/{uri}")

    def replaced(found: re.Match[str]) -> str:
        return f"{found[1]}{_target(source, uri, found[2], files)}{found[3] or ''}"

    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [_LINK.sub(replaced, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(replaced, markdown[end:])])


def _target(source: str, uri: str, link: str, files: Files) -> str:
    """Where ``link`` in the document ``source`` leads on the site. A broken one stays, and fails the build."""
    named = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    page = OUTSIDE.get(named, named.removeprefix("docs/"))
    if files.get_file_from_path(page) is not None and (named in OUTSIDE or named.startswith("docs/")):
        return posixpath.relpath(page, posixpath.dirname(uri) or ".")
    return f"{URLS['Source']}/blob/v{VERSION}/{named}" if (ROOT / named).exists() else link
