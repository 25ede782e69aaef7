"""Reads agent definitions: Markdown files whose YAML frontmatter holds the fields and whose body is the prompt."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import cast

from deputy_agents.definition import Definition, Mode, PermissionMode
from deputy_agents.errors import DeputyError

BUILT_IN = ("primary", "general")


class DefinitionError(DeputyError):
    """A definition file does not hold a definition; the message names the file and the reason."""


@cache
def built_in() -> Mapping[str, Definition]:
    """The definitions that Deputy ships, by name."""
    folder = files("deputy_agents.definition") / "builtin"
    return {name: parse(f"{name}.md", (folder / f"{name}.md").read_text("utf-8"), "built-in") for name in BUILT_IN}


def parse(file: str, text: str, source: str) -> Definition:
    """The definition that ``text`` holds; ``file`` is named in errors.

    Raises:
        DefinitionError: no frontmatter, no YAML, or a field that does not fit.
    """
    fields, body = _split(file, text)
    try:
        return Definition(
            name=str(fields["name"]),
            description=str(fields["description"]),
            prompt=body.strip(),
            mode=Mode(str(fields.get("mode", "subagent"))),
            icon=_optional(fields, "icon"),
            tools=tuple(str(tool) for tool in cast("list[object]", fields["tools"])) if "tools" in fields else None,
            max_iterations=int(str(fields.get("maxIterations", 50))),
            model=_optional(fields, "model"),
            temperature=float(str(fields["temperature"])) if "temperature" in fields else None,
            timeout=float(str(fields["timeout"])) if "timeout" in fields else None,
            permission_mode=PermissionMode(str(fields["permissionMode"])) if "permissionMode" in fields else None,
            source=source,
        )
    except (KeyError, ValueError, TypeError) as error:
        raise DefinitionError(f"{file}: {error!r} in the frontmatter.") from None


def _optional(fields: Mapping[str, object], name: str) -> str | None:
    return str(fields[name]) if name in fields else None


def _split(file: str, text: str) -> tuple[Mapping[str, object], str]:
    from ruamel.yaml import YAML  # late: a server answers `initialize` before it reads a definition
    from ruamel.yaml.error import YAMLError

    if not text.startswith("---\n") or "\n---\n" not in text:
        raise DefinitionError(f"{file}: it must start with a frontmatter between two lines of '---'.")
    head, _, body = text[4:].partition("\n---\n")
    try:
        fields: object = YAML(typ="safe", pure=True).load(head)  # pyright: ignore[reportUnknownMemberType]
    except YAMLError as error:
        raise DefinitionError(f"{file}: the frontmatter is no YAML: {error}") from None
    if not isinstance(fields, dict):
        raise DefinitionError(f"{file}: the frontmatter holds no fields.")
    return cast("Mapping[str, object]", fields), body
