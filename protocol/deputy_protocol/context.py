"""What users have written down for agents, and what a prompt can name."""

from enum import StrEnum

from pydantic import Field

from deputy_protocol.base import Count, Flag, Params, Positive, Wire


class InstructionInfo(Wire):
    """A file that is part of every system prompt below its folder."""

    uri: str
    reason: str
    """Why it is read: where it stands, in words."""
    bytes: Count
    truncated: Flag
    """Whether agents are told only its beginning."""


class SkillInfo(Wire):
    """A skill that agents can read when they need it."""

    name: str
    description: str
    uri: str


class CommandInfo(Wire):
    """A prompt that is called as `/name arguments`."""

    name: str
    description: str
    argument_hint: str | None = None
    uri: str


class ContextProblem(Wire):
    """A file that cannot be used, or not whole."""

    uri: str
    line: Positive
    reason: str


class McpServerState(StrEnum):
    """How far an MCP server is."""

    NEW = "new"
    ASKED = "asked"
    """The user was asked whether it may be started, and has not answered."""
    REFUSED = "refused"
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"


class McpServerInfo(Wire):
    """An MCP server, and what it has while it runs."""

    name: str
    uri: str | None = None
    """The file that names it; absent: the settings do."""
    starts: str
    """The command line or the address."""
    state: McpServerState
    problem: str | None = None
    """Why it does not run."""
    tools: tuple[str, ...]
    """By the names that agents use."""
    resources: tuple[str, ...]
    """URIs."""
    prompts: tuple[str, ...]


class ContextListResult(Wire):
    """What holds in a session now; of instructions the nearest stands last."""

    instructions: tuple[InstructionInfo, ...]
    skills: tuple[SkillInfo, ...]
    commands: tuple[CommandInfo, ...]
    servers: tuple[McpServerInfo, ...]
    problems: tuple[ContextProblem, ...]


class CompletionKind(StrEnum):
    """What a completion names."""

    COMMAND = "command"
    FILE = "file"
    FOLDER = "folder"
    CONTEXT = "context"
    """What the editor knows: `@diagnostics`."""


class CompleteParams(Params):
    """A prompt that is being written."""

    session_id: str
    text: str = Field(max_length=100_000)
    """The prompt up to the cursor."""


class Completion(Wire):
    """One way to go on."""

    text: str
    """What stands in the place of `replace`."""
    kind: CompletionKind
    detail: str | None = None


class CompleteResult(Wire):
    """How the prompt can go on; nothing where it names nothing."""

    replace: str
    """The end of the text that a completion takes the place of."""
    items: tuple[Completion, ...]
