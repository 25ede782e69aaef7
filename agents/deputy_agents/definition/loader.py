"""Reads agent definitions: Markdown files whose YAML frontmatter holds the fields and whose body is the prompt.

Files written for other programs load as they are. What keeps one from being loaded is a limit, a schema or a template
that does not fit, or that name, description, prompt or every tool is missing: to go on without these would give an
agent that its author did not describe. Anything else that does not fit is left out, and said.
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
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.problem import Problem
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.permission.rule_patterns import parse_rule
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
    "argumenthint", "author", "background", "category", "color", "effort", "globs", "handoffs", "hidden", "hooks",
    "id", "initialprompt", "isolation", "license", "memory", "metadata", "permission", "prompt", "skills", "tags",
    "target", "title", "topp", "version", "whentouse",
))  # fmt: skip
"""Fields of other programs: read over, but in a frontmatter that is no YAML the field before ends at them."""

_MODELS: Mapping[str, str | None] = {
    **dict.fromkeys(("inherit", "default", "sonnet", "opus")),
    "haiku": SMALL,
    SMALL: SMALL,
}
"""Words for "the one I run on" and families of models. Any other word is the name of a model."""

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
    """What a file holds; no ``definition`` when one of ``problems`` is fatal."""

    definition: Definition | None
    problems: tuple[Problem, ...] = ()


@cache
def built_in() -> Mapping[str, Definition]:
    """The definitions that Deputy ships, by name."""
    folder = files("deputy_agents.definition") / "builtin"
    parsed = [parse_definition(f"{name}.md", (folder / f"{name}.md").read_text("utf-8")) for name in BUILT_IN]
    faults = [str(problem) for one in parsed for problem in one.problems]
    if faults:
        raise DeputyError(f"Deputy is damaged; install it anew. {'; '.join(faults)}")
    return {one.definition.name: one.definition for one in parsed if one.definition}


def parse_definition(
    file: str,
    text: str,
    source: str = "built-in",
    known_tools: Collection[str] | None = None,
    replaces: Mapping[str, Definition] | None = None,
    typed: Collection[str] = (),
) -> Parsed:
    """The definition that ``text`` holds.

    ``file`` is named in problems, and its stem is the name of a definition that gives none. ``known_tools`` are the
    tools that there are (``None``: do not look), ``typed`` the agents that are tools too. One that has the name of a
    definition in ``replaces`` keeps that one's mode, icon, input schema and result format where it says nothing of
    them, so that who calls it need not know.
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
        temperature=reader.number("temperature", 0, 1),
        timeout=reader.number("timeout", 1, MAX_TIMEOUT),
        permission_mode=reader.permission_mode(),
        rules=reader.rules(source),
        input_schema=schema,
        result_format=reader.template() or (old.result_format if old else None),
        source=source,
        servers=reader.servers(),
    )


@dataclass(slots=True)
class _Reader:
    """Reads the fields of one file and notes what is wrong with them."""

    file: str
    front: Frontmatter
    fields: dict[str, Field] = field(default_factory=dict[str, Field])
    problems: list[Problem] = field(default_factory=list[Problem])

    def __post_init__(self) -> None:
        for spelling, found in self.front.fields.items():
            if (name := _SPELLINGS.get(spelling)) is not None:
                if name in self.fields:
                    self._note(found.line, f"{name} stands there twice; the first counts")
                else:
                    self.fields[name] = found
        for name, line in self.front.repeated.items():
            if normalize_name(name) in _SPELLINGS:
                self._note(line, f"{visible(name)} stands there twice; the first counts")

    def _note(self, line: int, reason: str, *, fatal: bool = False) -> None:
        self.problems.append(Problem(self.file, line, f"{reason}.", fatal))

    def _given(self, name: str) -> Field | None:
        """A field that holds something."""
        found = self.fields.get(name)
        return None if found is None or found.value is None else found

    def _word(self, name: str) -> str:
        found = self._given(name)
        return clean(found.text).strip() if found else ""

    def _line(self, name: str) -> int:
        return self.fields[name].line if name in self.fields else 1

    # -- texts

    def name(self) -> str:
        given = self._word("name")
        name = _slug(given) or _slug(PurePath(self.file).name.removesuffix(".md"))
        if not name:
            self._note(self._line("name"), "there is no name", fatal=True)
        elif given and name != given:
            self._note(self._line("name"), f"the name {visible(cut(given, MAX_NAME))!r} became {name!r}")
        return name

    def description(self) -> str:
        # Other programs write a description of many lines as one, with the line ends spelled out.
        found = self._given("description")
        text = clean(found.prose).replace("\\n", "\n").replace('\\"', '"').strip() if found else ""
        if not text:
            self._note(self._line("description"), "the description is missing", fatal=True)
        return cut(text, MAX_DESCRIPTION)

    def prompt(self) -> str:
        text = clean(self.front.body).strip()
        if not text:
            self._note(self.front.body_line, "there is no prompt below the frontmatter", fatal=True)
        return text

    def icon(self) -> str | None:
        text = self._word("icon")
        if len(text) > 8 or len(text.split()) > 1:
            self._note(self._line("icon"), "icon: it must be one sign; it is left out")
            return None
        return text or None

    # -- words with a meaning

    def model(self) -> str | None:
        word = self._word("model")
        if len(word.split()) > 1:
            self._note(self._line("model"), "model: it must be one name; the model of the parent is used")
            return None
        return _MODELS.get(word.lower(), word) or None

    def mode(self, name: str, old: Definition | None) -> Mode:
        word = self._word("mode").lower()
        default = old.mode if old else Mode.PRIMARY if name == PRIMARY else Mode.SUBAGENT
        mode = Mode(word) if word in set(Mode) else default
        if word and mode != word:
            self._note(self._line("mode"), f"mode: it must be primary, subagent or all; it is {default.value} now")
        if old is not None and mode not in (old.mode, Mode.ALL):
            self._note(self._line("mode"), f"mode: {name} must stay {old.mode.value}, or be all", fatal=True)
        return mode

    def permission_mode(self) -> PermissionMode | None:
        word = self._word("permissionMode")
        if not word:
            return None
        if (mode := _PERMISSION_MODES.get(normalize_name(word))) is None:
            self._note(self._line("permissionMode"), f"permissionMode: {cut(visible(word), 40)} is taken for default")
        return mode or PermissionMode.DEFAULT

    # -- values that must fit

    def rules(self, source: str) -> tuple[Rule, ...]:
        """``permissions: {deny: ["shell(git push *)"], allow: [edit_file(docs/**)]}``"""
        if (found := self._given("permissions")) is None:
            return ()
        try:
            return tuple(read_rules(found.value, source))
        except InvalidRequest as error:
            self._note(found.line, f"permissions: {found.yaml_error or error}".rstrip("."), fatal=True)
            return ()

    def number(self, name: str, low: float, high: float, *, whole: bool = False) -> float | None:
        found = self._given(name)
        if found is None:
            return None
        value = _number(found.value)
        if value is None or not low <= value <= high or (whole and value != int(value)):
            kind = "whole number" if whole else "number"
            self._note(found.line, f"{name}: it must be a {kind} from {low:g} to {high:g}", fatal=True)
            return None
        return value

    def schema(self) -> Mapping[str, object] | None:
        if (found := self._given("inputSchema")) is None:
            return None
        try:
            return check_schema(found.value)
        except SchemaError as error:
            self._note(found.line, f"inputSchema: {found.yaml_error or error}", fatal=True)
            return None

    def check_tool_name(self, name: str, known_tools: Collection[str] | None) -> None:
        if not name.isascii():
            reason = f"{name!r} is no name of a tool, which an input schema makes it: use letters a-z, digits, _ and -"
            self._note(self._line("name"), reason, fatal=True)
        elif known_tools and name in known_tools:
            self._note(self._line("name"), f"there is a tool {name!r} already; choose another name", fatal=True)

    def template(self) -> str | None:
        if (found := self._given("resultFormat")) is None:
            return None
        text = found.text.rstrip("\n")  # that of a YAML block, which nobody meant
        try:
            check_template(text)
        except TemplateError as error:
            self._note(found.line, f"resultFormat: {error}", fatal=True)
        return text

    def servers(self) -> Mapping[str, object] | None:
        """``[name, {name: {command: ...}}]``, as a list, as one mapping, or as names with commas."""
        if (found := self._given("mcpServers")) is None:
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
                self._note(found.line, "mcpServers: it must be a list of names, or of servers by name")
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
            self._note(self._line(warning.partition(":")[0]), warning)
        if found.allowed is not None and not found.allowed and not self._given("mcpServers"):
            self._note(self._line("tools"), "tools: none is left, so it could do nothing", fatal=True)
        return found.allowed, found.disallowed


def _slug(text: str) -> str:
    return re.sub(r"[^\w-]+", "-", text)[:MAX_NAME].strip("-")


def _number(value: Value) -> float | None:
    try:
        return float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    except ValueError:
        return None


def read_rules(value: Value, source: str) -> Iterator[Rule]:
    """The rules of ``allow``, ``ask`` and ``deny``, each a list of ``tool`` or ``tool(pattern)``.

    Raises:
        InvalidRequest: it is of another form.
    """
    if not isinstance(value, dict) or not value.keys() <= set(DecisionKind):
        raise InvalidRequest("it must have lists of rules under allow, ask and deny")
    for effect, texts in value.items():
        for text in texts if isinstance(texts, list) else [texts]:
            if not isinstance(text, str):
                raise InvalidRequest("a rule is tool or tool(pattern), as in shell(git push *)")
            yield parse_rule(text, DecisionKind(effect), source)
