"""Domain to wire and back, by hand: stored events and wire messages change for different reasons.

Paths become ``file:`` URIs, seconds since the epoch RFC 3339 strings, lines counted from 1 LSP ranges.
"""

from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path

from deputy_agents import event as ev
from deputy_agents import settings as core
from deputy_agents import view
from deputy_agents.changes import Reverted
from deputy_agents.definition import Definition, PermissionMode
from deputy_agents.errors import InvalidRequest, ToolError
from deputy_agents.hook import MAX_TIMEOUT, Hook, When
from deputy_agents.message import Block, Image, Text, Usage
from deputy_agents.metrics import Metrics
from deputy_agents.model.endpoint import ApiSettings
from deputy_agents.modelcard import ModelCards
from deputy_agents.permission.rule import Effect, Rule
from deputy_agents.picture import picture
from deputy_agents.ports import Answer, Dismissed, Selected, SessionRecord
from deputy_agents.shell.background import BackgroundCommand
from deputy_agents.text import readable
from deputy_protocol import agent, message, permission, place, session, settings, tool, transcript
from deputy_protocol import definition as wire_definition
from deputy_protocol import event as wire_event
from deputy_protocol import metrics as wire_metrics
from deputy_protocol import process as wire_process
from deputy_protocol import rule as wire_rule
from deputy_protocol.base import rfc3339, to_wire
from deputy_server.uris import local_path

Fields = dict[str, object]

# -- to the wire: resources --------------------------------------------------------------------------------------


def uri_of(path: str) -> str:
    """The URI of an absolute path. One that was stored with a part taken out is no path any more, and leads nowhere."""
    return Path("/", path).as_uri()


def location(at: ev.Location) -> place.Location:
    return place.Location(uri=uri_of(at.path), range=None if at.start is None else _range(at.start, at.end))


def reference(at: ev.Location) -> place.Reference:
    return place.Reference(uri=uri_of(at.path), range=_range(at.start or 1, at.end))


def _range(start: int, end: int | None) -> place.Range:
    """Whole lines: LSP counts from 0 and leaves the end out."""
    last = start if end is None else end
    return place.Range(start=place.Position(line=start - 1, character=0), end=place.Position(line=last, character=0))


def usage(used: Usage) -> agent.Usage:
    return agent.Usage(
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cache_read_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
        cost=used.cost,
    )


def agent_node(node: view.AgentNode) -> agent.AgentNode:
    info = node.info
    return agent.AgentNode(
        agent_id=info.agent_id,
        parent_agent_id=info.parent_id,
        tool_call_id=info.tool_call_id,
        label=info.label,
        definition=info.definition,
        model=info.model,
        access=agent.Access(info.access),
        depth=info.depth,
        run=node.run,
        status=agent.AgentStatus(node.status),
        queue_position=node.queue_position,
        started_at=rfc3339(node.started_at),
        updated_at=rfc3339(node.updated_at),
        ended_at=None if node.ended_at is None else rfc3339(node.ended_at),
        summary=node.summary,
        error=node.error,
        failure_reason=None if node.failure_reason is None else agent.FailureReason(node.failure_reason),
        usage=usage(node.usage),
        tool_call_count=node.tool_call_count,
    )


def agent_ref(ref: ev.AgentRef) -> agent.AgentRef:
    return agent.AgentRef(
        agent_id=ref.agent_id,
        label=ref.label,
        definition=ref.definition,
        model=ref.model,
        depth=ref.depth,
        ancestry=tuple(agent.Ancestor(agent_id=agent_id, label=label) for agent_id, label in ref.ancestry),
    )


def preview(shown: ev.Preview) -> permission.Preview:
    match shown:
        case ev.DiffPreview(path, old_text, new_text):
            return permission.DiffPreview(uri=uri_of(path), old_text=old_text, new_text=new_text)
        case ev.CommandPreview(command, cwd):
            return permission.CommandPreview(command=command, cwd=uri_of(cwd))
        case ev.TextPreview(text):
            return permission.TextPreview(text=text)


def reverted(result: Reverted) -> agent.AgentRevertResult:
    return agent.AgentRevertResult(
        reverted=tuple(map(uri_of, result.files)),
        conflicts=tuple(agent.RevertConflict(uri=uri_of(path), reason=reason) for path, reason in result.conflicts),
    )


def plan(entries: Sequence[ev.PlanEntry]) -> tuple[wire_event.PlanEntry, ...]:
    return tuple(
        wire_event.PlanEntry(
            content=step.content,
            status=wire_event.PlanStatus(step.status),
            priority=None if step.priority is None else wire_event.PlanPriority(step.priority),
        )
        for step in entries
    )


def prompts(waiting: Sequence[ev.WaitingPrompt]) -> tuple[wire_event.PromptQueueEntry, ...]:
    return tuple(
        wire_event.PromptQueueEntry(prompt_id=one.prompt_id, text=one.text, pictures=one.pictures or None)
        for one in waiting
    )


def permission_request(session_id: str, question: ev.Question) -> permission.PermissionRequest:
    return permission.PermissionRequest(
        request_id=question.request_id,
        session_id=session_id,
        batch=permission.Batch(id=question.batch.id, index=question.batch.index, size=question.batch.size),
        tool_call_id=question.tool_call_id,
        agent=agent_ref(question.agent),
        title=question.title,
        tool=question.tool,
        kind=tool.ToolKind(question.kind),
        input=question.input,
        locations=tuple(map(location, question.locations)),
        preview=None if question.preview is None else preview(question.preview),
        options=tuple(
            permission.PermissionOption(
                option_id=option.option_id, name=option.name, kind=permission.OptionKind(option.kind)
            )
            for option in question.options
        ),
        reason=question.reason,
    )


def session_info(record: SessionRecord) -> session.SessionInfo:
    return session.SessionInfo(
        session_id=record.session_id,
        parent_session_id=record.parent_session_id,
        title=record.title,
        cwd=uri_of(record.cwd),
        created_at=rfc3339(record.created_at),
        updated_at=rfc3339(record.updated_at),
        archived=record.archived,
        model=record.model,
        permission_mode=None if record.permission_mode is None else session.PermissionMode(record.permission_mode),
        agent_count=record.agent_count,
    )


def entry(line: view.Entry) -> transcript.Entry:
    match line.body:
        case ev.MessageAdded(message_id, role, text, references, pictures):
            return transcript.MessageEntry(
                seq=line.seq,
                agent_id=line.agent_id,
                run=line.run,
                time=rfc3339(line.time),
                message_id=message_id,
                role=message.Role(role),
                text=text,
                references=tuple(map(reference, references)) or None,
                pictures=pictures or None,
            )
        case view.ToolCall(started, update):
            places = started.locations if update is None or update.locations is None else update.locations
            return transcript.ToolCallEntry(
                seq=line.seq,
                agent_id=line.agent_id,
                run=line.run,
                time=rfc3339(line.time),
                tool_call_id=started.tool_call_id,
                tool=started.tool,
                title=started.title,
                kind=tool.ToolKind(started.kind),
                status=tool.ToolStatus(update.status if update else started.status),
                input=started.input,
                locations=tuple(map(location, places)),
                reason=started.reason,
                content=update.content if update else None,
                truncated=(update is not None and update.truncated) or None,
            )
        case view.ChildBlock(node):
            return transcript.AgentEntry(
                seq=line.seq,
                agent_id=line.agent_id,
                run=line.run,
                time=rfc3339(line.time),
                agent=agent_node(node),
                tool_call_id=node.info.tool_call_id,
                result=node.summary,
            )


# -- to the wire: events -----------------------------------------------------------------------------------------


def event(happened: ev.Event) -> Fields:
    """The parameters of ``deputy/event``: the envelope with the body's fields. A plain object, as events are many."""
    envelope = _present(
        # Definitions are the folder's: a change of them belongs to no session.
        sessionId=None if isinstance(happened.body, ev.DefinitionsChanged) else happened.session_id,
        agentId=happened.agent_id,
        run=happened.run,
        time=rfc3339(happened.time),
        seq=happened.seq,
        agentSeq=happened.agent_seq,
        afterSeq=happened.after_seq,
    )
    return envelope | _body(happened)


def _body(happened: ev.Event) -> Fields:  # noqa: C901 - a table, one row per kind of event
    match happened.body:
        case ev.MessageDelta(message_id, text):
            return {"type": "message_delta", "messageId": message_id, "text": text}
        case ev.ThoughtDelta(message_id, text):
            return {"type": "thought_delta", "messageId": message_id, "text": text}
        case ev.ToolOutputDelta(tool_call_id, text):
            return {"type": "tool_output_delta", "toolCallId": tool_call_id, "text": text}
        case ev.Activity(text, tool_call_count):
            return {"type": "agent_activity", "text": text, "toolCallCount": tool_call_count}
        case ev.TurnStarted(turn_id, origin):
            return {"type": "turn_started", "turnId": turn_id, "origin": origin}
        case ev.TurnFinished() as body:
            return {"type": "turn_finished"} | _turn_outcome(body)
        case ev.AgentStarted() as body:
            node = view.AgentNode(
                body.info, happened.run or 1, body.status, happened.time, happened.time, body.queue_position
            )
            return {"type": "agent_started"} | _present(
                agent=to_wire(agent_node(node)), toolCallId=body.info.tool_call_id
            )
        case ev.StatusChanged(status, position, detail):
            return {"type": "agent_status"} | _present(status=status.value, queuePosition=position, detail=detail)
        case ev.AgentFinished() as body:
            return {"type": "agent_finished"} | _finished(body)
        case ev.UsageChanged(used):
            return {"type": "usage", "usage": to_wire(usage(used))}
        case ev.MessageAdded(message_id, role, text, references, pictures):
            places = _references(references)
            told = _present(messageId=message_id, role=role, text=text, references=places, pictures=pictures or None)
            return {"type": "message"} | told
        case ev.ToolCallStarted() as body:
            return {"type": "tool_call"} | _tool_call(body)
        case ev.ToolCallUpdated(tool_call_id, status, content, locations, truncated):
            return {"type": "tool_call_update"} | _present(
                toolCallId=tool_call_id,
                status=status.value,
                content=content,
                locations=None if locations is None else _locations(locations),
                truncated=truncated or None,
            )
        case ev.PlanChanged(entries):
            return {"type": "plan", "entries": [to_wire(step) for step in plan(entries)]}
        case ev.PermissionRequested(question):
            return {"type": "permission_requested"} | to_wire(permission_request(happened.session_id, question))
        case ev.PermissionResolved(request_id, by, option_id, reason):
            outcome = {"outcome": "selected", "optionId": option_id} if option_id else {"outcome": "cancelled"}
            told = _present(requestId=request_id, outcome=outcome, by=by.value, reason=reason)
            return {"type": "permission_resolved"} | told
        case ev.SessionStatus() as body:
            return {"type": "session_status"} | _counts(body)
        case ev.PromptQueue(entries):
            return {"type": "prompt_queue", "entries": [to_wire(prompt) for prompt in prompts(entries)]}
        case ev.SessionChanged():
            return {"type": "session_changed"}
        case ev.DefinitionsChanged():
            return {"type": "definitions_changed"}
        case ev.Unknown(name):
            return {"type": name}


def turn_outcome(body: ev.TurnFinished) -> wire_event.TurnOutcome:
    """How a turn ended."""
    return wire_event.TurnOutcome.model_validate(_turn_outcome(body))


def _turn_outcome(body: ev.TurnFinished) -> Fields:
    return _present(
        turnId=body.turn_id,
        stopReason=body.stop_reason,
        error=body.error and _turn_error(body.error),
        interrupted=body.interrupted or None,
        detail=body.detail or None,
        setting=body.setting or None,
    )


def _turn_error(error: ev.TurnError) -> Fields:
    return {
        "kind": error.kind,
        "message": error.message,
        "retryable": error.retryable,
        "action": error.action,
    }


def _finished(body: ev.AgentFinished) -> Fields:
    return _present(
        status=body.status.value,
        failureReason=body.failure_reason and body.failure_reason.value,
        error=body.error,
        result=body.result,
        references=_references(body.references),
        usage=to_wire(usage(body.usage)),
        toolCallCount=body.tool_call_count,
        iterations=body.iterations,
        truncated=body.truncated,
    )


def _tool_call(body: ev.ToolCallStarted) -> Fields:
    return _present(
        toolCallId=body.tool_call_id,
        tool=body.tool,
        title=body.title,
        kind=body.kind.value,
        status=body.status.value,
        input=dict(body.input),
        locations=_locations(body.locations),
        reason=body.reason,
    )


def _counts(body: ev.SessionStatus) -> Fields:
    return {
        "primary": body.primary,
        "pending": body.pending,
        "running": body.running,
        "awaitingPermission": body.awaiting_permission,
        "finished": body.finished,
    }


def _locations(places: Sequence[ev.Location]) -> list[Fields]:
    return [to_wire(location(at)) for at in places]


def _references(places: Sequence[ev.Location]) -> list[Fields] | None:
    return [to_wire(reference(at)) for at in places] or None


def _present(**fields: object) -> Fields:
    """The fields that are there: an absent one is left out, not sent as null."""
    return {name: value for name, value in fields.items() if value is not None}


# -- from the wire -----------------------------------------------------------------------------------------------


def path_of(uri: str, field: str) -> Path:
    """The local path of a ``file:`` URI, symlinks resolved.

    Raises:
        InvalidRequest: it is no such URI; the error names ``field``.
    """
    if (path := local_path(uri)) is None:
        raise InvalidRequest(f"{field}: a file: URI is needed.", field)
    return path


def blocks(prompt: Sequence[message.PromptBlock], cwd: Path) -> tuple[Block, ...]:
    """What the model reads of a prompt. Files are named, relative to ``cwd`` where they are below it; an agent that
    wants their text reads them.

    Raises:
        InvalidRequest: an image is none, or is more than a model takes.
    """
    return tuple(_block(block, cwd, f"prompt[{index}].data") for index, block in enumerate(prompt))


def _block(block: message.PromptBlock, cwd: Path, field: str) -> Block:
    match block:
        case message.TextBlock():
            return Text(block.text)
        case message.ImageBlock():
            return image(block.data, field)
        case message.ResourceLink():
            return Text(f"(about {file_words(block.uri, block.range, cwd)})")


def image(data: str, field: str) -> Image:
    """A picture from base64. What the bytes say that it is counts, not what the client took it for.

    Raises:
        InvalidRequest: it is none, or is more than a model takes; the error names ``field``.
    """
    try:
        found = picture(b64decode(data, validate=True))
    except (ToolError, ValueError) as error:
        raise InvalidRequest(f"{field}: {error}", field) from None
    if found is None:
        raise InvalidRequest(f"{field}: a PNG, JPEG, GIF or WebP picture is needed.", field)
    return found.image


def file_words(uri: str, span: place.Range | None, cwd: Path) -> str:
    """A file, or a part of it, as agents write places: ``src/a.py:12-30``."""
    path = local_path(uri)
    name = readable(uri if path is None else _relative(path, cwd))
    if span is None:
        return name
    first, last = span.start.line + 1, span.end.line + (1 if span.end.character else 0)
    return f"{name}:{first}" if last <= first else f"{name}:{first}-{last}"


def _relative(path: Path, cwd: Path) -> str:
    return path.relative_to(cwd).as_posix() if path.is_relative_to(cwd) else str(path)


def answer(outcome: permission.PermissionOutcome) -> Answer:
    match outcome:
        case permission.SelectedOutcome():
            return Selected(outcome.option_id, outcome.feedback, outcome.input)
        case permission.CancelledOutcome():
            return Dismissed()


def permission_mode(mode: session.PermissionMode | None) -> PermissionMode | None:
    return None if mode is None else PermissionMode(mode)


def core_settings(
    wire: settings.Settings, model: str, cards: ModelCards | None = None, *, searches: bool = False
) -> core.Settings:
    """The core's settings; ``model`` is the one that was chosen for the primary, and ``searches`` whether its provider
    is known to search the web."""
    agents, limits, permissions = wire.agents, wire.limits, wire.permissions
    search = searches if wire.web.search is None else wire.web.search
    return core.Settings(
        model=model,
        small_model=wire.small_model,
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
        ),
        max_tokens=wire.max_tokens,
        cards=cards or ModelCards(),
        budgets=core.Budgets(_budget(wire.budgets.agent), _budget(wire.budgets.tree)),
        limits=core.Limits(
            result_bytes=limits.result_bytes,
            aggregate_bytes=limits.aggregate_bytes,
            prompt_queue=limits.prompt_queue,
            turn_iterations=limits.turn_iterations,
            cancel_grace=limits.cancel_grace,
        ),
        web=core.WebSettings(enabled=wire.web.enabled, allow_private=wire.web.allow_private, search=search),
        permissions=core.PermissionSettings(
            rules=tuple(map(_rule, range(len(permissions.rules)), permissions.rules)),
            reconnect_grace=permissions.reconnect_grace,
        ),
        hooks=tuple(map(_hook, wire.hooks)),
        mcp_servers=wire.mcp_servers,
        shell=core.ShellSettings(env=wire.shell.env, timeout=wire.shell.timeout, sandbox=wire.shell.sandbox),
        keep_days=wire.sessions.keep_days,
    )


def api_settings(wire: settings.Settings) -> ApiSettings:
    """How the model service is asked."""
    api = wire.api
    return ApiSettings(
        base_url=wire.base_url,
        key_command=api.key_command,
        keyring=api.keyring,
        headers=tuple(sorted(api.headers.items())),
        proxy=api.proxy,
        connect_timeout=api.connect_timeout,
        idle_timeout=api.idle_timeout,
    )


def _rule(index: int, rule: settings.RuleSetting) -> Rule:
    return Rule(f"settings-{index}", rule.tool, Effect(rule.action), rule.pattern, "settings")


def _hook(hook: settings.HookSetting) -> Hook:
    return Hook(When(hook.on.value), hook.run, hook.tools, min(hook.timeout, MAX_TIMEOUT))


def _budget(budget: settings.BudgetSettings) -> core.Budget:
    return core.Budget(budget.tokens, budget.cost, budget.tool_calls, budget.seconds, budget.replies)


def rule(kept: Rule) -> wire_rule.Rule:
    return wire_rule.Rule(
        rule_id=kept.rule_id,
        tool=kept.tool,
        pattern=kept.pattern,
        action=wire_rule.RuleAction(kept.effect.value),
        source=kept.source,
    )


def definition(kind: Definition, all_tools: Sequence[str]) -> wire_definition.DefinitionInfo:
    """``all_tools`` are those that there are: a definition that names none may be given any."""
    return wire_definition.DefinitionInfo(
        name=kind.name,
        description=kind.description,
        icon=kind.icon,
        mode=wire_definition.DefinitionMode(kind.mode.value),
        tools=tuple(name for name in kind.tools or all_tools if kind.allows(name)),
        max_iterations=kind.max_iterations,
        model=kind.model,
        source=kind.source,
    )


def process(command: BackgroundCommand) -> wire_process.ProcessInfo:
    return wire_process.ProcessInfo(
        process_id=command.process_id,
        agent_id=command.agent_id,
        command=command.text,
        cwd=uri_of(command.cwd),
        status=wire_process.ProcessStatus.RUNNING if command.code is None else wire_process.ProcessStatus.EXITED,
        started_at=rfc3339(command.started_at),
        ended_at=None if command.ended_at is None else rfc3339(command.ended_at),
        exit_code=command.code,
    )


def metrics(counted: Metrics, *, running: int, queued: int) -> wire_metrics.MetricsResult:
    return wire_metrics.MetricsResult(
        counters=dict(counted.counters),
        gauges={"running": running, "queue.depth": queued},
        percentiles={
            name: wire_metrics.Percentiles(count=found.count, p50=found.p50, p95=found.p95, p99=found.p99)
            for name, found in counted.percentiles().items()
        },
    )
