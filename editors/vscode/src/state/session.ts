/**
 * The fold of a session's events: agent tree, transcripts, plans, permission requests, counts. Pure: the extension host
 * and the webview fold the same events, and each detects changes by comparing references.
 */
import type {
  AgentEntry,
  AgentFinished,
  AgentNode,
  AgentStarted,
  AgentTranscriptResult,
  EventParams,
  InputRequest,
  MessageEntry,
  PermissionRequest,
  PlanEntry,
  PromptQueueEntry,
  SessionInfo,
  SessionLoadResult,
  ThoughtEntry,
  ToolCallEntry,
  ToolCallUpdate,
  ToolOutputDelta,
  TurnOrigin,
  TurnOutcome,
} from "../protocol.ts";

/** Maximum characters of a running call's output. */
const MAX_OUTPUT = 20_000;

export type Entry = MessageEntry | ThoughtEntry | ToolCallEntry | AgentEntry;

/** An agent as views show it: the node, and data of live events. */
export interface AgentView extends AgentNode {
  /** For example `rate limited, retrying in 4 s (2/8)`. */
  readonly detail?: string | undefined;
  /** Current activity. */
  readonly activity?: string | undefined;
  readonly openRequests: number;
}

/** A streaming message. */
export interface Stream {
  readonly messageId: string;
  readonly text: string;
  readonly thought: string;
}

export interface CallTimes {
  readonly began: string;
  readonly ended?: string;
}

export interface Turn {
  readonly turnId: string;
  readonly origin: TurnOrigin;
  readonly startedAt: string;
}

export interface SessionState {
  readonly sessionId: string;
  readonly info: SessionInfo | undefined;
  readonly primaryId: string | undefined;
  readonly lastSeq: number;
  /** An event was missed: the session must be reloaded. */
  readonly stale: boolean;
  readonly agents: Readonly<Record<string, AgentView>>;
  readonly entries: Readonly<Record<string, readonly Entry[]>>;
  /** Agents whose transcript was fetched; that of others is fetched when it is shown. */
  readonly whole: Readonly<Record<string, true>>;
  /** Agents whose transcript has earlier entries, which are fetched on demand. */
  readonly earlier: Readonly<Record<string, true>>;
  readonly streams: Readonly<Record<string, Stream>>;
  /** The end of the output of running calls, by call. */
  readonly outputs: Readonly<Record<string, string>>;
  /** When calls of this window's lifetime began to run and ended, by call. */
  readonly times: Readonly<Record<string, CallTimes>>;
  readonly plans: Readonly<Record<string, readonly PlanEntry[]>>;
  readonly requests: Readonly<Record<string, PermissionRequest>>;
  readonly inputs: Readonly<Record<string, InputRequest>>;
  readonly queue: readonly PromptQueueEntry[];
  readonly turn: Turn | undefined;
  /** The outcome of the last turn, until the next one starts. */
  readonly ended: TurnOutcome | undefined;
  /** The session is open in another window: this is its state when it was read. */
  readonly snapshot: boolean;
}

export function emptySession(sessionId: string): SessionState {
  return {
    sessionId,
    info: undefined,
    primaryId: undefined,
    lastSeq: 0,
    stale: false,
    agents: {},
    entries: {},
    whole: {},
    earlier: {},
    streams: {},
    outputs: {},
    times: {},
    plans: {},
    requests: {},
    inputs: {},
    queue: [],
    turn: undefined,
    ended: undefined,
    snapshot: false,
  };
}

/** The state from `deputy/session/load`; {@link withTranscript} adds transcripts of sub-agents later. */
export function loadedSession(loaded: SessionLoadResult): SessionState {
  const primary = loaded.agents.find((agent) => agent.parentAgentId === undefined);
  const state: SessionState = {
    ...emptySession(loaded.session.sessionId),
    info: loaded.session,
    primaryId: primary?.agentId,
    lastSeq: loaded.lastSeq,
    agents: Object.fromEntries(loaded.agents.map((agent) => [agent.agentId, { ...agent, openRequests: 0 }])),
    entries: primary ? { [primary.agentId]: loaded.transcript } : {},
    whole: primary ? { [primary.agentId]: true } : {},
    earlier: primary && loaded.earlier ? { [primary.agentId]: true } : {},
    plans: Object.fromEntries(loaded.plans.map((plan) => [plan.agentId, plan.entries])),
    queue: loaded.promptQueue,
    ended: loaded.lastTurn,
    snapshot: loaded.snapshot ?? false,
  };
  const permitting = loaded.permissions.reduce((all, request) => open(all, "requests", request), state);
  return loaded.inputs.reduce((all, request) => open(all, "inputs", request), permitting);
}

/** Adds entries of one agent's transcript, and keeps later ones. */
export function withTranscript(state: SessionState, agentId: string, answer: AgentTranscriptResult): SessionState {
  const last = answer.entries.at(-1)?.seq ?? 0;
  const later = (state.entries[agentId] ?? []).filter((entry) => entry.seq > last);
  const { [agentId]: _, ...others } = state.earlier;
  return {
    ...state,
    entries: { ...state.entries, [agentId]: [...answer.entries, ...later] },
    whole: { ...state.whole, [agentId]: true },
    earlier: answer.earlier ? { ...others, [agentId]: true } : others,
  };
}

/** The state after `event`. A durable event that was already applied changes nothing. */
export function reduce(state: SessionState, event: EventParams): SessionState {
  if (!("sessionId" in event) || event.sessionId !== state.sessionId) return state;
  if (!("seq" in event)) return fold(state, event);
  if (event.seq <= state.lastSeq) return state;
  const next = fold(state, event);
  return { ...next, lastSeq: event.seq, stale: next.stale || event.seq > state.lastSeq + 1 };
}

/** The transcript of one agent as the server returns it: sub-agents have their latest state. */
export function transcriptOf(state: SessionState, agentId: string): readonly Entry[] {
  return (state.entries[agentId] ?? []).map((entry) => {
    const now = entry.type === "agent" ? state.agents[entry.agentId] : undefined;
    if (entry.type !== "agent" || !now) return entry;
    const agent = nodeOf(now);
    const { references: _, ...rest } = entry;
    return { ...rest, agent, ...(agent.toolCallId && { toolCallId: agent.toolCallId }), result: agent.summary };
  });
}

/** An agent without the data of live events. */
export function nodeOf({ openRequests: _, detail: _detail, activity: _activity, ...node }: AgentView): AgentNode {
  return node;
}

/** The agents below `parentId` (`undefined`: the primary), by start, then id. */
export function childrenOf(state: SessionState, parentId: string | undefined): readonly AgentView[] {
  return Object.values(state.agents)
    .filter((agent) => agent.parentAgentId === parentId)
    .sort(byStart);
}

/** The agent and its descendants, parents first. */
export function treeBelow(state: SessionState, agentId: string): readonly AgentView[] {
  const agent = state.agents[agentId];
  if (!agent) return [];
  return [agent, ...childrenOf(state, agentId).flatMap((child) => treeBelow(state, child.agentId))];
}

export interface Counts {
  readonly pending: number;
  readonly running: number;
  readonly finished: number;
  /** Open requests of the whole session. */
  readonly waiting: number;
}

/** Counts of sub-agents for the status line; there is always one primary. */
export function countsOf(state: SessionState): Counts {
  const children = Object.values(state.agents).filter((agent) => agent.parentAgentId !== undefined);
  const pending = children.filter((agent) => agent.status === "pending").length;
  const running = children.filter((agent) => agent.status === "running").length;
  const waiting = Object.keys({ ...state.requests, ...state.inputs }).length;
  return { pending, running, finished: children.length - pending - running, waiting };
}

/** Whether a turn or a background agent runs in this window. */
export function isBusy(state: SessionState): boolean {
  if (state.snapshot) return false;
  return state.turn !== undefined || Object.values(state.agents).some((agent) => hasNotEnded(agent));
}

/** The current time for elapsed times, in milliseconds since the epoch; in a snapshot, its last update. */
export function clockOf({ snapshot, agents }: SessionState): number {
  return snapshot ? Math.max(...Object.values(agents).map((agent) => Date.parse(agent.updatedAt))) : Date.now();
}

export function hasNotEnded(agent: AgentNode): boolean {
  return agent.status === "running" || agent.status === "pending";
}

/** Whether a restart interrupted the turn or a background agent, so that it can be continued. */
export function isInterrupted(state: SessionState): boolean {
  if (isBusy(state) || state.snapshot || !state.primaryId) return false;
  const entries = state.entries[state.primaryId] ?? [];
  const prompted = entries.findLastIndex((entry) => entry.type === "message" && entry.role === "user");
  const isCutOff = (entry: Entry): boolean =>
    entry.type === "agent" && (state.agents[entry.agentId] ?? entry.agent).failureReason === "interrupted_by_restart";
  return state.ended?.interrupted === true || entries.slice(prompted + 1).some(isCutOff);
}

// -- folding ---------------------------------------------------------------------------------------------------------

function fold(state: SessionState, event: EventParams): SessionState {
  switch (event.type) {
    case "turn_started":
      return {
        ...state,
        turn: { turnId: event.turnId, origin: event.origin, startedAt: event.time },
        ended: undefined,
      };
    case "turn_finished":
      return { ...withoutStream(state, event.agentId), turn: undefined, ended: outcomeOf(event) };
    case "prompt_queue":
      return { ...state, queue: event.entries };
    case "agent_started":
      return start(state, event);
    case "agent_status":
      return change(state, event, {
        status: event.status,
        queuePosition: event.queuePosition,
        detail: event.detail,
        ...(event.status === "idle" && { activity: undefined }),
      });
    case "agent_activity":
      return change(state, event, {
        activity: event.text,
        toolCallCount: event.toolCallCount,
        updatedAt: state.agents[event.agentId]?.updatedAt ?? event.time, // not stored, so it must not change this
      });
    case "agent_finished":
      return finish(state, event);
    case "usage":
      return change(state, event, { usage: event.usage, ...(event.context && { context: event.context }) });
    case "message_delta":
      return stream(state, event.agentId, event.messageId, event.text, "");
    case "thought_delta":
      return stream(state, event.agentId, event.messageId, "", event.text);
    case "message": {
      const { sessionId: _, agentSeq: __, ...entry } = event;
      const { agentId, messageId } = entry;
      const next = enter(state, agentId, entry);
      return state.streams[agentId]?.messageId === messageId ? without(next, "streams", agentId) : next;
    }
    case "thought": {
      const { sessionId: _, agentSeq: __, ...entry } = event;
      const { agentId, messageId } = entry;
      const next = enter(state, agentId, entry);
      const stream = state.streams[agentId];
      if (stream?.messageId !== messageId) return next;
      return { ...next, streams: { ...next.streams, [agentId]: { ...stream, thought: "" } } };
    }
    case "tool_call": {
      if (callIndex(state, event) >= 0) return state;
      const { sessionId: _, agentSeq: __, ...entry } = event;
      const { agentId } = entry;
      const count = (state.agents[agentId]?.toolCallCount ?? 0) + 1;
      return change(enter(state, agentId, entry), event, { toolCallCount: count });
    }
    case "tool_output_delta":
      return { ...state, outputs: { ...state.outputs, [event.toolCallId]: latest(state.outputs, event) } };
    case "tool_call_update":
      return updateCall(state, event);
    case "plan":
      return { ...state, plans: { ...state.plans, [event.agentId]: event.entries } };
    case "session_rewound":
      // What is hidden now is only known to the server.
      return event.conversation ? { ...state, stale: true } : state;
    case "permission_requested":
      return change(open(state, "requests", event), event, {});
    case "permission_resolved":
      return change(close(state, "requests", event.requestId), event, {});
    case "input_requested":
      return change(open(state, "inputs", event), event, {});
    case "input_resolved":
      return change(close(state, "inputs", event.requestId), event, {});
    default:
      return state; // derived events, and event types of newer servers
  }
}

function start(state: SessionState, event: AgentStarted): SessionState {
  const { agent, agentId, seq, run, time, toolCallId } = event;
  const known = state.agents[agentId];
  const view: AgentView = {
    ...agent,
    ...(known && {
      startedAt: known.startedAt,
      usage: known.usage,
      ...(known.context && { context: known.context }),
    }),
    openRequests: 0,
  };
  const next = {
    ...state,
    agents: { ...state.agents, [agentId]: view },
    // An agent seen since the start of its first run has a complete transcript.
    whole: known || run > 1 ? state.whole : { ...state.whole, [agentId]: true as const },
  };
  if (agent.parentAgentId === undefined) return { ...next, primaryId: agentId };
  const entry: AgentEntry = { seq, agentId, run, time, type: "agent", agent, ...(toolCallId && { toolCallId }) };
  return enter(next, agent.parentAgentId, entry);
}

function finish(state: SessionState, event: AgentFinished): SessionState {
  const { agentId, run, result, references } = event;
  const next = change(without(state, "streams", agentId), event, {
    status: event.status,
    endedAt: event.time,
    queuePosition: undefined,
    detail: undefined,
    activity: undefined,
    summary: result,
    error: event.error,
    failureReason: event.failureReason,
    usage: event.usage,
    toolCallCount: event.toolCallCount,
  });
  const node = next.agents[agentId];
  const parentId = node?.parentAgentId;
  if (!node || parentId === undefined) return next;
  return amend(next, parentId, (entry) =>
    entry.type === "agent" && entry.agentId === agentId && entry.run === run
      ? { ...entry, agent: node, result, ...(references && { references }) }
      : entry,
  );
}

function change(
  state: SessionState,
  event: { readonly agentId: string; readonly run: number; readonly time: string },
  changes: Partial<AgentView>,
): SessionState {
  const agent = state.agents[event.agentId];
  // The end of a run is final: late or repeated events change nothing.
  if (agent?.run !== event.run || agent.endedAt !== undefined) return state;
  return { ...state, agents: { ...state.agents, [event.agentId]: { ...agent, updatedAt: event.time, ...changes } } };
}

function stream(state: SessionState, agentId: string, messageId: string, text: string, thought: string): SessionState {
  const present = state.streams[agentId];
  const before = present?.messageId === messageId ? present : { messageId, text: "", thought: "" };
  const after = { messageId, text: before.text + text, thought: before.thought + thought };
  return { ...state, streams: { ...state.streams, [agentId]: after } };
}

function enter(state: SessionState, agentId: string, entry: Entry): SessionState {
  return { ...state, entries: { ...state.entries, [agentId]: [...(state.entries[agentId] ?? []), entry] } };
}

function amend(state: SessionState, agentId: string, by: (entry: Entry) => Entry): SessionState {
  const entries = state.entries[agentId];
  return entries ? { ...state, entries: { ...state.entries, [agentId]: entries.map(by) } } : state;
}

function callIndex(state: SessionState, call: { agentId: string; run: number; toolCallId: string }): number {
  const entries = state.entries[call.agentId] ?? [];
  return entries.findLastIndex(
    (entry) => entry.type === "tool_call" && entry.toolCallId === call.toolCallId && entry.run === call.run,
  );
}

function updateCall(state: SessionState, event: ToolCallUpdate): SessionState {
  const index = callIndex(state, event);
  const entry = state.entries[event.agentId]?.[index];
  if (entry?.type !== "tool_call") return state;
  const { status, content, locations, truncated, diff } = event;
  const updated: Entry = {
    ...entry,
    status,
    ...(content !== undefined && { content }),
    ...(locations && { locations }),
    ...(truncated && { truncated }),
    ...(diff && { diff }),
  };
  const entries = (state.entries[event.agentId] ?? []).with(index, updated);
  const rest = content === undefined ? state : without(state, "outputs", event.toolCallId);
  const times = timed(state.times, event);
  return { ...rest, times, entries: { ...state.entries, [event.agentId]: entries } };
}

function timed(times: SessionState["times"], { toolCallId, status, time }: ToolCallUpdate): SessionState["times"] {
  if (status === "in_progress") return { ...times, [toolCallId]: { began: time } };
  const known = times[toolCallId];
  return known ? { ...times, [toolCallId]: { ...known, ended: time } } : times;
}

function open<T extends "requests" | "inputs">(
  state: SessionState,
  table: T,
  request: SessionState[T][string],
): SessionState {
  if (request.requestId in state[table]) return state;
  return countRequest({ ...state, [table]: { ...state[table], [request.requestId]: request } }, request, 1);
}

function close(state: SessionState, table: "requests" | "inputs", requestId: string): SessionState {
  const request = state[table][requestId];
  return request ? countRequest(without(state, table, requestId), request, -1) : state;
}

function countRequest(state: SessionState, request: Pick<InputRequest, "agent">, by: number): SessionState {
  const agent = state.agents[request.agent.agentId];
  if (!agent) return state;
  const counted = { ...agent, openRequests: Math.max(0, agent.openRequests + by) };
  return { ...state, agents: { ...state.agents, [agent.agentId]: counted } };
}

/** The output of a call so far; for a long one, its end. */
function latest(outputs: SessionState["outputs"], { toolCallId, text }: ToolOutputDelta): string {
  return `${outputs[toolCallId] ?? ""}${text}`.slice(-MAX_OUTPUT);
}

function without(state: SessionState, table: "streams" | "outputs" | "requests" | "inputs", key: string): SessionState {
  const { [key]: _, ...rest } = state[table];
  return { ...state, [table]: rest };
}

/** Removes the stream of an ended turn, but keeps one that has only thoughts. */
function withoutStream(state: SessionState, agentId: string): SessionState {
  const isThought = state.streams[agentId]?.text === "";
  return isThought ? state : without(state, "streams", agentId);
}

function outcomeOf({ turnId, stopReason, error, interrupted, detail, setting }: TurnOutcome): TurnOutcome {
  return {
    turnId,
    stopReason,
    ...(error && { error }),
    ...(interrupted && { interrupted }),
    ...(detail && { detail }),
    ...(setting && { setting }),
  };
}

function byStart(a: AgentNode, b: AgentNode): number {
  return a.startedAt.localeCompare(b.startedAt) || a.agentId.localeCompare(b.agentId);
}
