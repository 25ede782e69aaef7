"""Client settings as core settings."""

from pathlib import Path

from deputy_agents.domain import settings as core
from deputy_agents.domain.hook import MAX_TIMEOUT, Hook, When
from deputy_agents.domain.model_card import ModelCards, ThinkingMode
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.hooks.config import compile_matcher
from deputy_agents.model.endpoint import ApiSettings, ProviderSettings
from deputy_agents.patterns.linear import PatternError
from deputy_protocol import settings
from deputy_server.convert.model import effort_from_wire


def settings_from_wire(
    wire: settings.Settings, model: str, cards: ModelCards | None = None, *, searches: bool = False
) -> core.Settings:
    """``model`` is the primary agent's model; ``searches`` says whether its provider is known to support web search."""
    agents, limits, permissions = wire.agents, wire.limits, wire.permissions
    search = searches if wire.web.search is None else wire.web.search
    return core.Settings(
        model=model,
        small_model=wire.small_model,
        fallback_model=wire.fallback_model,
        effort=effort_from_wire(wire.effort),
        thinking=ThinkingMode(wire.thinking),
        permission_mode=PermissionMode(wire.permission_mode),
        trusted=wire.trusted,
        vouched=wire.trusted and "trusted" in wire.model_fields_set,
        roots=tuple(core.Root(Path(root.path).expanduser(), root.writable) for root in wire.roots),
        agents=core.AgentSettings(
            enabled=agents.enabled,
            max_parallel=agents.max_parallel,
            max_parallel_per_parent=agents.max_parallel_per_parent,
            queue=agents.queue,
            max_depth=agents.max_depth,
            parallel_writers=agents.parallel_writers,
            timeout=agents.timeout,
            wake_on_task_end=agents.wake_on_task_end,
            models=agents.models,
        ),
        max_tokens=wire.max_tokens,
        cards=cards or ModelCards(),
        budgets=core.Budgets(_budget_from_wire(wire.budgets.agent), _budget_from_wire(wire.budgets.tree)),
        limits=core.Limits(
            result_bytes=limits.result_bytes,
            aggregate_bytes=limits.aggregate_bytes,
            prompt_queue=limits.prompt_queue,
            turn_iterations=limits.turn_iterations,
            cancel_grace=limits.cancel_grace,
        ),
        web=core.WebSettings(enabled=wire.web.enabled, allow_private=wire.web.allow_private, search=search),
        permissions=core.PermissionSettings(
            rules=tuple(map(_rule_from_wire, range(len(permissions.rules)), permissions.rules)),
            reconnect_grace=permissions.reconnect_grace,
            reading_commands=permissions.reading_commands,
        ),
        hooks=tuple(map(_hook_from_wire, wire.hooks)),
        mcp_servers=wire.mcp_servers,
        shell=core.ShellSettings(
            env=wire.shell.env,
            timeout=wire.shell.timeout,
            sandbox=wire.shell.sandbox,
            auto_approve_sandboxed=wire.shell.auto_approve_sandboxed,
            sandbox_hosts=wire.shell.sandbox_hosts,
            isolated=wire.shell.isolation is settings.Isolation.AUTO,
        ),
        keep_days=wire.sessions.keep_days,
    )


def api_settings_from_wire(wire: settings.Settings) -> ApiSettings:
    api = wire.api
    return ApiSettings(
        base_url=wire.base_url,
        key_command=api.key_command,
        keyring=api.keyring,
        headers=tuple(sorted(api.headers.items())),
        proxy=api.proxy,
        connect_timeout=api.connect_timeout,
        idle_timeout=api.idle_timeout,
        providers=tuple((name.value, _provider_from_wire(one)) for name, one in sorted(wire.providers.items())),
    )


def _provider_from_wire(wire: settings.ProviderSettings) -> ProviderSettings:
    options = {
        "region": wire.region,
        "project": wire.project,
        "workspace": wire.workspace,
        "resource": wire.resource,
    }
    return ProviderSettings(
        base_url=wire.base_url,
        key_command=wire.key_command,
        headers=tuple(sorted(wire.headers.items())),
        options=tuple((name, value) for name, value in options.items() if value),
    )


def _rule_from_wire(index: int, rule: settings.RuleSetting) -> Rule:
    return Rule(f"settings-{index}", rule.tool, DecisionKind(rule.action), rule.pattern, "settings")


def _hook_from_wire(hook: settings.HookSetting) -> Hook:
    try:
        matcher = compile_matcher(hook.matcher)
    except PatternError:  # a hook that can block something rather runs too often
        matcher = None
    timeout = min(hook.timeout, MAX_TIMEOUT)
    return Hook(When(hook.on.value), hook.run, hook.tools, timeout, matcher=matcher, strict=hook.strict)


def _budget_from_wire(budget: settings.BudgetSettings) -> core.Budget:
    return core.Budget(budget.tokens, budget.cost, budget.tool_calls, budget.seconds, budget.replies)
