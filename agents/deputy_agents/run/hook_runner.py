"""The user's hooks as one agent meets them: before and after its calls, and at the end of a turn."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from deputy_agents.domain.hook import Hook, When
from deputy_agents.domain.message import ToolUse
from deputy_agents.hooks.run import Outcome, run
from deputy_agents.run.agent import Agent, Host
from deputy_agents.tool.base import ToolOutput

SEND_BACK = 2
"""The exit code by which a hook at the end of a turn sends the agent back to work."""


class HookRunner:
    """Runs the hooks of the session for ``agent``."""

    def __init__(self, agent: Agent, host: Host) -> None:
        self._agent = agent
        self._host = host

    async def before(self, use: ToolUse) -> str | None:
        """Why the call must not run, if a hook says so. Only a hook that ends well lets it."""
        for hook in self._hooks(When.BEFORE_TOOL, use.name):
            done = await self._run(hook, use, {})
            if done.code != 0:
                return f"Blocked by the hook {done.name}{_reason(done)}"
        return None

    async def after(self, use: ToolUse, output: ToolOutput) -> str:
        """What hooks that do not end well have to say about a call that ran."""
        result = {"content": output.content, "isError": output.is_error}
        done = [await self._run(hook, use, {"result": result}) for hook in self._hooks(When.AFTER_TOOL, use.name)]
        return "".join(f"\n[The hook {one.name} failed{_reason(one)}]" for one in done if one.code != 0)

    async def turn_end(self, stop_reason: str, answer: str) -> Sequence[Outcome]:
        """The hooks that have something to say about a turn: those that did not end well."""
        told = {"stopReason": stop_reason, "answer": answer}
        done = [await self._run(hook, None, told) for hook in self._hooks(When.TURN_END)]
        return [outcome for outcome in done if outcome.code != 0]

    def _hooks(self, when: When, tool: str | None = None) -> Sequence[Hook]:
        return [hook for hook in self._host.hooks() if hook.when is when and (tool is None or hook.is_about(tool))]

    async def _run(self, hook: Hook, use: ToolUse | None, more: Mapping[str, object]) -> Outcome:
        agent, info = self._agent, self._agent.info
        told: dict[str, object] = {
            "hook": hook.when.value,
            "sessionId": self._host.session_id,
            "cwd": str(agent.cwd),
            "agent": {
                "agentId": agent.id,
                "label": info.label,
                "definition": info.definition,
                "depth": info.depth,
            },
        }
        if use is not None:
            told |= {"toolCallId": use.id, "tool": use.name, "input": dict(use.input)}
        file = _file(agent.cwd, use)
        return await run(hook, {**told, **more}, agent.cwd, file, self._host.settings.shell.env)


def _file(cwd: Path, use: ToolUse | None) -> Path | None:
    """The file that a call names."""
    path = use.input.get("path") if use else None
    return cwd / path if isinstance(path, str) else None


def _reason(outcome: Outcome) -> str:
    said = outcome.said or (f"exit code {outcome.code}" if outcome.code is not None else "it did not run")
    return f": {said}"
