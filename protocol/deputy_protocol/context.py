"""What users have written for agents, and what a prompt can refer to."""

from enum import StrEnum

from pydantic import Field

from deputy_protocol.base import Count, Flag, Params, Positive, Wire


class InstructionInfo(Wire):
    """A file that is part of the system prompt of every agent that works below the file's folder."""

    uri: str
    reason: str
    """Why the file is used, for the user."""
    bytes: Count
    truncated: Flag
    """Whether only the beginning of the file is used."""


class SkillInfo(Wire):
    """A skill that agents can read when they need it."""

    name: str
    description: str
    uri: str


class CommandInfo(Wire):
    """A prompt that the user runs as `/name arguments`."""

    name: str
    description: str
    argument_hint: str | None = None
    """Which arguments to write, for the user."""
    uri: str


class ContextProblem(Wire):
    """A file that cannot be used, or only in part."""

    uri: str
    line: Positive
    reason: str
    """What is wrong, for the user."""


class McpServerState(StrEnum):
    """State of an MCP server."""

    NEW = "new"
    ASKED = "asked"
    """It waits for the user's approval."""
    REFUSED = "refused"
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"


class McpServerInfo(Wire):
    """An MCP server, and what it offers while it runs."""

    name: str
    uri: str | None = None
    """The file that defines it. Absent when the settings define it."""
    starts: str
    """Its command line or its address."""
    state: McpServerState
    problem: str | None = None
    """Why it does not run."""
    tools: tuple[str, ...]
    """Tool names, as agents use them."""
    resources: tuple[str, ...]
    """URIs of its resources."""
    prompts: tuple[str, ...]
    """Names of its prompts."""


class ContextListResult(Wire):
    """What applies in a session now."""

    instructions: tuple[InstructionInfo, ...]
    """The file nearest to the session's folder comes last."""
    skills: tuple[SkillInfo, ...]
    commands: tuple[CommandInfo, ...]
    servers: tuple[McpServerInfo, ...]
    """MCP servers."""
    problems: tuple[ContextProblem, ...]


class CompletionKind(StrEnum):
    """What a completion names."""

    COMMAND = "command"
    FILE = "file"
    FOLDER = "folder"
    CONTEXT = "context"
    """Information from the editor: `@diagnostics`."""


class CompleteParams(Params):
    """A prompt that the user is writing."""

    session_id: str
    text: str = Field(max_length=100_000)
    """The prompt up to the cursor."""


class Completion(Wire):
    """One way to continue the prompt."""

    text: str
    """The text to insert in place of `replace`."""
    kind: CompletionKind
    detail: str | None = None
    """A short description, for the user."""


class CompleteResult(Wire):
    """How the prompt can be continued. Empty where there is nothing to complete."""

    replace: str
    """The end of the prompt, which a completion replaces."""
    items: tuple[Completion, ...]
