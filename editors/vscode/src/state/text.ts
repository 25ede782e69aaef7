/** Text for display: labels, times, numbers, and text of models made safe to show. */
import type {
  AgentRef,
  AgentStatus,
  ContextSize,
  FailureReason,
  PermissionMode,
  Range,
  ToolStatus,
  TurnEnd,
  TurnOutcome,
  Usage,
} from "../protocol.ts";
import { type AgentView, type Counts, countsOf, isBusy, type SessionState } from "./session.ts";

/** An icon of VS Code's set, and a word with the same meaning for screen readers. */
export interface Sign {
  readonly icon: string;
  readonly word: string;
  readonly spin?: boolean;
}

const AGENT_SIGNS: Readonly<Record<AgentStatus, Sign>> = {
  idle: { icon: "circle-outline", word: "idle" },
  pending: { icon: "ellipsis", word: "queued" },
  running: { icon: "sync", word: "running", spin: true },
  completed: { icon: "check", word: "completed" },
  failed: { icon: "error", word: "failed" },
  cancelled: { icon: "circle-slash", word: "cancelled" },
};

const CALL_SIGNS: Readonly<Record<ToolStatus, Sign>> = {
  pending: { icon: "ellipsis", word: "pending" },
  in_progress: { icon: "sync", word: "running", spin: true },
  completed: { icon: "check", word: "completed" },
  failed: { icon: "error", word: "failed" },
  cancelled: { icon: "circle-slash", word: "cancelled" },
};

const FAILURES: Readonly<Record<FailureReason, string>> = {
  tool_error: "a tool failed",
  approval_denied: "denied by you",
  runtime_error: "gave no answer",
  model_error: "the model failed",
  sub_agent_error: "gave up",
  timed_out: "timed out",
  budget_exceeded: "over its budget",
  interrupted_by_restart: "interrupted by a restart",
  unknown: "failed",
};

const ENDINGS: Readonly<Record<TurnEnd, string>> = {
  end_turn: "",
  max_tokens: "The answer was cut at the token limit.",
  max_turn_requests: "Stopped: a limit was reached.",
  refusal: "The model refused to answer.",
  cancelled: "Cancelled.",
  error: "The turn failed.",
};

const MODES: Readonly<Record<PermissionMode, { readonly name: string; readonly about: string }>> = {
  plan: { name: "Plan", about: "read and plan, change nothing" },
  default: { name: "Ask", about: "ask first: before every change and command" },
  accept_edits: { name: "Accept edits", about: "review after: edits are made and listed; ask before commands" },
  bypass: { name: "Bypass", about: "never ask; only deny rules apply" },
};

/** The display name of an agent: Deputy for the primary, the label for a sub-agent. */
export function nameOf(agent: Pick<AgentRef, "depth" | "label">, limit = 60): string {
  return agent.depth === 0 ? "Deputy" : oneLine(agent.label, limit);
}

export function signOf(agent: Pick<AgentView, "status" | "openRequests">): Sign {
  if (agent.openRequests > 0 && agent.status === "running") return { icon: "question", word: "waiting for you" };
  return AGENT_SIGNS[agent.status];
}

export function signOfCall(status: ToolStatus): Sign {
  return CALL_SIGNS[status];
}

/** Why an agent ended, or what it waits for; empty if there is no reason. */
export function reasonOf(agent: AgentView): string {
  if (agent.status === "failed") return agent.failureReason ? FAILURES[agent.failureReason] : "failed";
  if (agent.status === "cancelled") return "cancelled";
  if (agent.status === "pending") return agent.queuePosition ? `queued, ${ordinal(agent.queuePosition)}` : "queued";
  return agent.detail ?? "";
}

/** How and why a turn ended; empty if it ended normally. */
export function endingOf(ended: TurnOutcome): string {
  if (!ended.detail) return ENDINGS[ended.stopReason];
  const isOfOnePrompt = /^limits\.|\.seconds$/.test(ended.setting ?? "");
  // Changed settings apply immediately, also to open sessions.
  const ofSession = "Raise that setting and continue here, or start a new session.";
  return `Stopped: ${ended.detail}. ${isOfOnePrompt ? "Send a prompt to continue, or raise that setting." : ofSession}`;
}

/** The name and description of a mode; an invalid value in the settings counts as `default`. */
export function modeOf(mode: string): { readonly name: string; readonly about: string } {
  return (PERMISSION_MODES as readonly string[]).includes(mode) ? MODES[mode as PermissionMode] : MODES.default;
}

export const PERMISSION_MODES = Object.keys(MODES) as readonly PermissionMode[];

/** `0.9 s`, `12 s`, `3 min 5 s`, `1 h 2 min`. */
export function elapsed(milliseconds: number): string {
  const seconds = Math.max(0, milliseconds) / 1000;
  if (seconds < 10) return `${(Math.floor(seconds * 10) / 10).toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** How long an agent has run, or ran. */
export function runTime(agent: Pick<AgentView, "startedAt" | "endedAt">, now: number): string {
  return elapsed((agent.endedAt ? Date.parse(agent.endedAt) : now) - Date.parse(agent.startedAt));
}

/** `840 tok`, `3.1k tok`, `1.2M tok`: all input and output tokens. */
export function tokens(usage: Usage): string {
  const count = usage.inputTokens + usage.outputTokens + usage.cacheReadTokens + usage.cacheWriteTokens;
  if (count === 0) return "";
  if (count < 1000) return `${count} tok`;
  return count < 999_950 ? `${(count / 1000).toFixed(1)}k tok` : `${(count / 1_000_000).toFixed(1)}M tok`;
}

/** `$0.04`; empty if no price is known. */
export function cost(usage: Usage): string {
  return priceOf(usage.cost ?? 0);
}

function priceOf(dollars: number): string {
  if (dollars === 0) return "";
  return dollars < 0.01 ? "<$0.01" : `$${dollars.toFixed(2)}`;
}

/** `42%` and `84k of 200k tokens`: how full a context window is; empty before the first reply. */
export function gauge(size: ContextSize | undefined): { readonly share: string; readonly about: string } {
  if (!size) return { share: "", about: "" };
  const thousands = (count: number): string => (count < 1000 ? `${count}` : `${Math.round(count / 1000)}k`);
  return {
    share: `${Math.floor((100 * size.used) / size.window)}%`,
    about: `${thousands(size.used)} of ${thousands(size.window)} tokens`,
  };
}

/** The model of an agent, and its effort if one was chosen. */
export function modelOf(agent: Pick<AgentView, "model" | "effort">): string {
  return [oneLine(agent.model, 60), agent.effort ?? ""].filter(Boolean).join(" · ");
}

/** The same; empty for the primary, and for a sub-agent with the model and effort of its parent. */
export function ownModelOf(state: Pick<SessionState, "agents">, agent: AgentView): string {
  const parent = state.agents[agent.parentAgentId ?? ""];
  return !parent || modelOf(parent) === modelOf(agent) ? "" : modelOf(agent);
}

export function calls(count: number): string {
  return count === 1 ? "1 call" : `${count} calls`;
}

/** `1 waiting for you · Agents: 1 primary, 2 running, 1 finished`: most important first, because it may be cut. */
export function statusLine(counts: Counts): string {
  const queued = counts.pending ? `${counts.pending} queued, ` : "";
  const agents = `Agents: 1 primary, ${queued}${counts.running} running, ${counts.finished} finished`;
  return [waitingLine(counts), agents].filter(Boolean).join(" · ");
}

/**
 * `Working… 12 s · 3 agents · $0.73`: the time of the turn, the sub-agents that run or are queued, the cost of the session.
 * Only the cost while nothing runs; empty if that is not known either.
 */
export function workLine(state: SessionState, now: number): string {
  const { pending, running } = countsOf(state);
  const total = Object.values(state.agents).reduce((sum, { usage }) => sum + (usage.cost ?? 0), 0);
  const price = priceOf(total);
  if (!isBusy(state)) return price && `${price} in this session`;
  const time = state.turn ? elapsed(now - Date.parse(state.turn.startedAt)) : "";
  const agents = running ? `${running} ${running === 1 ? "agent" : "agents"}` : "";
  return [`Working… ${time}`.trim(), agents, pending ? `${pending} queued` : "", price].filter(Boolean).join(" · ");
}

/** `1 waiting for you`; empty if nothing waits. */
export function waitingLine({ waiting }: Pick<Counts, "waiting">): string {
  return waiting ? `${waiting} waiting for you` : "";
}

/** Controls, separators of lines, and characters that are invisible; selectors of emoji stay. */
const HIDDEN = /(?![\ufe0e\ufe0f])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\p{Default_Ignorable_Code_Point}\u2800]/gu;
const INEXACT = /(?! )[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/gu;

/**
 * Text of a model or a file, safe to show: control and format characters, which could hide or reorder text, are spelled
 * out. Line breaks and tabs stay.
 */
export function visible(text: string): string {
  return text.replace(HIDDEN, (character) =>
    character === "\n" || character === "\t" ? character : spelledOut(character),
  );
}

/**
 * Text that the user approves: like {@link visible}, but every character that is not what it looks like is spelled out,
 * such as a space that does not separate words. `kept` are the characters that stay as they are.
 */
export function exact(text: string, kept = "\n\t"): string {
  return text.replace(INEXACT, (character) => (kept.includes(character) ? character : spelledOut(character)));
}

/** One line of {@link visible} text, cut to `limit` characters. */
export function oneLine(text: string, limit = 200): string {
  const line = visible(text.replace(/[ \t\n\v\f\r]+/g, " ").replace(/^ | $/g, ""));
  const characters = [...line];
  return characters.length > limit ? `${characters.slice(0, limit - 1).join("")}…` : line;
}

/** {@link oneLine}, cut between two words if at least half of the limit remains. */
export function brief(text: string, limit: number): string {
  const line = oneLine(text, limit);
  const blank = line.lastIndexOf(" ");
  return line.endsWith("…") && blank >= limit / 2 ? `${line.slice(0, blank)}…` : line;
}

/** Whether a text is a single visible character, which may consist of several code points. */
export function isOneSign(text: string): boolean {
  return [...new Intl.Segmenter().segment(text)].length === 1 && !/[\p{Cc}\p{Cs}]/u.test(text);
}

/** Text without icon syntax, because the editor renders `$(name)` as an icon. */
export function iconless(text: string): string {
  return text.replaceAll("$(", "$ (");
}

/** Whether a shown message is the prompt with this text; the message may have mentions after the text. */
export function showsPrompt(shown: string, text: string): boolean {
  return shown.trim().startsWith(text.trim());
}

/** The lines of a range, from 1: `3`, `3-9`. A range that ends at the start of a line excludes that line. */
export function lines({ start, end }: Range): string {
  const [first, last] = [start.line + 1, end.line + (end.character === 0 ? 0 : 1)];
  return first >= last ? `${first}` : `${first}-${last}`;
}

/** The path of a `file:` URI for display. */
export function pathOf(uri: string): string {
  return exact(decodeURIComponent(new URL(uri).pathname), "");
}

/** Whether a text has invisible characters, raw or already spelled out by the server. */
export function hides(text: string): boolean {
  return /\\u\{[0-9a-f]+\}/i.test(exact(text));
}

function spelledOut(character: string): string {
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}

function ordinal(position: number): string {
  const teens = position % 100 >= 11 && position % 100 <= 13;
  return `${position}${(!teens && ["", "st", "nd", "rd"][position % 10]) || "th"}`;
}
