"""The delegation tools: the tools with which a model starts sub-agents.

A delegation tool does not run a child. It returns a :class:`SpawnSpec` for each child, and the session's supervisor
starts the children. The tools differ only in their input and in how outcomes become the tool result:

==================  =====  ==================================================
``spawn_agent``     waits  the bare final answer
``spawn_agents``    waits  the outcomes of all, as JSON in the order of the tasks
a typed definition  waits  the answer, in the definition's template
``task``            no     ``{task_id, status, message}``; a later message
                           reports the end
==================  =====  ==================================================
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field, PrivateAttr

from deputy_agents.definition.definition import Definition
from deputy_agents.definition.typed import first_message, label_source
from deputy_agents.domain.access import Access
from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import ToolKind
from deputy_agents.domain.model_card import Effort
from deputy_agents.domain.result_style import ResultStyle, Template
from deputy_agents.domain.rule import AccessRequest, Action
from deputy_agents.files.place import PathKind
from deputy_agents.ports.model import ToolSpec
from deputy_agents.tool.args import Args, ArgsTool
from deputy_agents.tool.base import Prepared, ToolContext
from deputy_agents.tool.registry import READ_ONLY
from deputy_agents.tool.spawn_options import SpawnOptions, with_models
from deputy_agents.tool.typed import TypedArgs, parse_typed, spec_of

GENERAL = "general"
DELEGATION_TOOLS = ("spawn_agent", "spawn_agents", "task")
"""Typed definitions are delegation tools too, under their own names."""

SESSION_TOOLS = ("list_agents", "get_agent", "todo", "ask_user")
_HARMLESS = READ_ONLY | {*SESSION_TOOLS, "submit_result", "submit_error"}

Mode = Literal["read_only", "default"]
NonBlank = Annotated[str, Field(min_length=1, pattern=r"\S")]
ModeField = Annotated[
    Mode, Field(description="read_only: search and read only. default: also propose edits, which the user approves.")
]


@dataclass(frozen=True, slots=True)
class SpawnSpec:
    """One child that a delegation tool requests. ``task`` and ``context`` form its first message. ``timeout`` is in
    seconds of running time; ``None`` uses the limit of its definition or of the settings. ``model`` (a name, or a word
    for one) and ``effort`` replace those of its definition. ``resume`` is the id of a child that has ended, of which
    this is a further run. The parent does not wait for ``background`` children."""

    task: str
    label: str
    definition: str
    access: Access
    cwd: Path
    context: str | None = None
    timeout: float | None = None
    references: bool = False
    background: bool = False
    resume: str | None = None
    model: str | None = None
    effort: Effort | None = None

    @property
    def first_message(self) -> str:
        parts = [self.task]
        if self.context:
            parts.append(f"Context from the agent that delegates this:\n{self.context}")
        if self.references:
            parts.append(REFERENCES_REQUIRED)
        return "\n\n".join(parts)


REFERENCES_REQUIRED = (
    "Support your answer with exact file references, each written as `path:start-end` (or `path:line`) with a path "
    "relative to the workspace root and line numbers that you have seen."
)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A child that the supervisor has accepted; ``position`` is its position in the queue if it is queued."""

    agent_id: str
    position: int | None = None


class DelegationTool(Protocol):
    """A tool whose calls start children."""

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def kind(self) -> ToolKind: ...

    @property
    def style(self) -> ResultStyle: ...

    def parse(self, input: Mapping[str, object]) -> Any: ...

    async def prepare(self, args: Any, context: ToolContext) -> Prepared: ...

    def children(self, args: Any, context: ToolContext) -> tuple[SpawnSpec, ...]:
        """The children of one call, in the order of their results; at least one."""
        ...

    def immediate(self, accepted: Sequence[Accepted]) -> str | None:
        """The result of a tool that does not wait for its children; ``None`` for one that waits."""
        ...


def child_access(definition: Definition | None, requested: Access) -> Access:
    """The access of a child: read-only if its definition lists only tools that change nothing, else ``requested``."""
    if definition is None or definition.tools is None or definition.mcp_servers:
        return requested
    return Access.READ_ONLY if _HARMLESS.issuperset(definition.tools) else requested


class _WaitsForChildren:
    def immediate(self, accepted: Sequence[Accepted]) -> str | None:
        del accepted
        return None


def spawn_request(tool: str, definition: str, access: Access) -> AccessRequest:
    """The access request for starting a child: its definition, and whether it may change things."""
    action = Action.SPAWN_READ_ONLY if access is Access.READ_ONLY else Action.SPAWN
    return AccessRequest(tool, action, definition)


# -- spawn_agent ---------------------------------------------------------------------------------------------------


class SpawnAgentArgs(SpawnOptions):
    instructions: Annotated[
        NonBlank, Field(description="The complete task. The sub-agent does not see this conversation.")
    ]
    context: Annotated[
        str, Field(description="What the sub-agent needs to know in addition to its task: findings, decisions, names.")
    ] = ""
    mode: ModeField = "read_only"
    require_file_references: Annotated[
        bool, Field(description="The answer must cite code as path:start-end; an answer that does not is sent back.")
    ] = False


class SpawnAgent(_WaitsForChildren, ArgsTool[SpawnAgentArgs]):
    """``spawn_agent``: starts one child; its final answer is the result."""

    style: ResultStyle = "bare"

    def __init__(self, models: Sequence[str] = ()) -> None:
        super().__init__(
            "spawn_agent",
            ToolKind.THINK,
            SpawnAgentArgs,
            "Start a sub-agent with its own context window and wait for its final answer, which is the result. Use it "
            "for searching and reading that would fill this conversation. Several calls in one response run in "
            "parallel if they are read_only.",
        )
        self._spec = with_models(self._spec, models)

    async def prepare(self, args: SpawnAgentArgs, context: ToolContext) -> Prepared:
        del context
        return Prepared(args.label(args.instructions), (spawn_request(self.name, GENERAL, Access(args.mode)),))

    def children(self, args: SpawnAgentArgs, context: ToolContext) -> tuple[SpawnSpec, ...]:
        return (
            SpawnSpec(
                task=args.instructions,
                label=args.label(args.instructions),
                definition=GENERAL,
                access=Access(args.mode),
                cwd=context.cwd,
                context=args.context or None,
                timeout=args.timeout,
                references=args.require_file_references,
                model=args.model or None,
                effort=args.chosen_effort,
            ),
        )


# -- spawn_agents --------------------------------------------------------------------------------------------------


class TaskArgs(SpawnOptions):
    task: Annotated[NonBlank, Field(description="Complete, self-contained task description for the sub-agent.")]
    cwd: Annotated[str, Field(description="Folder to work in (default: yours).")] = ""
    mode: ModeField = "read_only"
    subagent_type: Annotated[str, Field(description="Name of the definition to use.")] = GENERAL
    context: Annotated[str, Field(description="What the sub-agent needs to know in addition to its task.")] = ""


class SpawnAgentsArgs(Args):
    tasks: Annotated[list[TaskArgs], Field(min_length=1, description="Tasks to execute in parallel.")]
    _folders: tuple[Path, ...] = PrivateAttr(default=())

    async def locate_folders(self, context: ToolContext) -> None:
        """Resolve and store the folder of each task. Raises ToolError if one is not a folder of the workspace."""
        self._folders = tuple([await _child_folder(task.cwd, context) for task in self.tasks])

    def tasks_with_folders(self) -> Iterator[tuple[TaskArgs, Path]]:
        return zip(self.tasks, self._folders, strict=True)


class SpawnAgents(_WaitsForChildren, ArgsTool[SpawnAgentsArgs]):
    """``spawn_agents``: starts several children; the result has every outcome, in the order of the tasks."""

    style: ResultStyle = "aggregate"

    def __init__(self, definitions: Mapping[str, Definition], models: Sequence[str] = ()) -> None:
        self._definitions = definitions
        super().__init__(
            "spawn_agents",
            ToolKind.THINK,
            SpawnAgentsArgs,
            "Start several sub-agents on independent tasks in parallel and wait for all of them. Use it to get several "
            "perspectives on one question, to explore unfamiliar parts of a code base, or to divide and conquer. The "
            "result is JSON with the outcome of every task; one failure does not fail the others.",
        )
        self._spec = with_models(self._spec, models)

    async def prepare(self, args: SpawnAgentsArgs, context: ToolContext) -> Prepared:
        await args.locate_folders(context)
        target = f"{len(args.tasks)} tasks" if len(args.tasks) > 1 else args.tasks[0].label(args.tasks[0].task)
        access = dict.fromkeys(
            spawn_request(
                self.name,
                task.subagent_type,
                child_access(self._definitions.get(task.subagent_type), Access(task.mode)),
            )
            for task in args.tasks
        )
        return Prepared(target, tuple(access))

    def children(self, args: SpawnAgentsArgs, context: ToolContext) -> tuple[SpawnSpec, ...]:
        del context
        return tuple(
            SpawnSpec(
                task=task.task,
                label=task.label(task.task),
                definition=task.subagent_type,
                access=Access(task.mode),
                cwd=cwd,
                context=task.context or None,
                timeout=task.timeout,
                model=task.model or None,
                effort=task.chosen_effort,
            )
            for task, cwd in args.tasks_with_folders()
        )


async def _child_folder(path: str, context: ToolContext) -> Path:
    """The working directory of a child.

    Raises:
        ToolError: it is outside the workspace or not a folder.
    """
    if not path:
        return context.cwd
    place = await context.workspace.locate(path, context.cwd)
    if place.kind is not PathKind.FOLDER:
        raise ToolError(f"cwd: {context.workspace.shown(place, context.cwd)} is not a folder.")
    return place.path


# -- task ----------------------------------------------------------------------------------------------------------


class BackgroundArgs(SpawnOptions):
    description: Annotated[NonBlank, Field(description="Name of the task for the user, in three to six words.")]
    prompt: Annotated[NonBlank, Field(description="The complete task. The sub-agent does not see this conversation.")]
    subagent_type: Annotated[str, Field(description="Name of the definition to use.")]
    task_id: Annotated[str, Field(description="Continue the ended task with this id; it keeps its conversation.")] = ""
    context: Annotated[str, Field(description="What the sub-agent needs to know in addition to its task.")] = ""


class Task(ArgsTool[BackgroundArgs]):
    """``task``: starts one child in the background. The call returns at once; a later message reports the end."""

    style: ResultStyle = "bare"

    def __init__(self, definitions: Mapping[str, Definition], models: Sequence[str] = ()) -> None:
        self._definitions = definitions
        super().__init__(
            "task",
            ToolKind.THINK,
            BackgroundArgs,
            "Start a sub-agent in the background, or continue one by task_id. The call returns at once; continue with "
            "other work. When the sub-agent ends, you get a message with its task_id, status and summary. Do not poll "
            "its state.",
        )
        self._spec = with_models(self._spec, models)

    async def prepare(self, args: BackgroundArgs, context: ToolContext) -> Prepared:
        del context
        access = child_access(self._definitions.get(args.subagent_type), Access.DEFAULT)
        return Prepared(args.label(args.description), (spawn_request(self.name, args.subagent_type, access),))

    def children(self, args: BackgroundArgs, context: ToolContext) -> tuple[SpawnSpec, ...]:
        return (
            SpawnSpec(
                task=args.prompt,
                label=args.label(args.description),
                definition=args.subagent_type,
                access=Access.DEFAULT,
                cwd=context.cwd,
                context=args.context or None,
                timeout=args.timeout,
                background=True,
                resume=args.task_id or None,
                model=args.model or None,
                effort=args.chosen_effort,
            ),
        )

    def immediate(self, accepted: Sequence[Accepted]) -> str | None:
        (child,) = accepted
        queued = child.position is not None
        message = f"The task is number {child.position} in the queue." if queued else "The task is running."
        return json.dumps(
            {
                "task_id": child.agent_id,
                "status": "queued" if queued else "running",
                "message": f"{message} You will get a message when it ends.",
            }
        )


# -- typed definitions ---------------------------------------------------------------------------------------------


class TypedAgentTool(_WaitsForChildren):
    """The tool of a definition with an input schema; it has the name of the definition, and a call starts one child
    with that definition."""

    kind = ToolKind.THINK

    def __init__(self, definition: Definition, models: Sequence[str] = ()) -> None:
        self.definition = definition
        self.spec = with_models(spec_of(definition), models)
        self.style: ResultStyle = Template(definition.result_format) if definition.result_format else "bare"
        self._access = child_access(definition, Access.DEFAULT)

    def parse(self, input: Mapping[str, object]) -> TypedArgs:
        return parse_typed(self.definition, input)

    async def prepare(self, args: TypedArgs, context: ToolContext) -> Prepared:
        del context
        name = self.definition.name
        return Prepared(self._label(args), (spawn_request(name, name, self._access),))

    def children(self, args: TypedArgs, context: ToolContext) -> tuple[SpawnSpec, ...]:
        return (
            SpawnSpec(
                task=first_message(self.definition, args.fields),
                label=self._label(args),
                definition=self.definition.name,
                access=self._access,
                cwd=context.cwd,
                timeout=args.options.timeout,
                model=args.options.model or None,
                effort=args.options.chosen_effort,
            ),
        )

    def _label(self, args: TypedArgs) -> str:
        return args.options.label(label_source(self.definition, args.fields))


def delegation_tools(definitions: Mapping[str, Definition], models: Sequence[str] = ()) -> dict[str, DelegationTool]:
    """All delegation tools by name: the general ones, then one for each of ``definitions`` with an input schema.
    ``models`` are the models that an agent may choose by name."""
    general = (SpawnAgent(models), SpawnAgents(definitions, models), Task(definitions, models))
    typed = (TypedAgentTool(one, models) for one in definitions.values() if one.input_schema is not None)
    return {tool.spec.name: tool for tool in (*general, *typed)}
