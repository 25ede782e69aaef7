/** The agent definitions: what each is for, which tools it may use, and its limits. */
import * as vscode from "vscode";

import type { DefinitionInfo } from "../protocol.ts";
import type { Server } from "../server.ts";
import { oneLine } from "../state/words.ts";

type Item = DefinitionInfo | { readonly detail: string; readonly icon: string };

export class Definitions implements vscode.TreeDataProvider<Item>, vscode.Disposable {
  readonly #server: Server;
  readonly #changes = new vscode.EventEmitter<undefined>();
  readonly #subscriptions: vscode.Disposable[];
  readonly view: vscode.TreeView<Item>;
  readonly onDidChangeTreeData = this.#changes.event;

  constructor(server: Server) {
    this.#server = server;
    this.view = vscode.window.createTreeView("deputy.definitions", { treeDataProvider: this });
    this.#subscriptions = [
      server.onState(() => this.#changes.fire(undefined)),
      server.onEvent((event) => event.type === "definitions_changed" && this.#changes.fire(undefined)),
    ];
  }

  async getChildren(item?: Item): Promise<Item[]> {
    if (item) return "name" in item ? details(item) : [];
    if (this.#server.state !== "running" || !this.#server.has("deputy/definition/list")) return [];
    const { definitions } = await this.#server.request("deputy/definition/list", {});
    return [...definitions];
  }

  getTreeItem(item: Item): vscode.TreeItem {
    if (!("name" in item)) {
      const row = new vscode.TreeItem(item.detail);
      row.iconPath = new vscode.ThemeIcon(item.icon);
      row.tooltip = item.detail;
      return row;
    }
    const icon = item.icon ? `${oneLine(item.icon, 4)} ` : "";
    const row = new vscode.TreeItem(`${icon}${oneLine(item.name)}`, vscode.TreeItemCollapsibleState.Collapsed);
    row.id = item.name;
    row.description = oneLine(item.description, 120);
    row.tooltip = oneLine(item.description, 600);
    if (!item.icon) row.iconPath = new vscode.ThemeIcon("robot");
    return row;
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
    this.view.dispose();
    this.#changes.dispose();
  }
}

function details(definition: DefinitionInfo): Item[] {
  return [
    { detail: oneLine(definition.description, 300), icon: "note" },
    { detail: `Tools: ${definition.tools.join(", ") || "none"}`, icon: "tools" },
    { detail: `At most ${definition.maxIterations} model requests`, icon: "dashboard" },
    { detail: `Model: ${definition.model ?? "that of its parent"}`, icon: "hubot" },
    { detail: `From: ${oneLine(definition.source)}`, icon: "file" },
  ];
}
