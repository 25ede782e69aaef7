/** The open sessions of this window, folded from events, and the one that it shows. */
import * as vscode from "vscode";

import { pickFolder } from "./editor.ts";
import { Images } from "./images.ts";
import type {
  EventParams,
  PermissionMode,
  SessionListResult,
  SessionPromptParams,
  SessionSetModelParams,
} from "./protocol.ts";
import { type Server, ServerEnded } from "./server.ts";
import { emptySession, isBusy, loadedSession, reduce, type SessionState, withTranscript } from "./state/session.ts";
import { showsPrompt } from "./state/text.ts";

const SHOWN = "deputy.session";
/** Number of transcript entries to fetch at first, and each time that earlier ones are shown. */
const PAGE = 200;
/** Number of recent sessions to search for an update of one. */
const NEWEST = 50;

export type PromptBlock = SessionPromptParams["prompt"][number];

/** A change: new events, or the whole state if there are none. */
export interface SessionChange {
  readonly sessionId: string;
  readonly events?: readonly EventParams[];
  /** Whether one of the messages has images that can be shown. */
  readonly hasImages?: true;
}

export class Sessions implements vscode.Disposable {
  readonly #server: Server;
  readonly #memory: vscode.Memento;
  readonly #states = new Map<string, SessionState>();
  /** Sessions loaded from an earlier server: their agents no longer run. */
  readonly #outdated = new Set<string>();
  readonly #loading = new Map<string, Promise<void>>();
  readonly #changes = new vscode.EventEmitter<SessionChange>();
  readonly #shown = new vscode.EventEmitter<void>();
  readonly #wentBack = new vscode.EventEmitter<readonly PromptBlock[]>();
  readonly #subscriptions: vscode.Disposable[];
  #current: string | undefined;
  #opening: Promise<SessionState> | undefined;
  #restoring: Promise<void> | undefined;
  readonly images = new Images();

  readonly onDidChange = this.#changes.event;
  /** Fires when another session is shown, or none. */
  readonly onDidShow = this.#shown.event;
  /** Fires with the prompt that `/rewind` has gone back over. */
  readonly onDidGoBack = this.#wentBack.event;

  constructor(server: Server, memory: vscode.Memento) {
    this.#server = server;
    this.#memory = memory;
    this.#subscriptions = [
      server.onEvent((event) => this.#handle(event)),
      server.onState((state) => {
        if (state === "running") void this.#reloadAll();
      }),
    ];
  }

  get current(): SessionState | undefined {
    return this.#current === undefined ? undefined : this.#states.get(this.#current);
  }

  /** Whether agents are working in any open session of this window. */
  get isAnyBusy(): boolean {
    return [...this.#states].some(([sessionId, state]) => !this.#outdated.has(sessionId) && isBusy(state));
  }

  get(sessionId: string): SessionState | undefined {
    return this.#states.get(sessionId);
  }

  /** The permission mode of a session, if known. */
  modeOf(sessionId: string): PermissionMode | undefined {
    return this.#states.get(sessionId)?.info?.permissionMode;
  }

  /** The shown session; creates one if there is none. Concurrent calls create one session. */
  async present(): Promise<SessionState> {
    await this.#restoring;
    if (this.current) return this.current;
    this.#opening ??= this.create().finally(() => (this.#opening = undefined));
    return this.#opening;
  }

  /** Creates a session in a folder of the window, and shows it. Throws the errors of {@link pickFolder}. */
  async create(): Promise<SessionState> {
    const cwd = await pickFolder();
    const { sessionId } = await this.#server.request("deputy/session/new", { cwd: cwd.toString() });
    // Earlier events do not contain its folder and settings.
    if (!this.#states.get(sessionId)?.info) await this.#load(sessionId);
    this.#show(sessionId);
    return this.#states.get(sessionId) ?? emptySession(sessionId);
  }

  /** Loads a session if needed, and shows it. */
  async open(sessionId: string): Promise<void> {
    if (!this.#states.has(sessionId)) await this.#load(sessionId);
    this.#show(sessionId);
  }

  /** Shows the session of the last run, if it still exists. Prompts sent meanwhile wait for it. */
  async restore(): Promise<void> {
    const sessionId = this.#memory.get<string>(SHOWN);
    if (!sessionId || this.#current) return;
    this.#restoring = this.open(sessionId).catch((error: unknown) => {
      if (this.#server.state === "running" && !(error instanceof ServerEnded))
        void this.#memory.update(SHOWN, undefined);
    });
    await this.#restoring;
  }

  /** Stops showing the session without stopping it. */
  leave(): void {
    this.#show(undefined);
  }

  /** Removes a deleted session. */
  forget(sessionId: string): void {
    this.#states.delete(sessionId);
    this.#outdated.delete(sessionId);
    if (this.#current === sessionId) this.#show(undefined);
  }

  /** Sends a prompt to a session; it is queued while a turn runs. A fork that it makes is opened. */
  async prompt({ sessionId, lastSeq }: SessionState, prompt: readonly PromptBlock[]): Promise<void> {
    const text = prompt.flatMap((block) => (block.type === "text" ? [block.text.trim()] : [])).join("\n");
    this.images.add({ sessionId, text, images: prompt.filter((block) => block.type === "image") });
    try {
      const done = await this.#server.request("deputy/session/prompt", { sessionId, prompt, queue: true });
      if (done.rewoundPrompt) this.#wentBack.fire(done.rewoundPrompt);
      if (done.forkedSessionId !== undefined) await this.open(done.forkedSessionId);
    } catch (error) {
      // A prompt that the agent has read was interrupted, not rejected: it can be continued.
      if (!(error instanceof ServerEnded && this.#hasRead(sessionId, lastSeq, text))) throw error;
    }
  }

  /** Whether the agent got that prompt after the event `since`. */
  #hasRead(sessionId: string, since: number, text: string): boolean {
    const state = this.#states.get(sessionId);
    return (state?.entries[state.primaryId ?? ""] ?? []).some(
      (entry) =>
        entry.type === "message" && entry.role === "user" && entry.seq > since && showsPrompt(entry.text, text),
    );
  }

  /** Fetches the end of an agent's transcript, unless it was fetched. */
  async fetchTranscript(sessionId: string, agentId: string): Promise<void> {
    const state = this.#states.get(sessionId);
    if (!state?.whole[agentId]) await this.#fetchBefore(sessionId, agentId, (state?.lastSeq ?? 0) + 1);
  }

  /** Fetches the entries before those that are known. */
  async fetchEarlier(sessionId: string, agentId: string): Promise<void> {
    const state = this.#states.get(sessionId);
    const first = state?.entries[agentId]?.[0];
    if (first && state.earlier[agentId]) await this.#fetchBefore(sessionId, agentId, first.seq);
  }

  async #fetchBefore(sessionId: string, agentId: string, before: number): Promise<void> {
    const params = { sessionId, agentId, before, limit: PAGE };
    const answer = await this.#server.request("deputy/agent/transcript", params);
    const state = this.#states.get(sessionId);
    if (!state) return;
    this.#states.set(sessionId, withTranscript(state, agentId, answer));
    this.#changes.fire({ sessionId });
  }

  /**
   * The newest sessions of this window's folders; agents of other sessions would change files that are not in the
   * window. Without a folder, all sessions.
   */
  async list(limit: number, includeArchived = false): Promise<SessionListResult> {
    const folders = vscode.workspace.workspaceFolders ?? [];
    const queries = folders.length ? folders.map(({ uri }) => ({ cwd: uri.toString() })) : [{}];
    const lists = await Promise.all(
      queries.map((query) => this.#server.request("deputy/session/list", { ...query, limit, includeArchived })),
    );
    const more = lists.find(({ nextCursor }) => nextCursor);
    const sessions = lists.flatMap((list) => list.sessions).sort((a, b) => b.updatedAt.localeCompare(a.updatedAt));
    const problem = lists.find((list) => list.problem)?.problem;
    return { sessions, ...(more?.nextCursor && { nextCursor: more.nextCursor }), ...(problem && { problem }) };
  }

  async setMode(sessionId: string, permissionMode: PermissionMode): Promise<void> {
    await this.#server.request("deputy/session/setPermissionMode", { sessionId, permissionMode });
    await this.#refreshInfo(sessionId);
  }

  /** Reloads all sessions, for example after their modes have changed. */
  async refresh(): Promise<void> {
    for (const sessionId of this.#states.keys()) await this.#load(sessionId);
  }

  async setModel(sessionId: string, change: Omit<SessionSetModelParams, "sessionId">): Promise<void> {
    await this.#server.request("deputy/session/setModel", { sessionId, ...change });
    await this.#refreshInfo(sessionId);
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
    this.#changes.dispose();
    this.#shown.dispose();
    this.#wentBack.dispose();
  }

  #handle(event: EventParams): void {
    if (!("sessionId" in event)) return;
    const { sessionId } = event;
    const state = this.#states.get(sessionId) ?? emptySession(sessionId);
    const next = reduce(state, event);
    this.#states.set(sessionId, next);
    const hasImages = this.images.match(event);
    this.#changes.fire({ sessionId, events: [event], ...(hasImages && { hasImages }) });
    if (next.stale) void this.#load(sessionId).catch(() => undefined);
    if (event.type === "session_changed") void this.#refreshInfo(sessionId).catch(() => undefined);
    // Show a session that the user started with the server's own command.
    if (this.#current === undefined && event.type === "turn_started") this.#show(sessionId);
  }

  /** Updates title and settings. Reloading the whole session would lose streamed text. */
  async #refreshInfo(sessionId: string): Promise<void> {
    // A load in progress may be older than the change.
    await this.#loading.get(sessionId)?.catch(() => undefined);
    if (!this.#states.get(sessionId)?.info) return this.#load(sessionId);
    const { sessions } = await this.#server.request("deputy/session/list", { limit: NEWEST, includeArchived: true });
    const found = sessions.find((one) => one.sessionId === sessionId);
    const state = this.#states.get(sessionId);
    if (!found || !state) return;
    // A list has only a mode that was set explicitly; otherwise the session keeps its initial mode.
    const permissionMode = found.permissionMode ?? state.info?.permissionMode;
    this.#states.set(sessionId, { ...state, info: { ...found, ...(permissionMode && { permissionMode }) } });
    this.#changes.fire({ sessionId });
  }

  #load(sessionId: string): Promise<void> {
    const present = this.#loading.get(sessionId);
    if (present) return present;
    const loading = this.#server
      .request("deputy/session/load", { sessionId, transcriptLimit: PAGE })
      .then((loaded) => {
        const before = this.#states.get(sessionId);
        const state = loadedSession(loaded);
        this.#states.set(sessionId, before ? withLive(before, state) : state);
        this.#outdated.delete(sessionId);
        this.#changes.fire({ sessionId });
      })
      .finally(() => this.#loading.delete(sessionId));
    this.#loading.set(sessionId, loading);
    return loading;
  }

  /** Reloads all sessions after a restart of the server. */
  async #reloadAll(): Promise<void> {
    const none = { turn: undefined, ended: undefined, streams: {}, outputs: {}, queue: [], requests: {} };
    const before = [...this.#states];
    // Mark all first: one session may get a prompt while another is loading.
    for (const [sessionId, state] of before) {
      this.#states.set(sessionId, { ...state, ...none });
      this.#outdated.add(sessionId);
    }
    for (const [sessionId] of before) {
      await this.#load(sessionId).catch((error: unknown) => {
        if (!(error instanceof ServerEnded)) this.forget(sessionId);
      });
      if (this.#server.state !== "running") return;
    }
  }

  #show(sessionId: string | undefined): void {
    if (this.#current === sessionId) return;
    this.#current = sessionId;
    void this.#memory.update(SHOWN, sessionId);
    this.#shown.fire();
  }
}

/** Keeps live data that a loaded state does not contain. */
function withLive({ turn, streams, outputs }: SessionState, loaded: SessionState): SessionState {
  return { ...loaded, turn: loaded.ended ? undefined : turn, streams, outputs };
}
