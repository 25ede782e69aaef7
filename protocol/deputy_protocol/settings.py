"""Clients send settings in `initializationOptions`, and later with `workspace/didChangeConfiguration` in the section
`deputy`. Each notification contains all settings. An absent or `null` setting has its default; an unknown setting is
ignored. An invalid setting is rejected with error -32602, which names it. If it was part of a changed configuration,
the previous settings stay in force and the user sees a message. Times are in seconds."""

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from pydantic import ConfigDict, Field

from deputy_protocol.base import WIRE_CONFIG, Count, Flag, JsonObject, Number, Params, Positive
from deputy_protocol.rule import RuleAction
from deputy_protocol.session import PermissionMode

_ABSOLUTE = r"^(?:~$|~?[/\\]|[A-Za-z]:[/\\])"

Above: TypeAlias = Annotated[Number, Field(gt=0)]

ENVIRONMENT: Final = {
    "DEPUTY_MODEL": "Model to use if the setting `model` is not set.",
    "ANTHROPIC_BASE_URL": "Address of the Messages API if the setting `baseUrl` is not set.",
    "ANTHROPIC_API_KEY": "Key of the Messages API if no setting provides one.",
    "DEPUTY_MODELS": "A TOML file with prices and context windows of models. It overrides the built-in values.",
    "DEPUTY_TOKEN": "Token for clients over TCP and WebSocket. When absent, the server generates one and prints it.",
    "DEPUTY_STATE": "Folder for the session store and the logs. Only its owner can read the files.",
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
    connect_timeout: Above = 10.0
    """Connection timeout in seconds."""
    idle_timeout: Above = 120.0
    """Seconds without any data after which a response of the model times out."""


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
    wake_on_task_end: Flag = True
    """Start a turn when a background task ends while the primary agent is idle. When off, the result is delivered with
    the next prompt."""


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
    """Seconds that permission requests and running agents wait for a disconnected client to reconnect over TCP or
    WebSocket. Over stdio nothing waits."""


class RootSetting(Params):
    """A folder in addition to the workspace."""

    path: Annotated[str, Field(pattern=_ABSOLUTE)]
    """Absolute path of the folder; `~` is the home folder."""
    writable: Flag = False
    """Allow changes to files in this folder, with the same approvals as in the workspace."""


class ShellSettings(Params):
    """How shell commands run: in bash, without a terminal, and without the secrets of your environment."""

    env: tuple[str, ...] = ()
    """Names of environment variables that commands get in addition to the usual ones (`PATH`, `HOME`, `LANG` and
    similar). `*` matches any text, as in `CI_*`."""
    timeout: Above = 120.0
    """Timeout in seconds for commands that do not set their own."""
    sandbox: Flag = False
    """Run commands in a sandbox, without network access and without write access outside the workspace. Needs Linux and
    bubblewrap (`bwrap`); without it, commands are rejected."""


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


class SessionsSettings(Params):
    """How long stored sessions are kept."""

    keep_days: Positive | None = None
    """Delete sessions that have not been used for this many days, with all their data. Deputy checks at startup and
    once a day. When absent, sessions are kept until you delete them."""


class HookEvent(StrEnum):
    """When a hook runs."""

    BEFORE_TOOL = "before_tool"
    """Before a tool call that is allowed. The call runs only if the command exits with 0."""
    AFTER_TOOL = "after_tool"
    """After a tool call. If the command fails, its output is passed to the agent."""
    TURN_END = "turn_end"
    """At the end of a turn. If the command exits with 2, the agent continues to work, at most once."""


class HookSetting(Params):
    """A command that Deputy runs at a certain event. It receives a description of the event as JSON on standard
    input."""

    on: HookEvent
    """When the command runs."""
    run: str
    """A command line for bash."""
    tools: tuple[str, ...] = ()
    """Names of the tools that the hook applies to, as in rules. Empty means all tools."""
    timeout: Above = 60.0
    """Timeout in seconds, at most 600. A timeout counts as a failure."""


class Settings(Params):
    """All settings."""

    model: str | None = None
    """Model of the primary agent. `offline` is built in and needs no key. When absent: `DEPUTY_MODEL` if set; otherwise
    a model of the Messages API if a key is configured; otherwise `offline`."""
    max_tokens: Positive = 16384
    """Maximum number of tokens in one model response."""
    small_model: str | None = None
    """A cheaper model for agent definitions that request one. When absent, the model of the primary agent."""
    base_url: str | None = None
    """Address of the Messages API, or of a local server that implements it. When absent, `ANTHROPIC_BASE_URL`."""
    api: ApiSettings = Field(default_factory=ApiSettings)
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
    sessions: SessionsSettings = Field(default_factory=SessionsSettings)
    hooks: tuple[HookSetting, ...] = ()
    """Commands that run before and after tool calls and at the end of a turn, in addition to those in
    `~/.deputy/settings.json` and, if the workspace is explicitly trusted, in `.deputy/settings.json`."""
    mcp_servers: dict[str, JsonObject] = Field(default={}, repr=False)
    """MCP servers by name, in the format of `.mcp.json`: `command`, `args` and `env`, or `url` and `headers`. They take
    precedence over those in `~/.deputy/settings.json` and in the workspace. Each needs approval before it starts."""
