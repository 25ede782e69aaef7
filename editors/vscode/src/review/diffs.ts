/** The diffs of a review: one file, or all files in one editor. They close when nothing in them is left to review. */
import * as vscode from "vscode";

import { spanOf } from "../editor.ts";
import type { Hunk, ReviewFile } from "../protocol.ts";
import { oneLine } from "../state/text.ts";
import { BASE, baseOf, emptySideOf, fileOfBase } from "./bases.ts";
import type { Changes } from "./changes.ts";

const ALL = "Deputy's changes";

export class ReviewDiffs implements vscode.Disposable {
  readonly #changes: Changes;
  readonly #subscription: vscode.Disposable;

  constructor(changes: Changes) {
    this.#changes = changes;
    this.#subscription = changes.onDidChange(() => void this.#closeReviewed());
  }

  /** Opens the changes of a file, at a hunk if one is given; the file itself if nothing is left to review. */
  async open(uri: vscode.Uri, hunk?: Hunk): Promise<void> {
    const [file, { sessionId }] = [this.#changes.fileAt(uri), this.#changes];
    if (!file || sessionId === undefined) {
      await vscode.commands.executeCommand("vscode.open", uri);
      return;
    }
    const [before, after] = sidesOf(file, sessionId);
    const name = oneLine(uri.path.split("/").at(-1) ?? "", 60);
    const place = (hunk ?? file.hunks[0])?.range.start;
    const selection = place && spanOf({ start: place, end: place });
    const options = { preview: true, ...(selection && { selection }) };
    await vscode.commands.executeCommand("vscode.diff", before, after, `${name} (changes to review)`, options);
  }

  /** Opens all changes in one editor. */
  async openAll(): Promise<void> {
    const { list, sessionId } = this.#changes;
    if (sessionId === undefined || list.files.length === 0) return;
    const resources = list.files.map((file) => [vscode.Uri.parse(file.uri), ...sidesOf(file, sessionId)]);
    await vscode.commands.executeCommand("vscode.changes", ALL, resources);
  }

  dispose(): void {
    this.#subscription.dispose();
  }

  async #closeReviewed(): Promise<void> {
    const isDone = this.#changes.list.files.length === 0;
    const tabs = vscode.window.tabGroups.all
      .flatMap((group) => group.tabs)
      .filter(({ input, label, isDirty }) => {
        // To close a tab with unsaved changes would prompt to save them.
        if (isDirty) return false;
        if (input instanceof vscode.TabInputTextDiff)
          return input.original.scheme === BASE && !this.#changes.fileAt(fileOfBase(input.original));
        // The API does not give the files of a multi-file editor.
        return isDone && !(input instanceof vscode.TabInputText) && label.startsWith(ALL);
      });
    if (tabs.length > 0) await vscode.window.tabGroups.close(tabs, true);
  }
}

/** Both sides of a file's diff. The right one is the file itself, so that it can be edited. */
function sidesOf({ uri, status }: ReviewFile, sessionId: string): [vscode.Uri, vscode.Uri] {
  const after = status === "deleted" ? emptySideOf(sessionId, uri) : vscode.Uri.parse(uri);
  return [baseOf(sessionId, uri), after];
}
