/** A transcript: messages, tool calls and blocks of sub-agents, in order. */
import { type CallGroup, grouped } from "../src/state/calls.ts";
import { type Entry, hasNotEnded, type SessionState } from "../src/state/session.ts";
import { oneLine } from "../src/state/text.ts";
import { ApprovalCard } from "./approval.ts";
import { AgentBlock } from "./block.ts";
import { CallGroupPart, CallPart } from "./call.ts";
import { arrange, h, icon, setText } from "./dom.ts";
import { MessagePart, StreamPart, ThoughtPart } from "./message.ts";
import { QuestionCard } from "./question.ts";
import { unsettle } from "./settling.ts";
import type { Part, View } from "./view.ts";

/** The shown part of a transcript: all of it, or only the calls in a sub-agent's block. */
export type Detail = "whole" | "calls";

const RECENT_CALLS = 6;

const NOTHING: readonly Entry[] = [];

type Item = Entry | CallGroup;

export class Transcript implements Part {
  readonly element = h("div", { class: "transcript" });
  readonly #agentId: string;
  readonly #detail: Detail;
  readonly #parts = new Map<string, Part>();
  #itemsOf: readonly Entry[] | undefined;
  #known: readonly Item[] = [];
  #showsAll = false;
  #view: View | undefined;

  constructor(agentId: string, detail: Detail) {
    this.#agentId = agentId;
    this.#detail = detail;
  }

  update(view: View): void {
    this.#view = view;
    const { entries, streams, requests, inputs } = view.state;
    const own = this.#items(entries[this.#agentId]);
    const wanted = new Map<string, Part>();
    const hidden = this.#hidden(own);
    if (hidden > 0) this.#want(wanted, "more", () => new Earlier(() => this.#showAll()));
    else if (view.state.earlier[this.#agentId]) this.#want(wanted, "earlier", () => new EarlierPages(this.#agentId));
    for (const entry of own.slice(hidden)) this.#want(wanted, keyOf(entry), () => partOf(entry));
    const stream = streams[this.#agentId];
    if (stream && this.#detail === "whole")
      this.#want(wanted, `stream/${stream.messageId}`, () => new StreamPart(this.#agentId, view));
    if (this.#isBetweenSteps(view)) this.#want(wanted, "working", () => new Working(this.#agentId));
    for (const request of Object.values(requests)) {
      if (request.agent.agentId === this.#agentId)
        this.#want(wanted, `approval/${request.requestId}`, () => new ApprovalCard(request));
    }
    for (const input of Object.values(inputs)) {
      if (input.agent.agentId === this.#agentId)
        this.#want(wanted, `question/${input.requestId}`, () => new QuestionCard(input));
    }
    this.#replace(wanted);
    for (const entry of own.slice(hidden)) {
      const part = wanted.get(keyOf(entry));
      if (part && "entry" in part) part.entry = entry;
    }
    for (const part of wanted.values()) {
      if (part instanceof Earlier) part.count = callsIn(own.slice(0, hidden));
      part.update(view);
    }
  }

  /** Whether the agent works and nothing of it shows that, such as before the first token of an answer. */
  #isBetweenSteps({ state }: View): boolean {
    if (this.#detail !== "whole" || !isAtWork(state, this.#agentId) || state.streams[this.#agentId]) return false;
    const entries = state.entries[this.#agentId] ?? [];
    return !entries.some(
      (entry) =>
        (entry.type === "tool_call" && (entry.status === "pending" || entry.status === "in_progress")) ||
        (entry.type === "agent" && hasNotEnded(state.agents[entry.agentId] ?? entry.agent)),
    );
  }

  #want(wanted: Map<string, Part>, key: string, make: () => Part): void {
    wanted.set(key, this.#parts.get(key) ?? make());
  }

  #replace(wanted: Map<string, Part>): void {
    // Only for a pressed button: a user writing a reason must not continue typing elsewhere.
    const pressed = document.activeElement?.closest("button") ?? null;
    const answered = [...this.#parts].some(
      ([key, { element }]) => !wanted.has(key) && pressed && element.contains(pressed),
    );
    const before = new Map(this.#parts);
    this.#parts.clear();
    for (const [key, part] of wanted) this.#parts.set(key, part);
    arrange(
      this.element,
      [...wanted.values()].map((part) => part.element),
    );
    if (answered) focusNext();
    const isAsking = (part: Part | undefined): boolean => part instanceof ApprovalCard;
    const added = [...wanted].some(([key, part]) => isAsking(part) && !before.has(key));
    if (added || [...before].some(([key, part]) => isAsking(part) && !wanted.has(key))) unsettle();
  }

  /** What is shown; the same list while the entries are the same. */
  #items(entries: readonly Entry[] = NOTHING): readonly Item[] {
    if (this.#itemsOf !== entries) {
      this.#itemsOf = entries;
      this.#known = grouped(this.#shown(entries));
    }
    return this.#known;
  }

  /** The shown entries: without calls that started an agent, and in a block without messages. */
  #shown(entries: readonly Entry[]): readonly Entry[] {
    const delegations = new Set(entries.map((entry) => (entry.type === "agent" ? entry.toolCallId : undefined)));
    return entries.filter((entry) => {
      if (entry.type === "tool_call") return !delegations.has(entry.toolCallId);
      return entry.type === "agent" || this.#detail === "whole";
    });
  }

  #hidden(items: readonly Item[]): number {
    const first = items.findIndex(({ type }) => type !== "tool_call" && type !== "calls");
    const calls = first < 0 ? items.length : first;
    return this.#detail === "calls" && !this.#showsAll ? Math.max(0, calls - RECENT_CALLS) : 0;
  }

  #showAll(): void {
    this.#showsAll = true;
    if (this.#view) this.update(this.#view);
  }
}

/** A row at the end of the transcript while the model has not answered yet. */
class Working implements Part {
  readonly element: HTMLElement;
  readonly #agentId: string;
  readonly #text = h("span", {});

  constructor(agentId: string) {
    this.#agentId = agentId;
    this.element = h("div", { class: "working muted" }, icon("sync", true), this.#text);
  }

  update(view: View): void {
    setText(this.#text, oneLine(view.state.agents[this.#agentId]?.detail ?? "") || "Working…");
  }
}

/** Whether an agent works in this window: the primary in a turn, a sub-agent until it ends. */
function isAtWork(state: SessionState, agentId: string): boolean {
  const agent = state.agents[agentId];
  if (state.snapshot || !agent) return false;
  return agentId === state.primaryId ? state.turn !== undefined : agent.status === "running";
}

/** The link `+ 12 earlier calls`, which shows them. */
class Earlier implements Part {
  readonly element: HTMLElement;
  count = 0;

  constructor(show: () => void) {
    this.element = h("button", { type: "button", class: "link earlier", onClick: show });
  }

  update(): void {
    this.element.textContent = `+ ${this.count} earlier ${this.count === 1 ? "call" : "calls"}`;
  }
}

/** The link to entries that were not fetched. */
class EarlierPages implements Part {
  readonly element: HTMLElement;
  #view: View | undefined;

  constructor(agentId: string) {
    const fetch = (): void => this.#view?.send({ type: "earlier", agentId });
    this.element = h("button", { type: "button", class: "link earlier", onClick: fetch }, "Show earlier messages");
  }

  update(view: View): void {
    this.#view = view;
  }
}

/** After an answer by keyboard, focuses the next approval or the prompt box, so that the focus stays in the page. */
function focusNext(): void {
  const next = document.querySelector<HTMLElement>(".approval") ?? document.querySelector<HTMLElement>(".prompt");
  next?.focus();
}

function partOf(entry: Item): Part {
  switch (entry.type) {
    case "calls":
      return new CallGroupPart(entry);
    case "message":
      return new MessagePart(entry);
    case "thought":
      return new ThoughtPart(entry);
    case "tool_call":
      return new CallPart(entry);
    case "agent":
      return new AgentBlock(entry);
  }
}

function callsIn(items: readonly Item[]): number {
  return items.reduce((sum, item) => sum + (item.type === "calls" ? item.calls.length : 1), 0);
}

function keyOf(entry: Item): string {
  return `${entry.type}/${entry.seq}`;
}
