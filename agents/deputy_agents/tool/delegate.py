"""The doors to sub-agents, as the model sees them.

A door never runs a child: it says which children it wants (:class:`SpawnSpec`), and the session's supervisor starts
them. Doors differ only in what they ask of the model and in how outcomes become the tool result.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field

from deputy_agents.definition import Access
from deputy_agents.event import ToolKind
from deputy_agents.permission.decide import AccessRequest, Action
from deputy_agents.ports import ToolSpec
from deputy_agents.run.state import ResultStyle
from deputy_agents.text import label_of
from deputy_agents.tool.args import Args, ArgsTool
from deputy_agents.tool.base import Prepared, ToolContext


@dataclass(frozen=True, slots=True)
class SpawnSpec:
    """One child that a door asks for. ``task`` and ``context`` make its first message; ``timeout`` is in seconds of
    running time, or ``None`` for what its definition or the settings say."""

    task: str
    label: str
    definition: str
    access: Access
    cwd: Path
    context: str | None = None
    timeout: float | None = None

    @property
    def first_message(self) -> str:
        if not self.context or not self.context.strip():
            return self.task
        return f"{self.task}\n\nContext from the agent that delegates this:\n{self.context}"


class Door(Protocol):
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


class SpawnAgentArgs(Args):
    instructions: Annotated[
        str, Field(pattern=r"\S", description="The whole task. The sub-agent sees nothing of this conversation.")
    ]
    context: Annotated[
        str, Field(description="What the sub-agent has to know beside its task: findings, decisions, names.")
    ] = ""
    mode: Annotated[
        Literal["read_only", "default"],
        Field(description="read_only: search and read. default: also edit files, each edit approved by the user."),
    ] = "read_only"
    timeout: Annotated[
        float | None, Field(gt=0, description="Limit in seconds of running time. Leave out for the default.")
    ] = None


class SpawnAgent(ArgsTool[SpawnAgentArgs]):
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
        action = Action.SPAWN_READ_ONLY if args.mode == "read_only" else Action.SPAWN
        return Prepared(label_of(args.instructions), (AccessRequest(self.name, action, "general"),))

    def children(self, args: SpawnAgentArgs, context: ToolContext) -> tuple[SpawnSpec, ...]:
        return (
            SpawnSpec(
                task=args.instructions,
                label=label_of(args.instructions),
                definition="general",
                access=Access(args.mode),
                cwd=context.cwd,
                context=args.context,
                timeout=args.timeout,
            ),
        )
