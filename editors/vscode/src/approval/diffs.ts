/** The diffs that show proposals. Each closes when its request is settled or withdrawn. */
import * as vscode from "vscode";

import type { PermissionRequest } from "../protocol.ts";
import type { OpenRequests } from "../requests.ts";
import { type DiffRequest, isDiff } from "../state/proposal.ts";
import { nameOf, oneLine } from "../state/text.ts";
import { type Proposals, SCHEME } from "./proposals.ts";

export class Diffs implements vscode.Disposable {
  readonly #requests: OpenRequests;
  readonly #proposals: Proposals;
  readonly #subscription: vscode.Disposable;
  #closing = Promise.resolve();

  constructor(requests: OpenRequests, proposals: Proposals) {
    this.#requests = requests;
    this.#proposals = proposals;
    this.#subscription = requests.onDidChange(() => (this.#closing = this.#closeSettled()));
    // Diffs that the editor restores after a reload belong to closed requests.
    this.#closing = this.#closeSettled();
  }

  /** Resolves when the diffs of settled requests are closed. */
  get closing(): Promise<void> {
    return this.#closing;
  }

  async open(request: DiffRequest): Promise<void> {
    const [before, after] = [this.#proposals.uri(request, "old"), this.#proposals.uri(request, "new")];
    const name = oneLine(vscode.Uri.parse(request.preview.uri).path.split("/").at(-1) ?? "", 60);
    const title = `${name} (proposed by ${nameOf(request.agent, 40)})`;
    await vscode.commands.executeCommand("vscode.diff", before, after, title, { preview: true });
    // The request may have been settled while the editor opened it.
    await this.#closeSettled();
  }

  /** Several changes of one agent in one editor. */
  async openAll(requests: readonly DiffRequest[]): Promise<void> {
    const [first] = requests;
    if (!first) return;
    const files = requests.map((request) => {
      const after = this.#proposals.uri(request, "new");
      return [after, this.#proposals.uri(request, "old"), after];
    });
    await vscode.commands.executeCommand("vscode.changes", batchTitle(first), files);
    await this.#closeSettled();
  }

  dispose(): void {
    this.#subscription.dispose();
  }

  async #closeSettled(): Promise<void> {
    const batches = this.#requests.list().filter(isDiff).map(batchTitle);
    const isSettled = (uri: vscode.Uri): boolean => uri.scheme === SCHEME && !this.#proposals.request(uri);
    const tabs = vscode.window.tabGroups.all
      .flatMap((group) => group.tabs)
      .filter(({ input, label }) => {
        if (input instanceof vscode.TabInputTextDiff) return isSettled(input.modified);
        if (input instanceof vscode.TabInputText) return isSettled(input.uri);
        // The API does not give the files of a multi-file editor.
        return label.startsWith(BATCH) && !batches.some((title) => label.startsWith(title));
      });
    if (tabs.length === 0) return;
    // The answer already contains the edits; an unsaved document would prompt to save on close.
    const unsaved = vscode.workspace.textDocuments.filter((document) => document.isDirty && isSettled(document.uri));
    await Promise.all(unsaved.map((document) => document.save()));
    await vscode.window.tabGroups.close(tabs, true);
  }
}

const BATCH = "Changes proposed by ";

function batchTitle(request: PermissionRequest): string {
  return `${BATCH}${nameOf(request.agent, 40)}`;
}
