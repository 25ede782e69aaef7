/** The left sides of review diffs: files without their unreviewed changes, at `deputy-base:/path?{…}`. */
import * as vscode from "vscode";

import type { Server } from "../server.ts";
import type { Changes } from "./changes.ts";

export const BASE = "deputy-base";

interface Of {
  readonly sessionId: string;
  readonly uri: string;
  /** An empty text, as the right side of a deleted file. */
  readonly isEmpty?: true;
}

export class Bases implements vscode.TextDocumentContentProvider, vscode.Disposable {
  readonly #server: Server;
  readonly #updates = new vscode.EventEmitter<vscode.Uri>();
  readonly #subscriptions: vscode.Disposable[];
  readonly onDidChange = this.#updates.event;

  constructor(server: Server, changes: Changes) {
    this.#server = server;
    this.#subscriptions = [
      vscode.workspace.registerTextDocumentContentProvider(BASE, this),
      changes.onDidChange(() => {
        for (const { uri } of vscode.workspace.textDocuments) if (uri.scheme === BASE) this.#updates.fire(uri);
      }),
    ];
  }

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const { isEmpty, ...file } = JSON.parse(uri.query) as Of;
    if (isEmpty || this.#server.state !== "running") return "";
    try {
      return (await this.#server.request("deputy/review/base", file)).text ?? "";
    } catch (error) {
      // Binary files have no text.
      this.#server.log.warn(String(error));
      return "";
    }
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
    this.#updates.dispose();
  }
}

export function baseOf(sessionId: string, uri: string): vscode.Uri {
  return at({ sessionId, uri });
}

export function emptySideOf(sessionId: string, uri: string): vscode.Uri {
  return at({ sessionId, uri, isEmpty: true });
}

/** The file that a left side belongs to. */
export function fileOfBase(base: vscode.Uri): vscode.Uri {
  return vscode.Uri.parse((JSON.parse(base.query) as Of).uri);
}

function at(of: Of): vscode.Uri {
  return vscode.Uri.from({ scheme: BASE, path: vscode.Uri.parse(of.uri).path, query: JSON.stringify(of) });
}
