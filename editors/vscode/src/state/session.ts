/**
 * The fold of a session's events: agent tree, transcripts, plans, questions, counts. Pure: the extension host and the
 * webview fold the same events, and each finds what changed by comparing references.
 */
import type {
  AgentEntry,
  AgentFinished,
  AgentNode,
  AgentStarted,
  AgentTranscriptResult,
  EventParams,
  MessageEntry,
  PermissionRequest,
  PlanEntry,
  PromptQueueEntry,
  SessionInfo,
  SessionLoadResult,
  ToolCallEntry,
  ToolCallUpdate,
  ToolOutputDelta,
  TurnOrigin,
  TurnOutcome,
} from "../protocol.ts";

/** Characters of a running call's output that are kept. */
const MAX_OUTPUT = 20_000;

export type Entry = MessageEntry | ToolCallEntry | AgentEntry;

/** An agent as views show it: the node, and what only live events tell. */
export interface AgentView extends AgentNode {
  /** Such as `rate limited, retrying in 4 s (2/8)`. */
  readonly detail?: string | undefined;
  /** What it does now. */
  readonly activity?: string | undefined;
  readonly openQuestions: number;
}

/** A message in the making. */
export interface Stream {
  readonly messageId: string;
  readonly text: string;
  readonly thought: string;
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
  /** An event was missed: the session has to be loaded again. */
  readonly stale: boolean;
  readonly agents: Readonly<Record<string, AgentView>>;
  readonly entries: Readonly<Record<string, readonly Entry[]>>;
  /** Agents whose transcript is here as a whole; that of others is asked for when it is shown. */
  readonly whole: Readonly<Record<string, true>>;
  readonly streams: Readonly<Record<string, Stream>>;
  /** The end of what running calls have put out, by call. */
  readonly outputs: Readonly<Record<string, string>>;
  readonly plans: Readonly<Record<string, readonly PlanEntry[]>>;
  readonly questions: Readonly<Record<string, PermissionRequest>>;
  readonly queue: readonly PromptQueueEntry[];
  readonly turn: Turn | undefined;
  /** How the last turn ended, until the next one begins. */
  readonly ended: TurnOutcome | undefined;
  /** It is live in another window: this is how it was when it was read. */
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
    streams: {},
    outputs: {},
    plans: {},
    questions: {},
    queue: [],
    turn: undefined,
    ended: undefined,
    snapshot: false,
  };
}

/** A session as `deputy/session/load` gives it; transcripts of children come later, by {@link withTranscript}. */
export function loadedSession(loaded: SessionLoadResult): SessionState {
  const primary = loaded.agents.find((agent) => agent.parentAgentId === undefined);
  const state: SessionState = {
    ...emptySession(loaded.session.sessionId),
    info: loaded.session,
    primaryId: primary?.agentId,
    lastSeq: loaded.lastSeq,
    agents: Object.fromEntries(loaded.agents.map((agent) => [agent.agentId, { ...agent, openQuestions: 0 }])),
    entries: primary ? { [primary.agentId]: loaded.transcript } : {},
    whole: primary ? { [primary.agentId]: true } : {},
    plans: Object.fromEntries(loaded.plans.map((plan) => [plan.agentId, plan.entries])),
    queue: loaded.promptQueue,
    ended: loaded.lastTurn,
    snapshot: loaded.snapshot ?? false,
  };
  return loaded.permissions.reduce(openQuestion, state);
}

/** The transcript of one agent, which may be older than what was heard of it meanwhile. */
export function withTranscript(state: SessionState, agentId: string, answer: AgentTranscriptResult): SessionState {
  const news = (state.entries[agentId] ?? []).filter((entry) => entry.seq > answer.lastSeq);
  return {
    ...state,
    entries: { ...state.entries, [agentId]: [...answer.entries, ...news] },
    whole: { ...state.whole, [agentId]: true },
  };
}

/** The state after `event`. A durable event that is known already changes nothing. */
export function reduce(state: SessionState, event: EventParams): SessionState {
  if (!("sessionId" in event) || event.sessionId !== state.sessionId) return state;
  if (!("seq" in event)) return fold(state, event);
  if (event.seq <= state.lastSeq) return state;
  const next = fold(state, event);
  return { ...next, lastSeq: event.seq, stale: next.stale || event.seq > state.lastSeq + 1 };
}

/** The transcript of one agent as the server tells it: a child's block in the child's latest state. */
export function transcriptOf(state: SessionState, agentId: string): readonly Entry[] {
  return (state.entries[agentId] ?? []).map((entry) => {
    const now = entry.type === "agent" ? state.agents[entry.agentId] : undefined;
    if (entry.type !== "agent" || !now) return entry;
    const agent = nodeOf(now);
    const { references: _, ...told } = entry;
    return { ...told, agent, ...(agent.toolCallId && { toolCallId: agent.toolCallId }), result: agent.summary };
  });
}

/** An agent without what only live events tell. */
export function nodeOf({ openQuestions: _, detail: _detail, activity: _activity, ...node }: AgentView): AgentNode {
  return node;
}

/** The agents below `parentId` (`undefined`: the primary), by start, then id. */
export function childrenOf(state: SessionState, parentId: string | undefined): readonly AgentView[] {
  return Object.values(state.agents)
    .filter((agent) => agent.parentAgentId === parentId)
    .sort(byStart);
}

/** The agent and all below it, parents first. */
export function treeBelow(state: SessionState, agentId: string): readonly AgentView[] {
  const agent = state.agents[agentId];
  if (!agent) return [];
  return [agent, ...childrenOf(state, agentId).flatMap((child) => treeBelow(state, child.agentId))];
}

export interface Counts {
  readonly pending: number;
  readonly running: number;
  readonly finished: number;
  /** Open questions of the whole session. */
  readonly waiting: number;
}

/** Counts of children for the status line; the primary is always one. */
export function countsOf(state: SessionState): Counts {
  const children = Object.values(state.agents).filter((agent) => agent.parentAgentId !== undefined);
  const pending = children.filter((agent) => agent.status === "pending").length;
  const running = children.filter((agent) => agent.status === "running").length;
  const waiting = Object.keys(state.questions).length;
  return { pending, running, finished: children.length - pending - running, waiting };
}

/** Whether a turn runs, or an agent does in the background, as far as this window is to tell and to stop. */
export function isBusy(state: SessionState): boolean {
  if (state.snapshot) return false;
  return state.turn !== undefined || Object.values(state.agents).some((agent) => hasNotEnded(agent));
}

/** Milliseconds since the epoch up to which running agents have run: in a snapshot, when it was last heard of them. */
export function clockOf({ snapshot, agents }: SessionState): number {
  return snapshot ? Math.max(...Object.values(agents).map((agent) => Date.parse(agent.updatedAt))) : Date.now();
}

export function hasNotEnded(agent: AgentNode): boolean {
  return agent.status === "running" || agent.status === "pending";
}

/** Whether the server's end cut the work off, the turn or an agent in the background: one gesture continues it. */
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
      return { ...rested(state, event.agentId), turn: undefined, ended: outcomeOf(event) };
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
        updatedAt: state.agents[event.agentId]?.updatedAt ?? event.time, // leaves no trace that the store does not have
      });
    case "agent_finished":
      return finish(state, event);
    case "usage":
      return change(state, event, { usage: event.usage });
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
    case "permission_requested":
      return change(openQuestion(state, event), event, {});
    case "permission_resolved":
      return change(closeQuestion(state, event.requestId), event, {});
    default:
      return state; // derived events, and whatever a newer server tells
  }
}

function start(state: SessionState, event: AgentStarted): SessionState {
  const { agent, agentId, seq, run, time, toolCallId } = event;
  const known = state.agents[agentId];
  const view: AgentView = {
    ...agent,
    ...(known && { startedAt: known.startedAt, usage: known.usage }),
    openQuestions: 0,
  };
  const next = {
    ...state,
    agents: { ...state.agents, [agentId]: view },
    // Whoever hears of an agent from its first run on has its whole transcript.
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
  // An ending is final within its run: a late or repeated report changes nothing.
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
  const { status, content, locations, truncated } = event;
  const updated: Entry = {
    ...entry,
    status,
    ...(content !== undefined && { content }),
    ...(locations && { locations }),
    ...(truncated && { truncated }),
  };
  const entries = (state.entries[event.agentId] ?? []).with(index, updated);
  const rest = content === undefined ? state : without(state, "outputs", event.toolCallId);
  return { ...rest, entries: { ...state.entries, [event.agentId]: entries } };
}

function openQuestion(state: SessionState, question: PermissionRequest): SessionState {
  if (question.requestId in state.questions) return state;
  return countQuestion({ ...state, questions: { ...state.questions, [question.requestId]: question } }, question, 1);
}

function closeQuestion(state: SessionState, requestId: string): SessionState {
  const question = state.questions[requestId];
  return question ? countQuestion(without(state, "questions", requestId), question, -1) : state;
}

function countQuestion(state: SessionState, question: PermissionRequest, by: number): SessionState {
  const agent = state.agents[question.agent.agentId];
  if (!agent) return state;
  const counted = { ...agent, openQuestions: Math.max(0, agent.openQuestions + by) };
  return { ...state, agents: { ...state.agents, [agent.agentId]: counted } };
}

/** What a call has put out, of a long one the end. */
function latest(outputs: SessionState["outputs"], { toolCallId, text }: ToolOutputDelta): string {
  return `${outputs[toolCallId] ?? ""}${text}`.slice(-MAX_OUTPUT);
}

function without(state: SessionState, table: "streams" | "outputs" | "questions", key: string): SessionState {
  const { [key]: _, ...rest } = state[table];
  return { ...state, [table]: rest };
}

/** What was only thought stays in sight until something else is said. */
function rested(state: SessionState, agentId: string): SessionState {
  const isThought = state.streams[agentId]?.text === "";
  return isThought ? state : without(state, "streams", agentId);
}

/** Whether the turn has ended well, and nothing was said in it. */
export function isUnanswered(state: SessionState): boolean {
  const last = state.entries[state.primaryId ?? ""]?.at(-1);
  return state.ended?.stopReason === "end_turn" && last?.type === "message" && last.role === "user";
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
