/** The sessions of this window's folders, newest first. */
import * as vscode from "vscode";

import type { SessionInfo } from "../protocol.ts";
import type { Server } from "../server.ts";
import type { Sessions } from "../sessions.ts";
import { oneLine } from "../state/text.ts";
import { Paced } from "./paced.ts";

const PAGE = 50;
const UPDATES = new Set(["session_changed", "turn_started", "turn_finished"]);

export type HistoryItem = SessionInfo | { readonly more: string } | { readonly problem: string };

export class History implements vscode.TreeDataProvider<HistoryItem>, vscode.Disposable {
  readonly #server: Server;
  readonly #sessions: Sessions;
  readonly #changes = new vscode.EventEmitter<undefined>();
  readonly #paced = new Paced(() => this.#changes.fire(undefined));
  readonly #subscriptions: vscode.Disposable[];
  #pages = 1;
  readonly view: vscode.TreeView<HistoryItem>;
  readonly onDidChangeTreeData = this.#changes.event;

  constructor(server: Server, sessions: Sessions) {
    this.#server = server;
    this.#sessions = sessions;
    this.view = vscode.window.createTreeView("deputy.sessions", { treeDataProvider: this });
    this.#subscriptions = [
      server.onState(() => this.refresh()),
      server.onEvent((event) => UPDATES.has(event.type) && this.refresh()),
      sessions.onDidShow(() => this.refresh()),
    ];
  }

  refresh(): void {
    this.#paced.call();
  }

  showMore(): void {
    this.#pages++;
    this.refresh();
  }

  async getChildren(item?: HistoryItem): Promise<HistoryItem[]> {
    if (item || this.#server.state !== "running" || !this.#server.has("deputy/session/list")) return [];
    const { sessions, nextCursor, problem } = await this.#sessions.list(PAGE * this.#pages);
    return [...(problem ? [{ problem }] : []), ...sessions, ...(nextCursor ? [{ more: nextCursor }] : [])];
  }

  getTreeItem(item: HistoryItem): vscode.TreeItem {
    if ("more" in item) {
      const row = new vscode.TreeItem("Show more…");
      row.command = { title: "Show more", command: "deputy.session.more" };
      return row;
    }
    if ("problem" in item) {
      const row = new vscode.TreeItem(oneLine(item.problem, 200));
      row.tooltip = item.problem;
      row.iconPath = new vscode.ThemeIcon("warning");
      return row;
    }
    const isShown = item.sessionId === this.#sessions.current?.sessionId;
    const row = new vscode.TreeItem(oneLine(item.title, 80) || "New session");
    row.id = item.sessionId;
    row.description = new Date(item.updatedAt).toLocaleString(undefined, { dateStyle: "short", timeStyle: "short" });
    row.tooltip = `${oneLine(item.title, 300)}\n${vscode.Uri.parse(item.cwd).fsPath}\n${item.model}`;
    row.iconPath = new vscode.ThemeIcon(isShown ? "circle-filled" : "comment-discussion");
    row.contextValue = ["session", ...this.#abilities()].join(".");
    row.command = { title: "Open", command: "deputy.session.open", arguments: [item] };
    return row;
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
    this.#paced.dispose();
    this.view.dispose();
    this.#changes.dispose();
  }

  /** The actions that the server supports for a session, for the menus. */
  #abilities(): string[] {
    const able = ["rename", "archive", "delete", "export"] as const;
    return able.filter((ability) => this.#server.has(`deputy/session/${ability}`));
  }
}
