"""Settings come in `initializationOptions`, and later by `workspace/didChangeConfiguration` in the section `deputy`,
where each notification holds all of them. A setting that is absent or `null` has its default, and an unknown one is
ignored. One that does not validate is refused with error -32602 naming it; in a changed configuration it leaves the
one before in force, with a message to the user. What is marked as not in this version is read, and has no effect yet.
Times are in seconds.
"""

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from pydantic import ConfigDict, Field

from deputy_protocol.base import WIRE_CONFIG, Count, Flag, JsonObject, Number, Params, Positive
from deputy_protocol.rule import RuleAction
from deputy_protocol.session import PermissionMode

_ABSOLUTE = r"^(?:~$|~?[/\\]|[A-Za-z]:[/\\])"

Above: TypeAlias = Annotated[Number, Field(gt=0)]

ENVIRONMENT: Final = {
    "DEPUTY_MODEL": "The model, where the setting `model` is missing.",
    "ANTHROPIC_BASE_URL": "Address of the Messages API, where the setting `baseUrl` is missing.",
    "ANTHROPIC_API_KEY": "Key of the Messages API, where the settings name no other place for it.",
    "DEPUTY_MODELS": "A TOML file with prices and windows of models, which go before those that come with Deputy.",
    "DEPUTY_TOKEN": "What clients over TCP and WebSocket must know; else the server makes a token up and prints it.",
    "DEPUTY_STATE": "Folder of the session store and the logs; its files are for their owner alone.",
}
"""Environment variables and what they mean."""

PLANNED: Final[frozenset[str]] = frozenset()
"""Settings that are read and have no effect yet."""


class ApiSettings(Params):
    """How the Messages API is asked."""

    key_command: tuple[str, ...] = ()
    """A program with its arguments that prints the key; it goes before the keyring and `ANTHROPIC_API_KEY`. It is asked
    again when the key is refused."""
    keyring: Flag = False
    """Whether the key is taken from the keyring of the operating system, where `keyring set deputy api-key` has put it;
    needs the Python package `keyring`, which the extra of that name brings: `deputy-ls[keyring]`."""
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    """Further headers of every request."""
    proxy: str | None = Field(default=None, repr=False)
    """Address of a proxy; those of the environment when absent. It is not used for this machine itself."""
    connect_timeout: Above = 10.0
    """Seconds until a connection must stand."""
    idle_timeout: Above = 120.0
    """Seconds that an answer may be silent."""


class AgentSettings(Params):
    """Limits of sub-agents."""

    enabled: Flag = True
    """Whether there are sub-agents at all; off, the tools that start them are gone."""
    max_parallel: Positive = 16
    """Sub-agents that run at once, in the whole process."""
    max_parallel_per_parent: Positive = 8
    """Sub-agents of one parent that run at once."""
    queue: Count = 64
    """Sub-agents that may wait for a place; beyond it a start fails with a clear error."""
    max_depth: Count = 1
    """Depth of the tree below the primary: at 1 sub-agents start none of their own, at 0 there are none."""
    parallel_writers: Flag = False
    """Whether sub-agents of one parent that may change files run at once; off, they run one after the other."""
    timeout: Above = 900.0
    """Running time of a sub-agent, in seconds; waiting for the user does not count."""
    wake_on_task_end: Flag = True
    """Whether an idle primary gets a turn of its own when a background agent ends; off, the news wait for the next
    prompt."""


class RuleSetting(Params):
    """A permission rule. A field of another name is refused: a pattern that is misspelt must not make it wider."""

    model_config = WIRE_CONFIG | ConfigDict(extra="forbid")

    tool: str
    """Name of a tool, or `*`."""
    pattern: str | None = None
    """Glob over what the tool is used on: a path relative to its root, a command, a host, a definition. Any when
    absent."""
    action: RuleAction


class PermissionSettings(Params):
    """Rules, and what holds while nobody can be asked."""

    rules: tuple[RuleSetting, ...] = ()
    """Rules for every agent, beside those of the workspace (`.deputy/settings.json`). Deny wins wherever it stands,
    then ask, then allow."""
    reconnect_grace: Number = 60.0
    """Seconds that a question, and all that runs, waits for a client to come back over TCP and WebSocket; over stdio
    nothing waits."""


class RootSetting(Params):
    """A folder beside the workspace."""

    path: Annotated[str, Field(pattern=_ABSOLUTE)]
    """An absolute path; `~` stands for the home folder."""
    writable: Flag = False
    """Whether files there may be changed, by the same questions as in the workspace."""


class ShellSettings(Params):
    """How commands are run: by bash, without a terminal, in an environment that holds no secrets."""

    env: tuple[str, ...] = ()
    """Names of environment variables that commands get beside the usual ones (`PATH`, `HOME`, `LANG` and the like);
    `*` stands for any text, as in `CI_*`."""
    timeout: Above = 120.0
    """Seconds after which a command is ended that names no limit of its own."""
    sandbox: Flag = False
    """Whether commands run in a sandbox: no network, and no writing outside the workspace. Needs Linux and bubblewrap
    (`bwrap`); without it commands are refused."""


class BudgetSettings(Params):
    """What may be used up; what is absent is not bounded. An agent over its budget ends as `budget_exceeded`, a
    primary's turn with `max_turn_requests`."""

    tokens: Positive | None = None
    """Input and output tokens."""
    cost: Above | None = None
    """US dollars; counts where prices are known."""
    tool_calls: Positive | None = None
    """Calls of tools."""
    replies: Positive | None = None
    """Replies of models."""
    seconds: Above | None = None
    """Running time of an agent, in seconds; for a tree, the time of one turn."""


class BudgetsSettings(Params):
    """Budgets of agents and of sessions."""

    agent: BudgetSettings = Field(default_factory=BudgetSettings)
    tree: BudgetSettings = Field(default_factory=BudgetSettings)


class LimitSettings(Params):
    """Bounds of single steps."""

    result_bytes: Positive = 16384
    """Bytes of a sub-agent's result that its parent and its events get; the rest is in the transcript."""
    aggregate_bytes: Positive = 131072
    """Bytes of all tasks and results of one `spawn_agents` call together; the longest are cut."""
    prompt_queue: Count = 32
    """Prompts that may wait for the turn of a session."""
    turn_iterations: Positive = 100
    """Model requests of one turn of the primary; those of a sub-agent are bounded by its definition."""
    cancel_grace: Above = 3.0
    """Seconds that a cancelled agent may take to stop before it is ended by force."""


class WebSettings(Params):
    """What agents read beyond the workspace."""

    enabled: Flag = True
    """Whether agents are offered to read the web; each new site is asked about."""
    allow_private: Flag = False
    """Whether that includes this machine and private networks."""
    search: Flag | None = None
    """Whether agents may search the web by the web search of their model's provider, which may cost extra; when absent,
    where it is known to have one. It is asked about, too."""


class SessionsSettings(Params):
    """What becomes of sessions that are stored."""

    keep_days: Positive | None = None
    """Days after which a session that was not used is deleted, with all that belongs to it; never when absent. It is
    looked for when Deputy starts, and once a day."""


class HookEvent(StrEnum):
    """What a hook waits for."""

    BEFORE_TOOL = "before_tool"
    """A call that may run: it does not, unless the command ends with 0."""
    AFTER_TOOL = "after_tool"
    """A call that ran: what a command that fails prints is told to the agent."""
    TURN_END = "turn_end"
    """The end of a turn: a command that ends with 2 sends the agent back to work, once."""


class HookSetting(Params):
    """A command of the user's, told by JSON on its input what happens."""

    on: HookEvent
    run: str
    """A line of bash."""
    tools: tuple[str, ...] = ()
    """Names of the tools that it is about, as in rules; all when empty."""
    timeout: Above = 60.0
    """Seconds after which it is ended, which counts as a failure; 600 at most."""


class Settings(Params):
    """All settings."""

    model: str | None = None
    """Name of the model of the primary; `offline` is built in and needs no key. When absent: `DEPUTY_MODEL`, else a
    model of the Messages API when a key is configured, else `offline`."""
    max_tokens: Positive = 16384
    """Tokens of one answer of a model."""
    small_model: str | None = None
    """Name of a cheaper model for definitions that ask for one; that of the primary when absent."""
    base_url: str | None = None
    """Address of the Messages API, or of a local server that speaks it; `ANTHROPIC_BASE_URL` when absent."""
    api: ApiSettings = Field(default_factory=ApiSettings)
    permission_mode: PermissionMode = PermissionMode.DEFAULT
    """How much is allowed without asking in a new session."""
    trusted: Flag = True
    """Whether the user trusts the workspace. In one that is not trusted nothing of the workspace configures an agent,
    and the permission mode is `plan`. Permission rules of the workspace that allow something count only where this is
    set to true by name."""
    roots: tuple[RootSetting, ...] = ()
    """Further folders whose files agents of new sessions may read; in a workspace that is not trusted there are
    none."""
    token: str | None = Field(default=None, repr=False)
    """The token that the server printed or was given; needed in `initializationOptions` over TCP."""
    agents: AgentSettings = Field(default_factory=AgentSettings)
    budgets: BudgetsSettings = Field(default_factory=BudgetsSettings)
    limits: LimitSettings = Field(default_factory=LimitSettings)
    web: WebSettings = Field(default_factory=WebSettings)
    permissions: PermissionSettings = Field(default_factory=PermissionSettings)
    shell: ShellSettings = Field(default_factory=ShellSettings)
    sessions: SessionsSettings = Field(default_factory=SessionsSettings)
    hooks: tuple[HookSetting, ...] = ()
    """Commands that run before and after tools and at the end of a turn, beside those of `~/.deputy/settings.json` and
    of `.deputy/settings.json` in a workspace that is trusted by name."""
    mcp_servers: dict[str, JsonObject] = Field(default={}, repr=False)
    """MCP servers by name, each with what `.mcp.json` says of one: `command`, `args` and `env`, or `url` and `headers`.
    They go before those of `~/.deputy/settings.json` and of the workspace; each is asked about before it is started."""
