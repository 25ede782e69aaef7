/** A webview that shows a session: the chat, or the transcript of one agent in an editor tab. */
import { randomBytes } from "node:crypto";
import * as vscode from "vscode";

import { folderName } from "../editor.ts";
import type { Proposals } from "../approval/proposals.ts";
import type { Staleness } from "../approval/staleness.ts";
import type { Setup } from "../install/setup.ts";
import type { EventParams } from "../protocol.ts";
import type { Changes } from "../review/changes.ts";
import type { ReviewComments } from "../review/comments.ts";
import { relativePath } from "../review/rewinds.ts";
import type { Server } from "../server.ts";
import type { Sessions } from "../sessions.ts";
import { startSettings } from "../settings.ts";
import { shownChanges } from "../state/changes.ts";
import type { SessionState } from "../state/session.ts";
import { modelOf, oneLine } from "../state/text.ts";
import type { FromPage, Surroundings, ToPage } from "./messages.ts";

/** Milliseconds to batch events: one frame. */
const FRAME = 16;

export interface Context {
  readonly extensionUri: vscode.Uri;
  readonly sessions: Sessions;
  readonly server: Server;
  readonly setup: Setup;
  readonly proposals: Proposals;
  readonly staleness: Staleness;
  readonly changes: Changes;
  readonly comments: ReviewComments;
  /** Runs the user's action in a page. */
  readonly act: (message: FromPage, page: Page) => Promise<void>;
}

export class Page implements vscode.Disposable {
  readonly #context: Context;
  readonly #webview: vscode.Webview;
  readonly #agent: { readonly sessionId: string; readonly agentId: string } | undefined;
  readonly #subscriptions: vscode.Disposable[];
  #events: EventParams[] = [];
  #timer: NodeJS.Timeout | undefined;
  #ready = false;
  #pending: ToPage[] = [];

  /** Without `agent` the page follows the session that the window shows. */
  constructor(
    context: Context,
    webview: vscode.Webview,
    agent?: { readonly sessionId: string; readonly agentId: string },
  ) {
    this.#context = context;
    this.#webview = webview;
    this.#agent = agent;
    const { sessions, server, setup, proposals, staleness, changes, comments, extensionUri } = context;
    this.#subscriptions = [
      webview.onDidReceiveMessage((message: FromPage) => this.#handle(message)),
      sessions.onDidChange(({ sessionId, events, hasImages }) => {
        if (sessionId !== this.sessionId) return;
        if (hasImages) this.#sendImages();
        if (events) this.#gather(events);
        else this.#sendState();
      }),
      sessions.onDidShow(() => this.#sendState()),
      server.onState(() => this.#sendAround()),
      setup.onDidChange(() => this.#sendAround()),
      proposals.onDidEdit(() => this.#sendAround()),
      staleness.onDidChange(() => this.#sendAround()),
      changes.onDidChange(() => this.#sendChanges()),
      comments.onDidChange(() => this.#sendChanges()),
      vscode.workspace.onDidGrantWorkspaceTrust(() => this.#sendAround()),
      vscode.workspace.onDidChangeWorkspaceFolders(() => this.#sendAround()),
      vscode.workspace.onDidChangeConfiguration(
        (change) => change.affectsConfiguration("deputy") && this.#sendAround(),
      ),
    ];
    webview.options = { enableScripts: true, localResourceRoots: [vscode.Uri.joinPath(extensionUri, "dist")] };
    webview.html = html(webview, extensionUri);
  }

  get sessionId(): string | undefined {
    return this.#agent?.sessionId ?? this.#context.sessions.current?.sessionId;
  }

  /** Sends a message once the page is ready. */
  send(message: ToPage): void {
    if (this.#ready) void this.#webview.postMessage(message);
    else this.#pending.push(message);
  }

  /** Marks the page as hidden: messages are dropped until it reloads and sends `ready`. */
  hide(): void {
    this.#ready = false;
  }

  dispose(): void {
    clearTimeout(this.#timer);
    for (const subscription of this.#subscriptions) subscription.dispose();
  }

  #handle(message: FromPage): void {
    if (message.type !== "ready") {
      void this.#context.act(message, this);
      return;
    }
    this.#ready = true;
    this.#sendState();
    this.#sendChanges();
    for (const pending of this.#pending.splice(0)) this.send(pending);
  }

  #gather(events: readonly EventParams[]): void {
    if (!this.#ready) return;
    this.#events.push(...events);
    this.#timer ??= setTimeout(() => this.#flush(), FRAME);
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#events.length) this.send({ type: "events", events: this.#events });
    this.#events = [];
  }

  #sendState(): void {
    if (!this.#ready) return;
    this.#events = [];
    const state = this.sessionId === undefined ? undefined : this.#context.sessions.get(this.sessionId);
    this.#sendImages();
    this.send({ type: "state", state, around: this.#around() });
  }

  #sendImages(): void {
    if (!this.#ready || this.sessionId === undefined) return;
    this.send({ type: "images", images: this.#context.sessions.images.of(this.sessionId) });
  }

  /** Only the chat shows what is to be reviewed. */
  #sendChanges(): void {
    if (!this.#ready || this.#agent) return;
    const { changes, comments } = this.#context;
    this.send({ type: "changes", changes: shownChanges(changes.list, relativePath, comments.count) });
  }

  #sendAround(): void {
    if (this.#ready) this.send({ type: "around", around: this.#around() });
  }

  #around(): Surroundings {
    const { sessions, server, setup, proposals, staleness } = this.#context;
    const state = this.sessionId === undefined ? undefined : sessions.get(this.sessionId);
    const trusted = vscode.workspace.isTrusted;
    const start = startSettings();
    const mode = (state && sessions.modeOf(state.sessionId)) ?? start.mode;
    const { workspaceFolders = [] } = vscode.workspace;
    const folder = state?.info && vscode.Uri.parse(state.info.cwd);
    const [only, ...others] = workspaceFolders;
    const isPlain = others.length === 0 && (!folder || folder.toString() === only?.uri.toString());
    return {
      server: server.state,
      card: server.state === "running" ? undefined : setup.card,
      problem: server.problem && { message: server.problem.message, isSetting: server.problem.setting !== undefined },
      agentId: this.#agent?.agentId,
      mode: trusted ? mode : "plan",
      model: this.#modelOf(state, start.model),
      trusted,
      hasFolder: workspaceFolders.length > 0,
      folder: isPlain || !folder ? "" : oneLine(folderName(folder), 60),
      can: {
        revert: server.has("deputy/agent/revert"),
        message: server.has("deputy/agent/message"),
        rewind: server.has("deputy/session/rewind"),
      },
      edits: proposals.edits(),
      stale: staleness.all(),
    };
  }

  /** The model of the session with its effort; before there is one, that of the settings. */
  #modelOf(state: SessionState | undefined, chosen: string): string {
    const { server } = this.#context;
    const model = state?.info?.model ?? (chosen || (server.capabilities?.models[0]?.name ?? ""));
    const effort = state?.agents[state.primaryId ?? ""]?.effort;
    return modelOf({ model, ...(effort && { effort }) });
  }
}

function html(webview: vscode.Webview, extensionUri: vscode.Uri): string {
  const asset = (name: string): string =>
    webview.asWebviewUri(vscode.Uri.joinPath(extensionUri, "dist", name)).toString();
  const nonce = randomBytes(18).toString("base64url");
  const policy = [
    "default-src 'none'",
    `style-src ${webview.cspSource}`,
    `font-src ${webview.cspSource}`,
    "img-src data:",
    `script-src 'nonce-${nonce}'`,
  ].join("; ");
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="${asset("codicon.css")}">
<link rel="stylesheet" href="${asset("webview.css")}">
<title>Deputy</title>
</head>
<body>
<div id="deputy"></div>
<script nonce="${nonce}" src="${asset("webview.js")}"></script>
</body>
</html>`;
}
