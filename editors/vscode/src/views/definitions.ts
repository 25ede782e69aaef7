/** The tree view of agent definitions: purpose, tools and limits. */
import * as vscode from "vscode";

import type { DefinitionInfo } from "../protocol.ts";
import type { Server } from "../server.ts";
import { isOneSign, oneLine } from "../state/text.ts";

/** The editor's icons for the icons of built-in definitions, and for common ones. */
const ICONS: Readonly<Record<string, string>> = {
  "●": "hubot",
  "◆": "robot",
  "⌕": "search",
  "☰": "checklist",
  "✓": "pass",
  "✎": "edit",
};

interface Detail {
  readonly detail: string;
  readonly icon: string;
}

type Item = DefinitionInfo | Detail;

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
    const row = new vscode.TreeItem(oneLine(item.name), vscode.TreeItemCollapsibleState.Collapsed);
    row.id = item.name;
    row.description = oneLine(item.description, 120);
    row.tooltip = details(item)
      .map(({ detail }) => detail)
      .join("\n");
    row.iconPath = iconOf(item.icon);
    return row;
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
    this.view.dispose();
    this.#changes.dispose();
  }
}

/** The editor's icon for a character, or the character drawn in icon colours; invalid icons get the default. */
function iconOf(sign = "◆"): vscode.IconPath {
  const known = isOneSign(sign) ? ICONS[sign] : "robot";
  if (known) return new vscode.ThemeIcon(known);
  const drawn = (colour: string): vscode.Uri => vscode.Uri.parse(`data:image/svg+xml;utf8,${svg(sign, colour)}`);
  return { light: drawn("#424242"), dark: drawn("#c5c5c5") };
}

function svg(sign: string, colour: string): string {
  const text = sign.replace(/[<&]/g, (character) => `&#${String(character.charCodeAt(0))};`);
  return encodeURIComponent(
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><text x="8" y="13" font-size="13" text-anchor="middle" fill="${colour}">${text}</text></svg>`,
  );
}

function details(definition: DefinitionInfo): Detail[] {
  return [
    { detail: oneLine(definition.description, 300), icon: "note" },
    { detail: `Tools: ${definition.tools.join(", ") || "none"}`, icon: "tools" },
    { detail: `At most ${definition.maxIterations} model requests`, icon: "dashboard" },
    { detail: `Model: ${definition.model ?? "parent's model"}`, icon: "hubot" },
    { detail: `From: ${oneLine(definition.source)}`, icon: "file" },
  ];
}
