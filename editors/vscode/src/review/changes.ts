/** The unreviewed changes of the session that the window shows, kept up to date, and how they are kept and undone. */
import * as vscode from "vscode";

import type { ReviewFile, ReviewListResult, ReviewParams, ReviewResult } from "../protocol.ts";
import type { Server } from "../server.ts";
import type { Sessions } from "../sessions.ts";
import { NO_CHANGES } from "../state/changes.ts";
import { Paced } from "../views/paced.ts";

/** Which changes to keep or undo. */
export type Selector = Omit<ReviewParams, "sessionId">;

/** Milliseconds after an edit of the user until the lines are requested again. */
const TYPING = 400;
const EVENTS: ReadonlySet<string> = new Set(["review_status", "changes_reviewed", "session_rewound"]);

export class Changes implements vscode.Disposable {
  readonly #server: Server;
  readonly #sessions: Sessions;
  readonly #changes = new vscode.EventEmitter<void>();
  readonly #paced = new Paced(() => void this.refresh());
  readonly #subscriptions: vscode.Disposable[];
  #list: ReviewListResult = NO_CHANGES;
  #sessionId: string | undefined;
  #byUri: ReadonlyMap<string, ReviewFile> = new Map();
  #fetching: Promise<void> | undefined;
  #isOutdated = false;
  readonly onDidChange = this.#changes.event;

  constructor(server: Server, sessions: Sessions) {
    this.#server = server;
    this.#sessions = sessions;
    const update = (): void => this.#paced.call();
    this.#subscriptions = [
      server.onEvent((event) => {
        if (EVENTS.has(event.type) && "sessionId" in event && event.sessionId === sessions.current?.sessionId) update();
      }),
      server.onState(update),
      sessions.onDidShow(update),
      sessions.onDidChange(({ sessionId, events }) => {
        if (!events && sessionId === sessions.current?.sessionId) update();
      }),
      vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
        if (contentChanges.length > 0 && this.fileAt(document.uri)) this.#paced.callIn(TYPING);
      }),
    ];
  }

  /** The list that was received last. */
  get list(): ReviewListResult {
    return this.#list;
  }

  /** The session that the list is about. */
  get sessionId(): string | undefined {
    return this.#sessionId;
  }

  fileAt(uri: vscode.Uri): ReviewFile | undefined {
    return this.#byUri.get(uri.toString());
  }

  /** Requests the list again. Concurrent calls share requests; the list is then newer than the last call. */
  refresh(): Promise<void> {
    this.#isOutdated = true;
    this.#fetching ??= this.#fetchAll();
    return this.#fetching;
  }

  keep(selector: Selector): Promise<ReviewResult> {
    return this.#review("deputy/review/keep", selector);
  }

  undo(selector: Selector): Promise<ReviewResult> {
    return this.#review("deputy/review/undo", selector);
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
    this.#paced.dispose();
    this.#changes.dispose();
  }

  async #review(method: "deputy/review/keep" | "deputy/review/undo", selector: Selector): Promise<ReviewResult> {
    if (this.#sessionId === undefined) return { done: [], conflicts: [] };
    const result = await this.#server.request(method, { sessionId: this.#sessionId, ...selector });
    await this.refresh();
    return result;
  }

  async #fetchAll(): Promise<void> {
    while (this.#isOutdated) {
      this.#isOutdated = false;
      await this.#fetch();
    }
    this.#fetching = undefined;
  }

  async #fetch(): Promise<void> {
    const state = this.#sessions.current;
    const sessionId = state?.snapshot ? undefined : state?.sessionId;
    const isServed = this.#server.state === "running" && this.#server.has("deputy/review/list");
    const isSame = sessionId !== undefined && sessionId === this.#sessionId;
    let list = isSame ? this.#list : NO_CHANGES;
    try {
      if (sessionId !== undefined && isServed) list = await this.#server.request("deputy/review/list", { sessionId });
    } catch (error) {
      this.#server.log.warn(String(error));
    }
    if (list === this.#list && isSame) return;
    this.#list = list;
    this.#sessionId = sessionId;
    // The server encodes URIs in another way.
    this.#byUri = new Map(list.files.map((file) => [vscode.Uri.parse(file.uri).toString(), file]));
    this.#changes.fire();
  }
}
