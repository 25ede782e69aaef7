/** The sessions that this window has open, folded from events, and the one that it shows. */
import * as vscode from "vscode";

import { pickFolder } from "./editor.ts";
import { Pictures } from "./pictures.ts";
import type { EventParams, PermissionMode, SessionListResult, SessionPromptParams } from "./protocol.ts";
import { type Server, ServerEnded } from "./server.ts";
import { emptySession, isBusy, loadedSession, reduce, type SessionState, withTranscript } from "./state/session.ts";
import { showsPrompt } from "./state/words.ts";

const SHOWN = "deputy.session";
/** Sessions that are looked through for news of one: what changes in a window was used lately. */
const NEWEST = 50;

export type PromptBlock = SessionPromptParams["prompt"][number];

/** What changed: new events, or, without any, the whole state. */
export interface SessionChange {
  readonly sessionId: string;
  readonly events?: readonly EventParams[];
  /** Whether a message of them has pictures that can be shown. */
  readonly hasPictures?: true;
}

export class Sessions implements vscode.Disposable {
  readonly #server: Server;
  readonly #memory: vscode.Memento;
  readonly #states = new Map<string, SessionState>();
  /** Sessions as an earlier server told them: their agents work no more. */
  readonly #outdated = new Set<string>();
  readonly #loading = new Map<string, Promise<void>>();
  readonly #changes = new vscode.EventEmitter<SessionChange>();
  readonly #shown = new vscode.EventEmitter<void>();
  readonly #subscriptions: vscode.Disposable[];
  #current: string | undefined;
  #opening: Promise<SessionState> | undefined;
  #restoring: Promise<void> | undefined;
  readonly pictures = new Pictures();

  readonly onDidChange = this.#changes.event;
  /** Another session is shown, or none. */
  readonly onDidShow = this.#shown.event;

  constructor(server: Server, memory: vscode.Memento) {
    this.#server = server;
    this.#memory = memory;
    this.#subscriptions = [
      server.onEvent((event) => this.#hear(event)),
      server.onState((state) => {
        if (state === "running") void this.#reloadAll();
      }),
    ];
  }

  get current(): SessionState | undefined {
    return this.#current === undefined ? undefined : this.#states.get(this.#current);
  }

  /** Whether agents work in any session that this window has opened. */
  get isAnyBusy(): boolean {
    return [...this.#states].some(([sessionId, state]) => !this.#outdated.has(sessionId) && isBusy(state));
  }

  get(sessionId: string): SessionState | undefined {
    return this.#states.get(sessionId);
  }

  /** The mode that is in force in a session, as far as it is known. */
  modeOf(sessionId: string): PermissionMode | undefined {
    return this.#states.get(sessionId)?.info?.permissionMode;
  }

  /** The session that is shown; opens one when there is none, and no second one meanwhile. */
  async present(): Promise<SessionState> {
    await this.#restoring;
    if (this.current) return this.current;
    this.#opening ??= this.create().finally(() => (this.#opening = undefined));
    return this.#opening;
  }

  /** Opens a session in a folder of the window, and shows it. Throws what {@link pickFolder} does. */
  async create(): Promise<SessionState> {
    const cwd = await pickFolder();
    const { sessionId } = await this.#server.request("deputy/session/new", { cwd: cwd.toString() });
    // Events that came already tell nothing of its folder and settings.
    if (!this.#states.get(sessionId)?.info) await this.#load(sessionId);
    this.#show(sessionId);
    return this.#states.get(sessionId) ?? emptySession(sessionId);
  }

  /** Loads a session if need be, and shows it. */
  async open(sessionId: string): Promise<void> {
    if (!this.#states.has(sessionId)) await this.#load(sessionId);
    this.#show(sessionId);
  }

  /** Shows the session of the last time, if the server still has it. A prompt meanwhile waits for it. */
  async restore(): Promise<void> {
    const sessionId = this.#memory.get<string>(SHOWN);
    if (!sessionId || this.#current) return;
    this.#restoring = this.open(sessionId).catch((error: unknown) => {
      if (this.#server.state === "running" && !(error instanceof ServerEnded))
        void this.#memory.update(SHOWN, undefined);
    });
    await this.#restoring;
  }

  /** Stops showing the session; it goes on. */
  leave(): void {
    this.#show(undefined);
  }

  /** Drops a session that was deleted. */
  forget(sessionId: string): void {
    this.#states.delete(sessionId);
    this.#outdated.delete(sessionId);
    if (this.#current === sessionId) this.#show(undefined);
  }

  /** Prompts a session; the prompt waits in the queue while a turn runs. */
  async prompt({ sessionId, lastSeq }: SessionState, prompt: readonly PromptBlock[]): Promise<void> {
    const text = prompt.flatMap((block) => (block.type === "text" ? [block.text.trim()] : [])).join("\n");
    this.pictures.send({ sessionId, text, pictures: prompt.filter((block) => block.type === "image") });
    try {
      await this.#server.request("deputy/session/prompt", { sessionId, prompt, queue: true });
    } catch (error) {
      // A prompt that the agent had read is cut off, not unsent: it can be continued.
      if (!(error instanceof ServerEnded && this.#hasRead(sessionId, lastSeq, text))) throw error;
    }
  }

  /** Whether the agent was given that prompt after the event `since`. */
  #hasRead(sessionId: string, since: number, text: string): boolean {
    const state = this.#states.get(sessionId);
    return (state?.entries[state.primaryId ?? ""] ?? []).some(
      (entry) =>
        entry.type === "message" && entry.role === "user" && entry.seq > since && showsPrompt(entry.text, text),
    );
  }

  /** Fetches the transcript of an agent whose start was not heard here. */
  async transcribe(sessionId: string, agentId: string): Promise<void> {
    if (this.#states.get(sessionId)?.whole[agentId]) return;
    const answer = await this.#server.request("deputy/agent/transcript", { sessionId, agentId });
    const state = this.#states.get(sessionId);
    if (!state) return;
    this.#states.set(sessionId, withTranscript(state, agentId, answer));
    this.#changes.fire({ sessionId });
  }

  /**
   * The newest sessions of this window's folders: agents of one that works elsewhere would change files that are not
   * in sight. Without a folder, all.
   */
  async list(limit: number, includeArchived = false): Promise<SessionListResult> {
    const folders = vscode.workspace.workspaceFolders ?? [];
    const queries = folders.length ? folders.map(({ uri }) => ({ cwd: uri.toString() })) : [{}];
    const lists = await Promise.all(
      queries.map((query) => this.#server.request("deputy/session/list", { ...query, limit, includeArchived })),
    );
    const more = lists.find(({ nextCursor }) => nextCursor);
    const sessions = lists.flatMap((list) => list.sessions).sort((a, b) => b.updatedAt.localeCompare(a.updatedAt));
    return { sessions, ...(more?.nextCursor && { nextCursor: more.nextCursor }) };
  }

  async setMode(sessionId: string, permissionMode: PermissionMode): Promise<void> {
    await this.#server.request("deputy/session/setPermissionMode", { sessionId, permissionMode });
    await this.#learn(sessionId);
  }

  /** Asks for all anew, as when other modes are in force. */
  async refresh(): Promise<void> {
    for (const sessionId of this.#states.keys()) await this.#load(sessionId);
  }

  async setModel(sessionId: string, model: string): Promise<void> {
    await this.#server.request("deputy/session/setModel", { sessionId, model });
    await this.#learn(sessionId);
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
    this.#changes.dispose();
    this.#shown.dispose();
  }

  #hear(event: EventParams): void {
    if (!("sessionId" in event)) return;
    const { sessionId } = event;
    const state = this.#states.get(sessionId) ?? emptySession(sessionId);
    const next = reduce(state, event);
    this.#states.set(sessionId, next);
    const hasPictures = this.pictures.hear(event);
    this.#changes.fire({ sessionId, events: [event], ...(hasPictures && { hasPictures }) });
    if (next.stale) void this.#load(sessionId).catch(() => undefined);
    if (event.type === "session_changed") void this.#learn(sessionId).catch(() => undefined);
    // A session that the user began by the server's own command.
    if (this.#current === undefined && event.type === "turn_started") this.#show(sessionId);
  }

  /** Asks for title and settings anew. Loading all of the session would lose what of a message was streamed so far. */
  async #learn(sessionId: string): Promise<void> {
    // What is being loaded may be older than the news.
    await this.#loading.get(sessionId)?.catch(() => undefined);
    if (!this.#states.get(sessionId)?.info) return this.#load(sessionId);
    const { sessions } = await this.#server.request("deputy/session/list", { limit: NEWEST, includeArchived: true });
    const found = sessions.find((one) => one.sessionId === sessionId);
    const state = this.#states.get(sessionId);
    if (!found || !state) return;
    // A list tells only a mode that was chosen; the one in force, which the session began with, stays until then.
    const permissionMode = found.permissionMode ?? state.info?.permissionMode;
    this.#states.set(sessionId, { ...state, info: { ...found, ...(permissionMode && { permissionMode }) } });
    this.#changes.fire({ sessionId });
  }

  #load(sessionId: string): Promise<void> {
    const present = this.#loading.get(sessionId);
    if (present) return present;
    const loading = this.#server
      .request("deputy/session/load", { sessionId })
      .then((loaded) => {
        const before = this.#states.get(sessionId);
        const state = loadedSession(loaded);
        this.#states.set(sessionId, before ? kept(before, state) : state);
        this.#outdated.delete(sessionId);
        this.#changes.fire({ sessionId });
      })
      .finally(() => this.#loading.delete(sessionId));
    this.#loading.set(sessionId, loading);
    return loading;
  }

  /** After a restart of the server: what was live is history now. */
  async #reloadAll(): Promise<void> {
    const none = { turn: undefined, ended: undefined, streams: {}, outputs: {}, queue: [], questions: {} };
    const before = [...this.#states];
    // All of them at once: one may be prompted while another is loaded.
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

/** What a loaded state does not tell, and live events did. */
function kept({ turn, streams, outputs }: SessionState, loaded: SessionState): SessionState {
  return { ...loaded, turn: loaded.ended ? undefined : turn, streams, outputs };
}
