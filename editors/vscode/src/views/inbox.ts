/** The inbox: every open permission request of this window, by agent, with a badge that counts them. */
import * as vscode from "vscode";

import type { PermissionRequest } from "../protocol.ts";
import type { OpenRequests } from "../requests.ts";
import type { Sessions } from "../sessions.ts";
import { folderName } from "../editor.ts";
import { briefTitle, isDiff } from "../state/proposal.ts";
import { exact, nameOf, oneLine } from "../state/text.ts";

/** An agent with open requests, or one request. */
export type InboxItem =
  | { readonly kind: "agent"; readonly agentId: string; readonly label: string }
  | { readonly kind: "request"; readonly requestId: string };

const ICONS: Readonly<Record<string, string>> = {
  edit: "edit",
  execute: "terminal",
  fetch: "globe",
  read: "file",
  search: "search",
};

export class Inbox implements vscode.TreeDataProvider<InboxItem>, vscode.Disposable {
  readonly #requests: OpenRequests;
  readonly #sessions: Sessions;
  readonly #changes = new vscode.EventEmitter<undefined>();
  readonly #subscriptions: readonly vscode.Disposable[];
  readonly view: vscode.TreeView<InboxItem>;
  readonly onDidChangeTreeData = this.#changes.event;

  constructor(requests: OpenRequests, sessions: Sessions) {
    this.#requests = requests;
    this.#sessions = sessions;
    this.view = vscode.window.createTreeView("deputy.questions", { treeDataProvider: this });
    this.#subscriptions = [
      requests.onDidChange(() => this.#refresh()),
      sessions.onDidShow(() => requests.list().length > 0 && this.#refresh()),
    ];
    this.#refresh();
  }

  getChildren(item?: InboxItem): InboxItem[] {
    const requests = this.#requests.list();
    if (item?.kind === "request") return [];
    if (item) return requests.filter(({ agent }) => agent.agentId === item.agentId).map(asItem);
    const agents = new Map(requests.map(({ agent }) => [agent.agentId, nameOf(agent)]));
    return [...agents].map(([agentId, label]) => ({ kind: "agent", agentId, label }));
  }

  getTreeItem(item: InboxItem): vscode.TreeItem {
    return item.kind === "agent" ? this.#agentRow(item) : this.#requestRow(item.requestId);
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
    this.view.dispose();
    this.#changes.dispose();
  }

  #agentRow({ agentId, label }: InboxItem & { kind: "agent" }): vscode.TreeItem {
    const count = this.#requests.list().filter(({ agent }) => agent.agentId === agentId).length;
    const row = new vscode.TreeItem(label, vscode.TreeItemCollapsibleState.Expanded);
    row.id = `agent/${agentId}`;
    row.description = count === 1 ? "1 approval" : `${count} approvals`;
    row.contextValue = "asking";
    row.iconPath = new vscode.ThemeIcon("question", new vscode.ThemeColor("charts.yellow"));
    return row;
  }

  #requestRow(requestId: string): vscode.TreeItem {
    const request = this.#requests.get(requestId);
    if (!request) return new vscode.TreeItem("");
    const row = new vscode.TreeItem(briefTitle(request));
    row.id = `request/${requestId}`;
    row.iconPath = new vscode.ThemeIcon(ICONS[request.kind] ?? "tools");
    const of = request.batch.size > 1 ? `${request.batch.index + 1} of ${request.batch.size}` : "";
    row.description = [of, folderOf(request), this.#sessionOf(request)].filter(Boolean).join(" · ");
    row.tooltip = tooltip(request);
    row.contextValue = isDiff(request) ? "question.diff" : "question.unseen"; // the end of a command may be cut
    row.command = { title: "Show", command: "deputy.question.show", arguments: [{ kind: "request", requestId }] };
    return row;
  }

  /** The title of the request's session, if another one is shown. */
  #sessionOf({ sessionId }: PermissionRequest): string {
    const { current } = this.#sessions;
    if (sessionId === current?.sessionId) return "";
    return `in ${oneLine(this.#sessions.get(sessionId)?.info?.title ?? "", 40) || "another session"}`;
  }

  #refresh(): void {
    const count = this.#requests.list().length;
    const waiting = count === 1 ? "1 approval waiting for you" : `${count} approvals waiting for you`;
    this.view.description = count ? `${count} waiting` : "";
    this.view.badge = count ? { value: count, tooltip: waiting } : undefined;
    void vscode.commands.executeCommand("setContext", "deputy.questions", count);
    this.#changes.fire(undefined);
  }
}

/** The folder of a change; empty if there is only one. */
function folderOf(request: PermissionRequest): string {
  const isOneOfMany = (vscode.workspace.workspaceFolders?.length ?? 0) > 1;
  if (!isOneOfMany || !isDiff(request)) return "";
  const folder = vscode.workspace.getWorkspaceFolder(vscode.Uri.parse(request.preview.uri));
  return folder ? folderName(folder.uri) : "";
}

function asItem(request: PermissionRequest): InboxItem {
  return { kind: "request", requestId: request.requestId };
}

function tooltip(request: PermissionRequest): vscode.MarkdownString {
  const text = new vscode.MarkdownString();
  text.appendText(oneLine(request.title, 300));
  if (request.preview?.type === "command") text.appendCodeblock(exact(request.preview.command), "shellscript");
  if (request.preview?.type === "text") text.appendText(`\n\n${exact(request.preview.text)}`);
  if (request.reason) text.appendText(`\n\n${oneLine(request.reason, 300)}`);
  return text;
}
