"""Reads agent definitions: Markdown files with the fields in a YAML frontmatter and the prompt in the body.

Files written for other programs load unchanged. A definition is not loaded if a limit, schema, template or permission
rule is invalid, or if the name, the description, the prompt or every tool is missing: without these, the agent would
not be the one that its author described. Anything else that is invalid is ignored with a warning.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import PurePath

from deputy_agents.definition.definition import BUILT_IN, SMALL, Definition, Mode
from deputy_agents.definition.frontmatter import Field, Frontmatter, FrontmatterError, Value, normalize_name, read
from deputy_agents.definition.schema import SchemaError, check_schema
from deputy_agents.definition.template import TemplateError, check_template
from deputy_agents.definition.tools import read_tools
from deputy_agents.domain.errors import DeputyError, InvalidRequest
from deputy_agents.domain.model_card import Effort
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.problem import Problem
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.patterns.linear import PatternError
from deputy_agents.permission.rule_patterns import check_size, parse_rule
from deputy_agents.text import clean, cut, visible

PRIMARY = "primary"
MAX_ITERATIONS = 1000
MAX_TIMEOUT = 24 * 60 * 60.0
MAX_NAME = 64
MAX_DESCRIPTION = 8 * 1024

_NAMES: Mapping[str, tuple[str, ...]] = {
    "name": (),
    "description": (),
    "icon": (),
    "tools": ("allowedTools",),
    "disallowedTools": ("deniedTools",),
    "model": (),
    "effort": ("reasoningEffort",),
    "temperature": (),
    "maxIterations": ("maxTurns", "maxSteps", "steps"),
    "timeout": (),
    "permissionMode": (),
    "permissions": (),
    "mode": (),
    "mcpServers": (),
    "inputSchema": (),
    "resultFormat": (),
}
_SPELLINGS = {normalize_name(spelling): name for name, others in _NAMES.items() for spelling in (name, *others)}

_FOREIGN = frozenset((
    "argumenthint", "author", "background", "category", "color", "globs", "handoffs", "hidden", "hooks",
    "id", "initialprompt", "isolation", "license", "memory", "metadata", "permission", "prompt", "skills", "tags",
    "target", "title", "topp", "version", "whentouse",
))  # fmt: skip
"""Fields of other programs. They are ignored, but end the previous field in a frontmatter that is not YAML."""

_MODELS: Mapping[str, str | None] = {
    **dict.fromkeys(("inherit", "default", "sonnet", "opus")),
    "haiku": SMALL,
    SMALL: SMALL,
}
"""Words for the model of the parent, and for model families. Any other word is a model name."""

_DEFAULT_EFFORT = ("inherit", "default", "auto")

_PERMISSION_MODES: Mapping[str, PermissionMode] = {
    "plan": PermissionMode.PLAN,
    "readonly": PermissionMode.PLAN,
    "default": PermissionMode.DEFAULT,
    "ask": PermissionMode.DEFAULT,
    "acceptedits": PermissionMode.ACCEPT_EDITS,
    "autoedit": PermissionMode.ACCEPT_EDITS,
    "bypass": PermissionMode.BYPASS,
    "bypasspermissions": PermissionMode.BYPASS,
}


@dataclass(frozen=True, slots=True)
class Parsed:
    """The result of reading a file. ``definition`` is ``None`` if one of ``problems`` is fatal."""

    definition: Definition | None
    problems: tuple[Problem, ...] = ()


@cache
def built_in() -> Mapping[str, Definition]:
    """The built-in definitions, by name."""
    folder = files("deputy_agents.definition") / "builtin"
    parsed = [parse_definition(f"{name}.md", (folder / f"{name}.md").read_text("utf-8")) for name in BUILT_IN]
    problems = [str(problem) for one in parsed for problem in one.problems]
    if problems:
        raise DeputyError(f"The installation of Deputy is damaged. Reinstall it. {'; '.join(problems)}")
    return {one.definition.name: one.definition for one in parsed if one.definition}


def parse_definition(
    file: str,
    text: str,
    source: str = "built-in",
    known_tools: Collection[str] | None = None,
    replaces: Mapping[str, Definition] | None = None,
    typed: Collection[str] = (),
) -> Parsed:
    """Parse the definition in ``text``.

    ``file`` is named in problems, and its stem is the default name. ``known_tools`` are the available tools; ``None``
    disables the check of tool names. ``typed`` are the names of typed definitions, which are tools too. A definition
    with the name of one in ``replaces`` inherits its mode, icon, input schema and result format, unless it sets them,
    so that callers are not affected.
    """
    try:
        front = read(text, lambda name: name in _SPELLINGS or name in _FOREIGN)
    except FrontmatterError as error:
        return Parsed(None, (Problem(file, error.line, f"{error}.", fatal=True),))
    reader = _Reader(file, front)
    definition = _definition(reader, source, known_tools, typed, replaces or {})
    fatal = any(problem.fatal for problem in reader.problems)
    return Parsed(None if fatal else definition, tuple(reader.problems))


def _definition(
    reader: "_Reader",
    source: str,
    known_tools: Collection[str] | None,
    typed: Collection[str],
    replaces: Mapping[str, Definition],
) -> Definition:
    name = reader.name()
    old = replaces.get(name)
    tools, disallowed = reader.tools(known_tools, typed)
    schema = reader.schema() or (old.input_schema if old else None)
    if schema is not None:
        reader.check_tool_name(name, known_tools)
    return Definition(
        name=name,
        description=reader.description(),
        prompt=reader.prompt(),
        mode=reader.mode(name, old),
        icon=reader.icon() or (old.icon if old else None),
        tools=tools,
        disallowed_tools=disallowed,
        max_iterations=int(reader.number("maxIterations", 1, MAX_ITERATIONS, whole=True) or 50),
        model=reader.model(),
        effort=reader.effort(),
        temperature=reader.number("temperature", 0, 1),
        timeout=reader.number("timeout", 1, MAX_TIMEOUT),
        permission_mode=reader.permission_mode(),
        rules=reader.rules(source),
        input_schema=schema,
        result_format=reader.template() or (old.result_format if old else None),
        source=source,
        mcp_servers=reader.mcp_servers(),
    )


@dataclass(slots=True)
class _Reader:
    """Reads the fields of one file and records problems."""

    file: str
    front: Frontmatter
    fields: dict[str, Field] = field(default_factory=dict[str, Field])
    problems: list[Problem] = field(default_factory=list[Problem])

    def __post_init__(self) -> None:
        for spelling, found in self.front.fields.items():
            if (name := _SPELLINGS.get(spelling)) is not None:
                if name in self.fields:
                    self._warn(found.line, f"{name} is repeated; the first one is used")
                else:
                    self.fields[name] = found
        for name, line in self.front.repeated.items():
            if normalize_name(name) in _SPELLINGS:
                self._warn(line, f"{visible(name)} is repeated; the first one is used")

    def _warn(self, line: int, reason: str) -> None:
        self.problems.append(Problem(self.file, line, f"{reason}."))

    def _fail(self, line: int, reason: str) -> None:
        self.problems.append(Problem(self.file, line, f"{reason}.", fatal=True))

    def _non_null(self, name: str) -> Field | None:
        found = self.fields.get(name)
        return None if found is None or found.value is None else found

    def _word(self, name: str) -> str:
        found = self._non_null(name)
        return clean(found.text).strip() if found else ""

    def _line(self, name: str) -> int:
        return self.fields[name].line if name in self.fields else 1

    # -- texts

    def name(self) -> str:
        given = self._word("name")
        name = _slug(given) or _slug(PurePath(self.file).name.removesuffix(".md"))
        if not name:
            self._fail(self._line("name"), "there is no name")
        elif given and name != given:
            self._warn(self._line("name"), f"the name {visible(cut(given, MAX_NAME))!r} was changed to {name!r}")
        return name

    def description(self) -> str:
        # Other programs write a description of several lines on one line, with escaped line ends.
        found = self._non_null("description")
        text = clean(found.prose).replace("\\n", "\n").replace('\\"', '"').strip() if found else ""
        if not text:
            self._fail(self._line("description"), "the description is missing")
        return cut(text, MAX_DESCRIPTION)

    def prompt(self) -> str:
        text = clean(self.front.body).strip()
        if not text:
            self._fail(self.front.body_line, "there is no prompt below the frontmatter")
        return text

    def icon(self) -> str | None:
        text = self._word("icon")
        if len(text) > 8 or len(text.split()) > 1:
            self._warn(self._line("icon"), "icon: must be a single character; it is ignored")
            return None
        return text or None

    # -- keywords

    def model(self) -> str | None:
        word = self._word("model")
        if len(word.split()) > 1:
            self._warn(self._line("model"), "model: must be one name; the model of the parent is used")
            return None
        return _MODELS.get(word.lower(), word) or None

    def effort(self) -> Effort | None:
        word = self._word("effort").lower()
        if not word or word in _DEFAULT_EFFORT:
            return None
        if word not in set(Effort):
            self._warn(self._line("effort"), f"effort: must be one of {', '.join(Effort)}; that of the parent is used")
            return None
        return Effort(word)

    def mode(self, name: str, old: Definition | None) -> Mode:
        word = self._word("mode").lower()
        default = old.mode if old else Mode.PRIMARY if name == PRIMARY else Mode.SUBAGENT
        mode = Mode(word) if word in set(Mode) else default
        if word and mode != word:
            self._warn(self._line("mode"), f"mode: must be primary, subagent or all; {default.value} is used")
        if old is not None and mode not in (old.mode, Mode.ALL):
            self._fail(self._line("mode"), f"mode: {name} must be {old.mode.value} or all")
        return mode

    def permission_mode(self) -> PermissionMode | None:
        word = self._word("permissionMode")
        if not word:
            return None
        if (mode := _PERMISSION_MODES.get(normalize_name(word))) is None:
            reason = f"permissionMode: {cut(visible(word), 40)} is unknown; default is used"
            self._warn(self._line("permissionMode"), reason)
        return mode or PermissionMode.DEFAULT

    # -- values that must be valid

    def rules(self, source: str) -> tuple[Rule, ...]:
        """Read a field such as ``permissions: {deny: ["shell(git push *)"], allow: [edit_file(docs/**)]}``."""
        if (found := self._non_null("permissions")) is None:
            return ()
        try:
            rules = tuple(read_rules(found.value, source))
            check_size(rules)
        except (InvalidRequest, PatternError) as error:
            self._fail(found.line, f"permissions: {found.yaml_error or error}".rstrip("."))
            return ()
        return rules

    def number(self, name: str, low: float, high: float, *, whole: bool = False) -> float | None:
        found = self._non_null(name)
        if found is None:
            return None
        value = _number(found.value)
        if value is None or not low <= value <= high or (whole and value != int(value)):
            number = "whole number" if whole else "number"
            self._fail(found.line, f"{name}: must be a {number} from {low:g} to {high:g}")
            return None
        return value

    def schema(self) -> Mapping[str, object] | None:
        if (found := self._non_null("inputSchema")) is None:
            return None
        try:
            return check_schema(found.value)
        except SchemaError as error:
            self._fail(found.line, f"inputSchema: {found.yaml_error or error}")
            return None

    def check_tool_name(self, name: str, known_tools: Collection[str] | None) -> None:
        if not name.isascii():
            reason = (
                f"an agent with an input schema is a tool, and {name!r} is not a tool name: use a-z, digits, _ and -"
            )
            self._fail(self._line("name"), reason)
        elif known_tools and name in known_tools:
            self._fail(self._line("name"), f"a tool named {name!r} exists; choose another name")

    def template(self) -> str | None:
        if (found := self._non_null("resultFormat")) is None:
            return None
        text = found.text.rstrip("\n")  # a YAML block ends with a line end that is not intended
        try:
            check_template(text)
        except TemplateError as error:
            self._fail(found.line, f"resultFormat: {error}")
        return text

    def mcp_servers(self) -> Mapping[str, object] | None:
        """Read ``[name, {name: {command: ...}}]``, one mapping, or names separated by commas."""
        if (found := self._non_null("mcpServers")) is None:
            return None
        listed = found.value
        if isinstance(listed, str):
            listed = [name.strip() for name in listed.split(",") if name.strip()]
        servers: dict[str, object] = {}
        for one in listed if isinstance(listed, list) else [listed]:
            if isinstance(one, dict):
                servers |= one
            elif isinstance(one, str):
                servers[one] = None
            else:
                self._warn(found.line, "mcpServers: must be a list of names or of MCP servers by name")
        return servers

    def tools(
        self, known: Collection[str] | None, typed: Collection[str]
    ) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
        allowed, disallowed = self.fields.get("tools"), self.fields.get("disallowedTools")
        found = read_tools(
            allowed.value if allowed else None,
            allowed.source if allowed else "",
            disallowed.value if disallowed else None,
            disallowed.source if disallowed else "",
            known,
            typed,
        )
        for warning in found.warnings:
            self._warn(self._line(warning.partition(":")[0]), warning)
        if found.allowed is not None and not found.allowed and not self._non_null("mcpServers"):
            self._fail(self._line("tools"), "tools: none of them exists, so the agent could do nothing")
        return found.allowed, found.disallowed


def _slug(text: str) -> str:
    return re.sub(r"[^\w-]+", "-", text)[:MAX_NAME].strip("-")


def _number(value: Value) -> float | None:
    try:
        return float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    except ValueError:
        return None


def read_rules(value: Value, source: str) -> Iterator[Rule]:
    """Read the rules under ``allow``, ``ask`` and ``deny``, each a list of ``tool`` or ``tool(pattern)``.

    Raises:
        InvalidRequest: ``value`` does not have this form.
    """
    if not isinstance(value, dict) or not value.keys() <= set(DecisionKind):
        raise InvalidRequest("must contain lists of rules under allow, ask and deny")
    for decision, texts in value.items():
        for text in texts if isinstance(texts, list) else [texts]:
            if not isinstance(text, str):
                raise InvalidRequest("a rule is tool or tool(pattern), as in shell(git push *)")
            yield parse_rule(text, DecisionKind(decision), source)
