"""Clients send settings in `initializationOptions`, and later with `workspace/didChangeConfiguration` in the section
`deputy`. Each notification contains all settings. An absent or `null` setting has its value in the user's
`~/.deputy/settings.json`, or else its default. An unknown setting has no effect, and the user sees a message that names
it. An invalid setting is rejected with error -32602, which names it. If it was part of a changed configuration,
the previous settings stay in force and the user sees a message. Times are in seconds.

Where several clients use one server, settings belong to the client that sends them; a client that sends none has the
defaults. A session runs with the settings and workspace folders of the client that created it or loaded it from the
store, and follows that client's changes. Another client that watches the session or prompts in it changes none of them.
When the client of a session has disconnected and nothing runs there, the next client that uses the session takes it
over, with its settings and folders. Limits of the whole process are the strictest of all connected clients
(`agents.maxParallel`, `agents.maxParallelPerParent`, `agents.queue`, `agents.parallelWriters`); `sessions.keepDays` is
the longest."""

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field
from pydantic_core import SchemaError, SchemaValidator, core_schema

from deputy_protocol.base import WIRE_CONFIG, Count, Flag, JsonObject, Number, Params, Positive
from deputy_protocol.model import Effort, Thinking
from deputy_protocol.rule import RuleAction
from deputy_protocol.session import PermissionMode

_HOST = r"^(?:\*\.)?[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*(?::[0-9]{1,5})?$"
_ABSOLUTE = r"^(?:~$|~?[/\\]|[A-Za-z]:[/\\])"

Above: TypeAlias = Annotated[Number, Field(gt=0)]

ENVIRONMENT: Final = {
    "DEPUTY_MODEL": "Model to use if the setting `model` is not set.",
    "ANTHROPIC_BASE_URL": "Address of the Messages API if the setting `baseUrl` is not set.",
    "ANTHROPIC_API_KEY": "Key of the Messages API if no setting provides one.",
    "ANTHROPIC_AUTH_TOKEN": "The same, for services that expect the key as `Authorization: Bearer`.",
    "OPENAI_BASE_URL": "Address of the service for models with the prefix `openai/` or `openai-responses/`.",
    "OPENAI_API_KEY": "Key of that service. A service on this machine may need none.",
    "DEPUTY_MODELS": "A TOML file with prices, sizes and capabilities of models. It overrides the built-in values.",
    "DEPUTY_TOKEN": "Token for clients over TCP and WebSocket. When absent, the server generates one and prints it.",
    "DEPUTY_CONFIG": "Folder of your own `settings.json`, in place of `~/.deputy`.",
    "DEPUTY_STATE": "Folder for stored sessions, approvals and transcripts. Deputy makes it private, and does not use "
    "it if it, or anything in it, belongs to another user.",
}
"""Environment variables and their meaning."""


class ApiSettings(Params):
    """How Deputy connects to the Messages API."""

    key_command: tuple[str, ...] = ()
    """A program and its arguments that print the API key. It takes precedence over the keyring and `ANTHROPIC_API_KEY`,
    and runs again when the key is rejected."""
    keyring: Flag = False
    """Read the API key from the operating system's keyring, where `keyring set deputy api-key` stores it. Needs the
    Python package `keyring`: install `deputy-ls[keyring]`."""
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    """Additional headers for every request."""
    proxy: str | None = Field(default=None, repr=False)
    """Address of a proxy. When absent, the proxy variables of the environment apply. Connections to this machine never
    use a proxy."""
    connect_timeout: Above = 5.0
    """Seconds to establish a connection, including name lookup and TLS."""
    idle_timeout: Above = 120.0
    """Seconds without any data after which a response of the model times out."""


class ProviderName(StrEnum):
    """The prefix of a provider's models, see `docs/models.md`. `openai` also stands for `openai-responses`."""

    OPENAI = "openai"
    BEDROCK = "bedrock"
    AWS = "aws"
    VERTEX = "vertex"
    FOUNDRY = "foundry"


class ProviderSettings(Params):
    """Where a provider is, and its key. What is absent comes from the environment."""

    model_config = WIRE_CONFIG | ConfigDict(extra="forbid")

    base_url: str | None = None
    """Address of the service, such as `http://localhost:11434/v1` for `openai`."""
    key_command: tuple[str, ...] = ()
    """A program and its arguments that print the key or the access token. It runs again when the key is rejected."""
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    """Additional headers for every request."""
    region: str | None = None
    """Region of the cloud provider."""
    project: str | None = None
    """Project of Google Vertex AI."""
    workspace: str | None = None
    """Workspace of Claude on AWS."""
    resource: str | None = None
    """Resource of Microsoft Foundry."""


class AgentSettings(Params):
    """How many sub-agents run, how deep, and for how long."""

    enabled: Flag = True
    """Enable sub-agents. When off, agents have no tools to start them."""
    max_parallel: Positive = 16
    """Maximum number of sub-agents that run at the same time in the whole process."""
    max_parallel_per_parent: Positive = 8
    """Maximum number of sub-agents of one agent that run at the same time."""
    queue: Count = 64
    """Maximum number of sub-agents that wait to run. Starting another one fails with an error."""
    max_depth: Count = 1
    """Maximum depth of the agent tree below the primary agent. With 1, sub-agents cannot start sub-agents; with 0,
    there are no sub-agents."""
    parallel_writers: Flag = False
    """Run sub-agents of one agent at the same time even if they can change files. When off, those that can change files
    run one after the other."""
    timeout: Above = 900.0
    """Maximum running time of a sub-agent in seconds, not counting the time it waits for the user."""
    models: tuple[str, ...] = ()
    """Names of models that agents may choose for their sub-agents, in addition to `inherit` (the model of the parent),
    `small` (the setting `smallModel`) and `default` (the setting `model`)."""
    wake_on_task_end: Flag = True
    """Start a turn when a background task or process ends while the primary agent is idle. When off, the agent is
    notified with the next prompt."""


class RuleSetting(Params):
    """A permission rule. Unknown fields are rejected, because a misspelled `pattern` would make the rule match more
    than intended."""

    model_config = WIRE_CONFIG | ConfigDict(extra="forbid")

    tool: str
    """Name of a tool, or `*` for all tools."""
    pattern: str | None = None
    """Glob pattern for the target of the tool call: a path relative to its root, a command, a host, or the name of an
    agent definition. When absent, the rule matches every target."""
    action: RuleAction
    """What the rule decides."""


class PermissionSettings(Params):
    """Permission rules, and what happens while no user can be asked."""

    rules: tuple[RuleSetting, ...] = ()
    """Rules for all agents, in addition to those of the workspace (`.deputy/settings.json`). Any matching `deny` rule
    wins, then any `ask` rule, then any `allow` rule."""
    reconnect_grace: Number = 60.0
    """Seconds that agents go on working while no client is connected over TCP or WebSocket; then they are stopped.
    Agents with an open permission request wait for a client as long as it takes. Over stdio nothing waits."""
    reading_commands: Flag = True
    """Run commands that only read files of the workspace, such as `git status` or `head -5 a.py`, without approval. The
    documentation of permissions lists them. Rules that ask or deny apply to them too."""


class RootSetting(Params):
    """A folder in addition to the workspace."""

    path: Annotated[str, Field(pattern=_ABSOLUTE)]
    """Absolute path of the folder; `~` is the home folder."""
    writable: Flag = False
    """Allow changes to files in this folder, with the same approvals as in the workspace."""


class Isolation(StrEnum):
    """With `auto`, commands are isolated where the system can; with `off`, never."""

    AUTO = "auto"
    OFF = "off"


class ShellSettings(Params):
    """How shell commands run: in bash, without a terminal, and without the secrets of your environment."""

    env: tuple[str, ...] = ()
    """Names of environment variables that commands get in addition to the usual ones (`PATH`, `HOME`, `LANG` and
    similar). `*` matches any text, as in `CI_*`."""
    timeout: Above = 120.0
    """Timeout in seconds for commands that do not set their own."""
    sandbox: Flag = False
    """Run all commands in a sandbox, without network access and without write access outside the workspace. Uses
    bubblewrap, or namespaces and Landlock, on Linux, and `sandbox-exec` on macOS; without any of them, commands are
    rejected."""
    auto_approve_sandboxed: Flag = False
    """Run a command that would need approval in the sandbox without asking, if the sandbox holds on this machine: no
    network, no change of protected files or outside the workspace, no secrets. If the command fails because of that,
    you are asked whether to run it again without the sandbox. `deputy doctor` says whether the sandbox holds."""
    sandbox_hosts: tuple[Annotated[str, Field(pattern=_HOST)], ...] = ()
    """Hosts to which sandboxed commands can connect, through a proxy: `example.com`, `*.example.com` for every name
    below it, `host:8080` for a port other than 80 and 443."""
    isolation: Isolation = Isolation.AUTO
    """Whether other processes are out of reach of commands, hooks and MCP servers: they cannot read the environment of
    your editor, and cannot use `sudo`. Needs Linux with user namespaces."""


class BudgetSettings(Params):
    """A limit on what may be used. An absent value means no limit."""

    tokens: Positive | None = None
    """Maximum number of input and output tokens."""
    cost: Above | None = None
    """Maximum cost in US dollars. It applies only to models whose price is known."""
    tool_calls: Positive | None = None
    """Maximum number of tool calls."""
    replies: Positive | None = None
    """Maximum number of model replies."""
    seconds: Above | None = None
    """Maximum running time in seconds. For a tree, the time of one turn."""


class BudgetsSettings(Params):
    """Limits on what each agent (`agent`) and each session (`tree`: the primary agent and all its sub-agents) may use.
    An absent value means no limit. A sub-agent that exceeds its budget fails with `budget_exceeded`; a turn of the
    primary agent ends with `max_turn_requests`."""

    agent: BudgetSettings = Field(default_factory=BudgetSettings)
    """The budget of each agent."""
    tree: BudgetSettings = Field(default_factory=BudgetSettings)
    """The budget of the primary agent and all its sub-agents together."""


class LimitSettings(Params):
    """Limits of single steps."""

    result_bytes: Positive = 16384
    """Maximum size in bytes of a sub-agent's result in events and for its parent. The transcript has the full text."""
    aggregate_bytes: Positive = 131072
    """Maximum size in bytes of all tasks and results of one `spawn_agents` call together. The longest ones are cut."""
    prompt_queue: Count = 32
    """Maximum number of queued prompts of a session."""
    turn_iterations: Positive = 100
    """Maximum number of model requests in one turn of the primary agent. The limit of a sub-agent is in its agent
    definition."""
    cancel_grace: Above = 3.0
    """Seconds that a cancelled agent has to stop before it is ended by force."""


class WebSettings(Params):
    """What agents may read on the web."""

    enabled: Flag = True
    """Give agents tools that read the web. Every new site needs approval."""
    allow_private: Flag = False
    """Also allow this machine and private networks."""
    search: Flag | None = None
    """Let agents search the web with the search of their model's provider, which may cost extra. Searches need
    approval. When absent, search is on if the provider is known to offer it."""


class ReviewSettings(Params):
    """How the changes of agents are shown for review."""

    hints: Flag = False
    """Show each unreviewed change as a diagnostic of the lowest severity. For editors that show no code lenses."""


class SessionsSettings(Params):
    """How long stored sessions are kept."""

    keep_days: Positive | None = None
    """Delete sessions that have not been used for this many days, with all their data. Deputy checks at startup and
    once a day. When absent, sessions are kept until you delete them."""


def _expression(text: str) -> str:
    schema = core_schema.str_schema(pattern=text, regex_engine="rust-regex")
    try:
        SchemaValidator(schema)
    except SchemaError:
        raise ValueError("must be a regular expression, without lookaround and backreferences") from None
    return text


Expression = Annotated[str, Field(max_length=1000), AfterValidator(_expression)]


class HookEvent(StrEnum):
    """When a hook runs."""

    SESSION_START = "session_start"
    """When a session is created or resumed. The agent reads the output."""
    SESSION_END = "session_end"
    """When a session is closed."""
    PROMPT_SUBMIT = "prompt_submit"
    """Before a prompt is accepted. The agent reads the output, and a failure blocks the prompt."""
    BEFORE_TOOL = "before_tool"
    """Before a tool call that no rule denies. The call runs only if the command exits with 0."""
    AFTER_TOOL = "after_tool"
    """After a tool call. If the command fails, its output is passed to the agent."""
    TURN_END = "turn_end"
    """At the end of a turn. If the command exits with 2, the agent continues to work, at most once."""
    SUBAGENT_START = "subagent_start"
    """When a sub-agent starts."""
    SUBAGENT_STOP = "subagent_stop"
    """When a sub-agent has its answer. If the command exits with 2, the sub-agent continues, at most twice."""
    PERMISSION_REQUEST = "permission_request"
    """Before you are asked about a tool call. The command can answer instead."""
    NOTIFICATION = "notification"
    """When an agent needs your approval or input."""
    BEFORE_COMPACTION = "before_compaction"
    """Before the conversation is compacted."""


class HookSetting(Params):
    """A command that Deputy runs at a certain event. It receives a description of the event as JSON on standard
    input."""

    on: HookEvent
    """When the command runs."""
    run: str
    """A command line for bash."""
    tools: tuple[str, ...] = ()
    """Names of the tools that the hook applies to, as in rules. Empty means all tools."""
    matcher: Expression = ""
    """What the hook applies to: names of tools (or of what else the event is about) with `|` between them, or a regular
    expression. Empty means everything."""
    timeout: Above = 60.0
    """Timeout in seconds, at most 600. A timeout counts as a failure."""
    strict: bool = True
    """Whether every failure of the command blocks a tool call or prompt, and not only exit code 2."""


class Settings(Params):
    """All settings."""

    model: str | None = None
    """Model of the primary agent. `offline` is built in and needs no key. When absent: `DEPUTY_MODEL` if set; otherwise
    a model of the Messages API if a key is configured; otherwise `offline`."""
    max_tokens: Positive = 16384
    """Maximum number of tokens in one model response."""
    small_model: str | None = None
    """A cheaper model for agent definitions that request one. When absent, the model of the primary agent."""
    fallback_model: str | None = None
    """Model that replaces another one that is overloaded or rejects requests for long, until the end of the turn or of
    the sub-agent's run. When absent, the turn waits and then fails."""
    effort: Effort | None = None
    """How much work models put into their replies: `low`, `medium`, `high`, `xhigh` or `max`. An agent definition can
    set its own. When absent, the model decides."""
    thinking: Thinking = Thinking.AUTO
    """When models think before they answer: `auto` when it helps, `off` never, `always` before every answer."""
    base_url: str | None = None
    """Address of the Messages API, or of a local server that implements it. When absent, `ANTHROPIC_BASE_URL`."""
    api: ApiSettings = Field(default_factory=ApiSettings)
    providers: dict[ProviderName, ProviderSettings] = Field(default={}, repr=False)
    """Other providers of models, by the prefix of their models: `openai`, `bedrock`, `aws`, `vertex`, `foundry`. Each
    can have `baseUrl`, `keyCommand`, `headers`, `region`, `project`, `workspace` and `resource`."""
    permission_mode: PermissionMode = PermissionMode.DEFAULT
    """What agents of a new session may do without approval."""
    trusted: Flag = True
    """Whether the user trusts the workspace. In an untrusted workspace, no file in it configures agents, and the
    permission mode is `plan`. Workspace rules that allow something apply only if this is explicitly set to true."""
    roots: tuple[RootSetting, ...] = ()
    """Additional folders whose files agents of new sessions may read. Ignored in an untrusted workspace."""
    token: str | None = Field(default=None, repr=False)
    """The server's token: printed by the server, or given to it. Required in `initializationOptions` over TCP."""
    agents: AgentSettings = Field(default_factory=AgentSettings)
    budgets: BudgetsSettings = Field(default_factory=BudgetsSettings)
    limits: LimitSettings = Field(default_factory=LimitSettings)
    web: WebSettings = Field(default_factory=WebSettings)
    permissions: PermissionSettings = Field(default_factory=PermissionSettings)
    shell: ShellSettings = Field(default_factory=ShellSettings)
    review: ReviewSettings = Field(default_factory=ReviewSettings)
    sessions: SessionsSettings = Field(default_factory=SessionsSettings)
    hooks: tuple[HookSetting, ...] = ()
    """Commands that run at events such as before and after tool calls, in addition to those in
    `~/.deputy/settings.json` and, if the workspace is explicitly trusted, in `.deputy/settings.json`."""
    mcp_servers: dict[str, JsonObject] = Field(default={}, repr=False)
    """MCP servers by name, in the format of `.mcp.json`: `command`, `args` and `env`, or `url` and `headers`. They take
    precedence over those in `~/.deputy/settings.json` and in the workspace. Each needs approval before it starts."""
