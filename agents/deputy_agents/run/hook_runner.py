"""Runs the user's hooks for one agent: before and after its tool calls, and at the end of a turn."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.hook import Hook, When
from deputy_agents.domain.message import ToolUse
from deputy_agents.hooks.run import HookResult, run
from deputy_agents.run.agent import Agent
from deputy_agents.run.host import Host
from deputy_agents.tool.base import ToolOutput

SEND_BACK = 2
"""Exit code of an end-of-turn hook that sends the agent back to work."""


class HookRunner:
    """Runs the hooks of the session for ``agent``."""

    def __init__(self, agent: Agent, host: Host) -> None:
        self._agent = agent
        self._host = host

    async def before(self, use: ToolUse) -> str | None:
        """Why the call must not run, or ``None`` when every hook exits with 0."""
        for hook in self._hooks(When.BEFORE_TOOL, use.name):
            done = await self._run(hook, use, {})
            if done.code != 0:
                return f"Blocked by the hook {done.name}{_reason(done)}"
        return None

    async def after(self, use: ToolUse, output: ToolOutput) -> str:
        """The output of hooks that failed after a call, to be added to its result."""
        result = {"content": output.content, "isError": output.is_error}
        done = [await self._run(hook, use, {"result": result}) for hook in self._hooks(When.AFTER_TOOL, use.name)]
        return "".join(f"\n[The hook {one.name} failed{_reason(one)}]" for one in done if one.code != 0)

    def run_after(self, tool: str) -> bool:
        """Whether hooks run after calls of ``tool``."""
        return bool(self._hooks(When.AFTER_TOOL, tool))

    async def turn_end(self, stop_reason: str, answer: str) -> Sequence[HookResult]:
        """The end-of-turn hooks that failed."""
        fields = {"stopReason": stop_reason, "answer": answer}
        done = [await self._run(hook, None, fields) for hook in self._hooks(When.TURN_END)]
        return [outcome for outcome in done if outcome.code != 0]

    def _hooks(self, when: When, tool: str | None = None) -> Sequence[Hook]:
        return [hook for hook in self._host.hooks() if hook.when is when and (tool is None or hook.applies_to(tool))]

    async def _run(self, hook: Hook, use: ToolUse | None, more: Mapping[str, object]) -> HookResult:
        agent, info = self._agent, self._agent.info
        fields: dict[str, object] = {
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
            fields |= {"toolCallId": use.id, "tool": use.name, "input": dict(use.input)}
        file = await self._file(use)
        return await run(hook, {**fields, **more}, agent.cwd, file, self._host.settings.shell)

    async def _file(self, use: ToolUse | None) -> Path | None:
        """The file that a call is about, if its input has a path."""
        path = use.input.get("path") if use else None
        if not isinstance(path, str) or "\0" in path:
            return None
        try:
            return await self._host.workspace.spelled(path, self._agent.cwd)
        except ToolError:
            return self._agent.cwd / path


def _reason(result: HookResult) -> str:
    why = result.output or (f"exit code {result.code}" if result.code is not None else "it did not run")
    return f": {why}"
