"""Settings of the core. Front ends validate the user's settings and build these values.

Times are in seconds, and sizes in bytes of UTF-8, unless stated otherwise.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deputy_agents.domain.hook import Hook
from deputy_agents.domain.message import Usage
from deputy_agents.domain.model_card import Effort, ModelCards, ThinkingMode
from deputy_agents.domain.outcome import LimitReached
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import Rule


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Limits of sub-agents. ``enabled=False`` removes the delegation tools. ``models`` are the names that agents may
    choose for their sub-agents, besides ``inherit``, ``small`` and ``default``."""

    enabled: bool = True
    max_parallel: int = 16
    max_parallel_per_parent: int = 8
    queue: int = 64
    max_depth: int = 1
    parallel_writers: bool = False
    timeout: float = 15 * 60
    wake_on_task_end: bool = True
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of use; ``None`` means no limit. ``tokens`` counts input and output. ``cost`` is in US dollars, and counts
    only models with a known price. ``replies`` counts replies of models. ``seconds`` is running time."""

    tokens: int | None = None
    cost: float | None = None
    tool_calls: int | None = None
    seconds: float | None = None
    replies: int | None = None

    def exceeded(self, usage: Usage, tool_calls: int, replies: int) -> LimitReached | None:
        """The first limit that is reached, described by number and unit, with its key in the budget; else ``None``."""
        tokens = usage.input_tokens + usage.output_tokens
        for used, limit, what, setting in (
            (tokens, self.tokens, "tokens", "tokens"),
            (usage.cost or 0.0, self.cost, "US dollars", "cost"),
            (tool_calls, self.tool_calls, "tool calls", "toolCalls"),
            (replies, self.replies, "model replies", "replies"),
        ):
            if limit is not None and used >= limit:
                return LimitReached(f"{limit:,} {what}", setting)
        return None


@dataclass(frozen=True, slots=True)
class Budgets:
    """``agent`` limits each agent, ``tree`` all agents of a session together. In ``tree``, ``seconds`` limits one
    turn."""

    agent: Budget = field(default_factory=Budget)
    tree: Budget = field(default_factory=Budget)


@dataclass(frozen=True, slots=True)
class PermissionSettings:
    """``rules`` come from the settings of the user and of the workspace. ``reconnect_grace`` is how long agents work on
    without a client, in seconds, where clients can reconnect; an open permission request waits for one as long as it
    takes. ``reading_commands``: commands that are known to only read files of the workspace need no approval."""

    rules: tuple[Rule, ...] = ()
    reconnect_grace: float = 60
    reading_commands: bool = True


@dataclass(frozen=True, slots=True)
class Root:
    """A folder whose files agents may read, and change if it is ``writable``."""

    path: Path
    writable: bool = False


@dataclass(frozen=True, slots=True)
class ShellSettings:
    """``env`` names environment variables that commands get in addition to the default ones; ``*`` matches any text.
    ``timeout`` is the default timeout of a command. ``sandbox`` runs all commands in a sandbox. With
    ``auto_approve_sandboxed``, a command that would need approval runs in the sandbox without it. ``sandbox_hosts`` are
    hosts to which sandboxed commands can connect. ``isolated`` keeps other processes out of reach of commands, hooks
    and MCP servers where the system can."""

    env: tuple[str, ...] = ()
    timeout: float = 120
    sandbox: bool = False
    auto_approve_sandboxed: bool = False
    sandbox_hosts: tuple[str, ...] = ()
    isolated: bool = True


@dataclass(frozen=True, slots=True)
class WebSettings:
    """``allow_private`` lets agents read addresses of this machine and of private networks, which still needs
    permission. ``search`` offers the web search of the model's provider."""

    enabled: bool = True
    allow_private: bool = False
    search: bool = False

    def missing(self, tools: Collection[str]) -> Collection[str]:
        """Those of the web ``tools`` that are not offered."""
        if not self.enabled:
            return tools
        return () if self.search else ("web_search",)


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """Retries of a failed model request: at most ``attempts`` requests in total. The wait starts at ``base`` and
    doubles up to ``cap``. ``retry_after_cap`` is the longest wait that a service may ask for, ``total`` the time after
    the first failure in which retries start."""

    attempts: int = 8
    base: float = 0.5
    cap: float = 30
    retry_after_cap: float = 120
    total: float = 10 * 60


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes and counts that are limited. Text that is cut ends in a note on how to read the rest."""

    result_bytes: int = 16 * 1024
    aggregate_bytes: int = 128 * 1024
    prompt_queue: int = 32
    turn_iterations: int = 100
    cancel_grace: float = 3
    """How long a cancelled agent may take to stop before it is forced to end."""


@dataclass(frozen=True, slots=True)
class Settings:
    model: str = "offline"
    small_model: str | None = None
    fallback_model: str | None = None
    """Replaces a model that is overloaded, until the end of the turn or run."""
    effort: Effort | None = None
    thinking: ThinkingMode = ThinkingMode.AUTO
    permission_mode: PermissionMode = PermissionMode.DEFAULT
    trusted: bool = True
    vouched: bool = False
    """The user set ``trusted``, rather than Deputy by default. Only then, allow rules and hooks of the workspace
    count."""
    roots: tuple[Root, ...] = ()
    """Folders in addition to the workspace."""
    max_tokens: int = 16_384
    cards: ModelCards = field(default_factory=ModelCards)
    agents: AgentSettings = field(default_factory=AgentSettings)
    budgets: Budgets = field(default_factory=Budgets)
    permissions: PermissionSettings = field(default_factory=PermissionSettings)
    shell: ShellSettings = field(default_factory=ShellSettings)
    web: WebSettings = field(default_factory=WebSettings)
    hooks: tuple[Hook, ...] = ()
    mcp_servers: Mapping[str, object] = field(default_factory=dict[str, object])
    """The user's MCP servers, as written in the settings."""
    retry: RetrySettings = field(default_factory=RetrySettings)
    limits: Limits = field(default_factory=Limits)
    keep_days: int | None = None
    """Days after which an unused session is deleted; ``None`` keeps all sessions."""
