"""The doors to sub-agents, as the model sees them.

A door never runs a child: it says which children it wants (:class:`SpawnSpec`), and the session's supervisor starts
them. Doors differ only in what they ask of the model and in how outcomes become the tool result:

==================  =====  ================================================
``spawn_agent``     waits  the bare final answer
``spawn_agents``    waits  the outcomes of all, as JSON in the order of the tasks
a typed definition  waits  the answer, in the definition's template
``task``            no     ``{task_id, status, message}``; the end is told later
==================  =====  ================================================
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
from deputy_agents.domain.result_style import ResultStyle, Template
from deputy_agents.domain.rule import AccessRequest, Action
from deputy_agents.files.workspace import PathKind
from deputy_agents.ports.model import ToolSpec
from deputy_agents.text import label_of
from deputy_agents.tool.args import Args, ArgsTool
from deputy_agents.tool.base import Prepared, ToolContext
from deputy_agents.tool.registry import READ_ONLY
from deputy_agents.tool.typed import TIMEOUT, TypedArgs, parse_typed, spec_of

GENERAL = "general"
DELEGATION_TOOLS = ("spawn_agent", "spawn_agents", "task")
"""Typed definitions are doors too, under their own names."""

SESSION_TOOLS = ("list_agents", "get_agent", "todo")
_HARMLESS = READ_ONLY | {*SESSION_TOOLS, "submit_result", "submit_error"}

Mode = Literal["read_only", "default"]
NonBlank = Annotated[str, Field(min_length=1, pattern=r"\S")]
Timeout = Annotated[float | None, Field(gt=0, description=TIMEOUT)]
ModeField = Annotated[
    Mode, Field(description="read_only: search and read. default: also propose edits, each approved by the user.")
]


@dataclass(frozen=True, slots=True)
class SpawnSpec:
    """One child that a door asks for. ``task`` and ``context`` make its first message; ``timeout`` is in seconds of
    running time, or ``None`` for what its definition or the settings say. With ``resume`` it is a further run of the
    ended child of that id. ``background`` children are not waited for."""

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

    @property
    def first_message(self) -> str:
        parts = [self.task]
        if self.context:
            parts.append(f"Context from the agent that delegates this:\n{self.context}")
        if self.references:
            parts.append(REFERENCES_WANTED)
        return "\n\n".join(parts)


REFERENCES_WANTED = (
    "Support your answer with exact file references, each written as `path:start-end` (or `path:line`) with a path "
    "relative to the workspace root and line numbers that you have seen."
)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A child that the supervisor has accepted; ``position`` is its place in the queue, if it waits."""

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
        """The children of one call, in the order in which their results are wanted; at least one."""
        ...

    def immediate(self, accepted: Sequence[Accepted]) -> str | None:
        """The result of a door that does not wait; ``None`` for one that does."""
        ...


def lowered(definition: Definition | None, wanted: Access) -> Access:
    """The access of a child: a definition that lists only tools that change nothing has no use for more."""
    if definition is None or definition.tools is None or definition.servers:
        return wanted
    return Access.READ_ONLY if _HARMLESS.issuperset(definition.tools) else wanted


class _Waiting:
    def immediate(self, accepted: Sequence[Accepted]) -> str | None:
        del accepted
        return None


def spawning(tool: str, definition: str, access: Access) -> AccessRequest:
    """What the gate decides about a door: which definition, and whether the child may change things."""
    action = Action.SPAWN_READ_ONLY if access is Access.READ_ONLY else Action.SPAWN
    return AccessRequest(tool, action, definition)


# -- spawn_agent ---------------------------------------------------------------------------------------------------


class SpawnAgentArgs(Args):
    instructions: Annotated[
        NonBlank, Field(description="The whole task. The sub-agent sees nothing of this conversation.")
    ]
    context: Annotated[
        str, Field(description="What the sub-agent has to know beside its task: findings, decisions, names.")
    ] = ""
    mode: ModeField = "read_only"
    require_file_references: Annotated[
        bool, Field(description="The answer must name places as path:start-end; one without is sent back.")
    ] = False
    timeout: Timeout = None


class SpawnAgent(_Waiting, ArgsTool[SpawnAgentArgs]):
    """``spawn_agent``: one child; its final answer is the result."""

    style: ResultStyle = "bare"

    def __init__(self) -> None:
        super().__init__(
            "spawn_agent",
            ToolKind.THINK,
            SpawnAgentArgs,
            "Start a sub-agent with a context of its own and wait for its final answer, which is the result. Use it "
            "for searching and reading that would fill this conversation. Several calls in one response run in "
            "parallel when they are read_only.",
        )

    async def prepare(self, args: SpawnAgentArgs, context: ToolContext) -> Prepared:
        del context
        return Prepared(label_of(args.instructions), (spawning(self.name, GENERAL, Access(args.mode)),))

    def children(self, args: SpawnAgentArgs, context: ToolContext) -> tuple[SpawnSpec, ...]:
        return (
            SpawnSpec(
                task=args.instructions,
                label=label_of(args.instructions),
                definition=GENERAL,
                access=Access(args.mode),
                cwd=context.cwd,
                context=args.context or None,
                timeout=args.timeout,
                references=args.require_file_references,
            ),
        )


# -- spawn_agents --------------------------------------------------------------------------------------------------


class TaskArgs(Args):
    task: Annotated[NonBlank, Field(description="Task description for the sub-agent, complete in itself.")]
    cwd: Annotated[str, Field(description="Folder to work in (default: yours).")] = ""
    mode: ModeField = "read_only"
    subagent_type: Annotated[str, Field(description="Name of the definition to use.")] = GENERAL
    context: Annotated[str, Field(description="What the sub-agent has to know beside its task.")] = ""
    timeout: Timeout = None


class SpawnAgentsArgs(Args):
    tasks: Annotated[list[TaskArgs], Field(min_length=1, description="Tasks to execute in parallel.")]
    _folders: tuple[Path, ...] = PrivateAttr(default=())

    async def look(self, context: ToolContext) -> None:
        """Finds each task's folder. Raises ToolError when there is none inside the workspace."""
        self._folders = tuple([await folder(task.cwd, context) for task in self.tasks])

    def placed(self) -> Iterator[tuple[TaskArgs, Path]]:
        """Each task with its folder."""
        return zip(self.tasks, self._folders, strict=True)


class SpawnAgents(_Waiting, ArgsTool[SpawnAgentsArgs]):
    """``spawn_agents``: fan out, fan in; the result holds every outcome, in the order of the tasks."""

    style: ResultStyle = "aggregate"

    def __init__(self, definitions: Mapping[str, Definition]) -> None:
        self._definitions = definitions
        super().__init__(
            "spawn_agents",
            ToolKind.THINK,
            SpawnAgentsArgs,
            "Start several sub-agents on independent tasks at once and wait for all. Use it for several perspectives "
            "on one thing, for unfamiliar parts of a code base, or to divide and conquer. The result is JSON with the "
            "outcome of every task; one failure does not fail the others.",
        )

    async def prepare(self, args: SpawnAgentsArgs, context: ToolContext) -> Prepared:
        await args.look(context)
        many = f"{len(args.tasks)} tasks" if len(args.tasks) > 1 else label_of(args.tasks[0].task)
        access = dict.fromkeys(
            spawning(
                self.name, task.subagent_type, lowered(self._definitions.get(task.subagent_type), Access(task.mode))
            )
            for task in args.tasks
        )
        return Prepared(many, tuple(access))

    def children(self, args: SpawnAgentsArgs, context: ToolContext) -> tuple[SpawnSpec, ...]:
        del context
        return tuple(
            SpawnSpec(
                task=task.task,
                label=label_of(task.task),
                definition=task.subagent_type,
                access=Access(task.mode),
                cwd=cwd,
                context=task.context or None,
                timeout=task.timeout,
            )
            for task, cwd in args.placed()
        )


async def folder(path: str, context: ToolContext) -> Path:
    """The folder that a child is to work in.

    Raises:
        ToolError: it leads out of the workspace, or is no folder.
    """
    if not path:
        return context.cwd
    place = await context.workspace.locate(path, context.cwd)
    if place.kind is not PathKind.FOLDER:
        raise ToolError(f"cwd: {context.workspace.shown(place, context.cwd)} is no folder.")
    return place.path


# -- task ----------------------------------------------------------------------------------------------------------


class BackgroundArgs(Args):
    description: Annotated[NonBlank, Field(description="Three to six words that name the task to the user.")]
    prompt: Annotated[NonBlank, Field(description="The whole task. The sub-agent sees nothing of this conversation.")]
    subagent_type: Annotated[str, Field(description="Name of the definition to use.")]
    task_id: Annotated[str, Field(description="Continue the ended task of this id, with all that it knows.")] = ""
    context: Annotated[str, Field(description="What the sub-agent has to know beside its task.")] = ""
    timeout: Timeout = None


class Task(ArgsTool[BackgroundArgs]):
    """``task``: one child in the background. The call answers at once; its end is told in a later message."""

    style: ResultStyle = "bare"

    def __init__(self, definitions: Mapping[str, Definition]) -> None:
        self._definitions = definitions
        super().__init__(
            "task",
            ToolKind.THINK,
            BackgroundArgs,
            "Start a sub-agent in the background, or continue one by task_id. The answer comes at once; go on with "
            "other work. When the sub-agent ends you are told in a message with its task_id, status and summary. Do "
            "not ask for its state in the meantime.",
        )

    async def prepare(self, args: BackgroundArgs, context: ToolContext) -> Prepared:
        del context
        access = lowered(self._definitions.get(args.subagent_type), Access.DEFAULT)
        return Prepared(label_of(args.description), (spawning(self.name, args.subagent_type, access),))

    def children(self, args: BackgroundArgs, context: ToolContext) -> tuple[SpawnSpec, ...]:
        return (
            SpawnSpec(
                task=args.prompt,
                label=label_of(args.description),
                definition=args.subagent_type,
                access=Access.DEFAULT,
                cwd=context.cwd,
                context=args.context or None,
                timeout=args.timeout,
                background=True,
                resume=args.task_id or None,
            ),
        )

    def immediate(self, accepted: Sequence[Accepted]) -> str | None:
        (child,) = accepted
        queued = child.position is not None
        message = f"It waits for a free place, number {child.position} in the queue." if queued else "It runs."
        return json.dumps(
            {
                "task_id": child.agent_id,
                "status": "queued" if queued else "running",
                "message": f"{message} You will be told when it ends.",
            }
        )


# -- typed definitions ---------------------------------------------------------------------------------------------


class TypedAgentTool(_Waiting):
    """A definition with an input schema: a tool of its own name whose calls start one child of that kind."""

    kind = ToolKind.THINK

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.spec = spec_of(definition)
        self.style: ResultStyle = Template(definition.result_format) if definition.result_format else "bare"
        self._access = lowered(definition, Access.DEFAULT)

    def parse(self, input: Mapping[str, object]) -> TypedArgs:
        return parse_typed(self.definition, input)

    async def prepare(self, args: TypedArgs, context: ToolContext) -> Prepared:
        del context
        name = self.definition.name
        return Prepared(label_of(label_source(self.definition, args.fields)), (spawning(name, name, self._access),))

    def children(self, args: TypedArgs, context: ToolContext) -> tuple[SpawnSpec, ...]:
        return (
            SpawnSpec(
                task=first_message(self.definition, args.fields),
                label=label_of(label_source(self.definition, args.fields)),
                definition=self.definition.name,
                access=self._access,
                cwd=context.cwd,
                timeout=args.timeout,
            ),
        )


def doors(definitions: Mapping[str, Definition]) -> dict[str, DelegationTool]:
    """All doors by name; each of ``definitions`` that has an input schema is one, behind the general ones."""
    general: tuple[DelegationTool, ...] = (SpawnAgent(), SpawnAgents(definitions), Task(definitions))
    typed = (TypedAgentTool(definition) for definition in definitions.values() if definition.input_schema is not None)
    return {door.spec.name: door for door in (*general, *typed)}
