/** Code lenses at unreviewed changes: keep, undo, comment, and the diff with who made the change. */
import * as vscode from "vscode";

import { hunkTitle } from "../state/changes.ts";
import type { Changes } from "./changes.ts";

export class ReviewLenses implements vscode.CodeLensProvider, vscode.Disposable {
  readonly #changes: Changes;
  readonly #updates = new vscode.EventEmitter<void>();
  readonly #subscriptions: vscode.Disposable[];
  readonly onDidChangeCodeLenses = this.#updates.event;

  constructor(changes: Changes) {
    this.#changes = changes;
    this.#subscriptions = [
      vscode.languages.registerCodeLensProvider({ scheme: "file" }, this),
      changes.onDidChange(() => this.#updates.fire()),
    ];
  }

  provideCodeLenses(document: vscode.TextDocument): vscode.CodeLens[] {
    const hunks = this.#changes.fileAt(document.uri)?.hunks ?? [];
    return hunks.flatMap((hunk) => {
      const line = Math.min(hunk.range.start.line, document.lineCount - 1);
      const lens = (title: string, verb: string): vscode.CodeLens =>
        new vscode.CodeLens(new vscode.Range(line, 0, line, 0), {
          title,
          command: `deputy.changes.${verb}`,
          arguments: [document.uri.toString(), hunk.hunkId],
        });
      return [
        lens("$(check) Keep", "keep"),
        lens("$(discard) Undo", "undo"),
        lens("$(comment) Comment", "comment"),
        // Last, because the text may be long.
        lens(`$(diff) ${hunkTitle(hunk).replaceAll("$(", "$ (")}`, "open"),
      ];
    });
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
    this.#updates.dispose();
  }
}
