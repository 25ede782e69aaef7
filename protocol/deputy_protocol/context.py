"""What users have written for agents, and what a prompt can refer to."""

from enum import StrEnum

from pydantic import Field

from deputy_protocol.base import Count, Flag, Number, Params, Positive, Wire


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
    """What the user runs as `/name arguments`: a prompt in a file, or a command of Deputy, which the server carries out
    when it receives it as a prompt."""

    name: str
    description: str
    argument_hint: str | None = None
    """Which arguments to write, for the user."""
    uri: str | None = None
    """The file. Absent for a command of Deputy."""
    builtin: Flag | None = None
    """Present and true for a command of Deputy."""


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
    NEEDS_SIGN_IN = "needs_sign_in"
    """It runs once you have signed in there: `deputy mcp login NAME`."""
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


class ContextUsageParams(Params):
    """An agent of a session."""

    session_id: str
    agent_id: str | None = None
    """Default: the primary agent."""


class ContextPartName(StrEnum):
    """A part of the context window. `system` is the prompt without `instructions`, `tools` are the tools without those
    of MCP servers (`mcp`), `messages` are the messages without tool results (`results`)."""

    SYSTEM = "system"
    TOOLS = "tools"
    MCP = "mcp"
    INSTRUCTIONS = "instructions"
    MESSAGES = "messages"
    RESULTS = "results"
    FREE = "free"


class ContextPart(Wire):
    """How much a part of the context window takes."""

    name: ContextPartName
    tokens: Count


class ContextUsageResult(Wire):
    """What the next request of an agent contains, in tokens. The total is what the model's service has counted, as far
    as it has; the parts are estimates that add up to it."""

    window: Positive
    """Size of the context window."""
    used: Count
    parts: tuple[ContextPart, ...]
    cached_share: Number | None = None
    """The part of the last request that came from the provider's cache, from 0 to 1. Absent before the first reply."""
    compacts_at: Count | None = None
    """The number of tokens above which the conversation is compacted."""


class SessionCompactParams(Params):
    """The session to compact."""

    session_id: str
    keep: str | None = Field(default=None, max_length=2000)
    """What the summary must contain, in the user's words."""


class SessionCompactResult(Wire):
    """The size of the next request, in tokens."""

    before: Count
    after: Count


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
