"""Settings of the core, as plain values; front ends validate what users wrote and build these.

Times are in seconds, sizes in bytes of UTF-8 unless said otherwise.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deputy_agents.domain.hook import Hook
from deputy_agents.domain.message import Usage
from deputy_agents.domain.model_card import ModelCards
from deputy_agents.domain.outcome import LimitReached
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import Rule


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Limits of sub-agents. ``enabled=False`` removes every tool that starts one."""

    enabled: bool = True
    max_parallel: int = 16
    max_parallel_per_parent: int = 8
    queue: int = 64
    max_depth: int = 1
    parallel_writers: bool = False
    timeout: float = 15 * 60
    wake_on_task_end: bool = True


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be used up; ``None`` sets no limit. ``tokens`` counts input and output, ``cost`` is in US dollars and
    counts where prices are known, ``replies`` are those of models, ``seconds`` is running time."""

    tokens: int | None = None
    cost: float | None = None
    tool_calls: int | None = None
    seconds: float | None = None
    replies: int | None = None

    def exceeded(self, usage: Usage, tool_calls: int, replies: int) -> LimitReached | None:
        """The limit that is reached, with its unit, and its setting in the budget; ``None`` while there is something
        left."""
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
    """``agent`` bounds every agent by itself, ``tree`` a session's agents together; of ``tree``, ``seconds`` is the
    time of one turn."""

    agent: Budget = field(default_factory=Budget)
    tree: Budget = field(default_factory=Budget)


@dataclass(frozen=True, slots=True)
class PermissionSettings:
    """``rules`` come from the user's and the workspace's settings. ``reconnect_grace`` is how long a question waits
    for a client that can ask it, where clients may come back."""

    rules: tuple[Rule, ...] = ()
    reconnect_grace: float = 60


@dataclass(frozen=True, slots=True)
class Root:
    """A folder beneath which files may be read, and changed if it is ``writable``."""

    path: Path
    writable: bool = False


@dataclass(frozen=True, slots=True)
class ShellSettings:
    """``env`` are names of variables that commands get beside the usual ones, ``*`` in them for any text. ``timeout``
    is that of a command that names none. ``sandbox`` confines commands by bubblewrap."""

    env: tuple[str, ...] = ()
    timeout: float = 120
    sandbox: bool = False


@dataclass(frozen=True, slots=True)
class WebSettings:
    """``allow_private`` lets agents read addresses of this machine and of private networks, after asking as always;
    ``search`` says that the provider of the model searches the web."""

    enabled: bool = True
    allow_private: bool = False
    search: bool = False

    def missing(self, tools: Collection[str]) -> Collection[str]:
        """Those of the web's tools that nobody is offered."""
        if not self.enabled:
            return tools
        return () if self.search else ("web_search",)


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """Repeats of a failed model request: at most ``attempts`` in all, waits from ``base`` doubling up to ``cap``.
    ``total`` is the time after the first failure during which it is repeated at all."""

    attempts: int = 8
    base: float = 0.5
    cap: float = 30
    retry_after_cap: float = 120
    total: float = 10 * 60


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of what is passed on. What is cut says so, and how to read on."""

    result_bytes: int = 16 * 1024
    aggregate_bytes: int = 128 * 1024
    tool_output_bytes: int = 64 * 1024
    prompt_queue: int = 32
    turn_iterations: int = 100
    cancel_grace: float = 3
    """How long a cancelled agent may take to stop before it is ended by force."""


@dataclass(frozen=True, slots=True)
class Settings:
    model: str = "offline"
    small_model: str | None = None
    permission_mode: PermissionMode = PermissionMode.DEFAULT
    trusted: bool = True
    vouched: bool = False
    """The user has said so, and it is not only taken for granted: rules of the workspace may allow something."""
    roots: tuple[Root, ...] = ()
    """Folders beside the workspace."""
    max_tokens: int = 16_384
    cards: ModelCards = field(default_factory=ModelCards)
    agents: AgentSettings = field(default_factory=AgentSettings)
    budgets: Budgets = field(default_factory=Budgets)
    permissions: PermissionSettings = field(default_factory=PermissionSettings)
    shell: ShellSettings = field(default_factory=ShellSettings)
    web: WebSettings = field(default_factory=WebSettings)
    hooks: tuple[Hook, ...] = ()
    mcp_servers: Mapping[str, object] = field(default_factory=dict[str, object])
    """MCP servers of the user's own, as they were written."""
    retry: RetrySettings = field(default_factory=RetrySettings)
    limits: Limits = field(default_factory=Limits)
    keep_days: int | None = None
    """Days after which a session that was not used is deleted; ``None`` keeps them."""
