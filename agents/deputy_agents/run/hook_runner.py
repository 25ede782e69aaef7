"""Runs the user's hooks for one agent, at the events of its work."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import StatusChanged
from deputy_agents.domain.hook import CLAUDE_EVENTS, Hook, When
from deputy_agents.domain.message import ToolUse
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.domain.rule import DecisionKind
from deputy_agents.hooks.answer import Answer
from deputy_agents.hooks.claude_input import MODES, claude_input, claude_tool, tool_names
from deputy_agents.hooks.run import HookPlace, HookResult, run
from deputy_agents.run.agent import Agent
from deputy_agents.run.host import Host, emit
from deputy_agents.text import cut, visible
from deputy_agents.tool.base import ToolOutput

MAX_SHOWN = 300
"""Characters of a hook's message that the user sees."""
_SEVERITY = (DecisionKind.DENY, DecisionKind.ASK, DecisionKind.ALLOW)


class HookRunner:
    """Runs the hooks of the session for ``agent``. ``stop`` ends the turn or run for a reason that a hook gives."""

    def __init__(self, agent: Agent, host: Host, stop: Callable[[str], None] = lambda _: None) -> None:
        self._agent = agent
        self._host = host
        self._stop = stop

    def has(self, when: When, *subjects: str) -> bool:
        """Whether hooks run at an event about something with these names."""
        return bool(self._hooks(when, subjects))

    # -- tool calls ------------------------------------------------------------------------------------------------

    async def before(self, use: ToolUse) -> Answer:
        """What the hooks decide about a call that the gate has not denied: the strictest of their decisions."""
        return await self._decide(When.BEFORE_TOOL, use)

    async def permission(self, use: ToolUse) -> Answer:
        """What the hooks decide about a call that the user is about to be asked about."""
        return await self._decide(When.PERMISSION_REQUEST, use)

    async def after(self, use: ToolUse, output: ToolOutput) -> str:
        """What hooks have to say about a call that has run, to be added to its result."""
        result = {"content": output.content, "isError": output.is_error}
        fields = {**await self._call(use), "result": result, "tool_response": result}
        done = await self._run_all(When.AFTER_TOOL, tool_names(use.name), fields, await self._file(use))
        notes = [f"\n[The hook {one.name} failed{_because(one.answer.reason)}]" for one in done if one.answer.blocks]
        return "".join((*notes, *(f"\n[{one.answer.context}]" for one in done if one.answer.context)))

    def run_after(self, tool: str) -> bool:
        """Whether hooks run after calls of ``tool``."""
        return self.has(When.AFTER_TOOL, *tool_names(tool))

    # -- sessions, prompts and turns -------------------------------------------------------------------------------

    async def session_start(self, source: str) -> str:
        """What the hooks at the start of a session add to its first prompt."""
        fields = {"source": source, "model": self._agent.model}
        return _context(await self._run_all(When.SESSION_START, (source,), fields))

    async def session_end(self, reason: str) -> None:
        await self._run_all(When.SESSION_END, (reason,), {"reason": reason})

    async def prompt(self, text: str) -> Answer:
        """Whether a prompt is blocked, and what the hooks add to it."""
        done = await self._run_all(When.PROMPT_SUBMIT, (), {"prompt": text})
        return Answer(*_strictest(done), context=_context(done))

    async def turn_end(self, stop_reason: str, answer: str, *, continued: bool) -> Sequence[HookResult]:
        """Hooks at the end of a turn. ``continued``: a hook has sent the agent back to work before."""
        fields = {
            "stopReason": stop_reason,
            "answer": answer,
            "stop_hook_active": continued,
            "last_assistant_message": answer,
        }
        return await self._run_all(When.TURN_END, (), fields)

    # -- sub-agents, notifications and compaction ------------------------------------------------------------------

    async def subagent_start(self) -> str:
        """What the hooks at the start of a sub-agent's run add to its task."""
        return _context(await self._run_all(When.SUBAGENT_START, (self._agent.info.definition,), {}))

    async def subagent_stop(self, answer: str, *, continued: bool) -> str:
        """Why a sub-agent must continue instead of returning ``answer``; empty if it need not."""
        fields = {"answer": answer, "stop_hook_active": continued, "last_assistant_message": answer}
        done = await self._run_all(When.SUBAGENT_STOP, (self._agent.info.definition,), fields)
        return send_back(done)

    async def notify(self, kind: str, message: str) -> None:
        """Hooks for a notification of the user, of Claude Code's ``notification_type``."""
        fields = {"notification_type": kind, "message": message, "title": "Deputy"}
        await self._run_all(When.NOTIFICATION, (kind,), fields)

    async def compaction(self, trigger: str, wanted: str) -> str | None:
        """Why the conversation must not be compacted, or ``None``. ``trigger`` is ``manual`` or ``auto``."""
        fields = {"trigger": trigger, "custom_instructions": wanted}
        kind, reason = _strictest(await self._run_all(When.BEFORE_COMPACTION, (trigger,), fields))
        return reason if kind is DecisionKind.DENY else None

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _decide(self, when: When, use: ToolUse) -> Answer:
        names = tool_names(use.name)
        if not self.has(when, *names):
            return Answer()
        done = await self._run_all(when, names, await self._call(use), await self._file(use), until_denied=True)
        return Answer(*_strictest(done), context=_context(done))

    async def _run_all(
        self,
        when: When,
        subjects: Sequence[str],
        fields: Mapping[str, object],
        file: Path | None = None,
        *,
        until_denied: bool = False,
    ) -> Sequence[HookResult]:
        """Run the hooks of an event in their order; with ``until_denied`` only to the first that denies."""
        done: list[HookResult] = []
        for hook in self._hooks(when, subjects):
            result = await run(hook, {**self._common(when), **fields}, self._place(file))
            done.append(result)
            self._show(result)
            if result.answer.stop is not None:
                self._stop(f"the hook {result.name} stopped it: {visible(result.answer.stop)}")
            if until_denied and result.answer.blocks:
                break
        return done

    def _hooks(self, when: When, subjects: Sequence[str]) -> Sequence[Hook]:
        return [hook for hook in self._host.hooks() if hook.when is when and hook.applies_to(subjects)]

    def _common(self, when: When) -> Mapping[str, object]:
        """The fields of every event: those of Claude Code, and those of Deputy in camel case."""
        agent, info = self._agent, self._agent.info
        mode = self._host.policy(agent).mode.value
        fields: dict[str, object] = {
            "session_id": self._host.session_id,
            "transcript_path": "",
            "cwd": str(agent.cwd),
            "permission_mode": MODES.get(mode, mode),
            "hook_event_name": CLAUDE_EVENTS[when],
            "hook": when.value,
            "sessionId": self._host.session_id,
            "agent": {
                "agentId": agent.id,
                "label": info.label,
                "definition": info.definition,
                "depth": info.depth,
            },
        }
        if agent.is_child:
            fields |= {"agent_id": agent.id, "agent_type": info.definition}
        return fields

    async def _call(self, use: ToolUse) -> Mapping[str, object]:
        """The fields of an event about a tool call."""
        file = await self._file(use)
        return {
            "tool_name": claude_tool(use.name),
            "tool_input": claude_input(use.name, use.input, str(file or "")),
            "tool_use_id": use.id,
            "toolCallId": use.id,
            "tool": use.name,
            "input": dict(use.input),
        }

    def _place(self, file: Path | None) -> HookPlace:
        roots = self._host.workspace.roots
        return HookPlace(self._agent.cwd, roots[0] if roots else self._agent.cwd, file, self._host.settings.shell)

    async def _file(self, use: ToolUse) -> Path | None:
        """The file that a call is about, if its input has a path."""
        path = use.input.get("path")
        if not isinstance(path, str) or "\0" in path:
            return None
        try:
            return await self._host.workspace.spelled(path, self._agent.cwd)
        except ToolError:
            return self._agent.cwd / path

    def _show(self, result: HookResult) -> None:
        """Shows the user what a hook prints for them, and a failure that decides nothing."""
        for text in filter(None, (result.sentence, result.answer.message)):
            node = self._host.log.view.agents.get(self._agent.id)
            status = node.status if node is not None else AgentStatus.IDLE
            emit(self._host, self._agent, StatusChanged(status, detail=cut(visible(text), MAX_SHOWN)))


def send_back(done: Sequence[HookResult]) -> str:
    """The message by which hooks send an agent back to work; empty if none does."""
    return "\n\n".join(f"The hook {one.name} says:\n{one.answer.reason}" for one in done if one.answer.blocks)


def _strictest(done: Sequence[HookResult]) -> tuple[DecisionKind | None, str]:
    """The strictest decision of several hooks, with a sentence about it."""
    for kind in _SEVERITY:
        for one in done:
            if one.answer.decision is kind:
                return kind, _SENTENCES[kind].format(one.name) + _because(one.answer.reason)
    return None, ""


_SENTENCES = {
    DecisionKind.DENY: "Blocked by the hook {}",
    DecisionKind.ASK: "The hook {} asks",
    DecisionKind.ALLOW: "The hook {} allows it",
}


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _context(done: Sequence[HookResult]) -> str:
    return "\n\n".join(one.answer.context for one in done if one.answer.context)
