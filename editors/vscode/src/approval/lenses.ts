/** Lenses over a proposal in a diff: the answers on top, and at each hunk the way back. */
import * as vscode from "vscode";

import type { Questions } from "../questions.ts";
import { hunksOf } from "../state/proposal.ts";
import { type Proposals, SCHEME } from "./proposals.ts";

export class Lenses implements vscode.CodeLensProvider, vscode.Disposable {
  readonly #proposals: Proposals;
  readonly #changes = new vscode.EventEmitter<void>();
  readonly #subscriptions: vscode.Disposable[];
  readonly onDidChangeCodeLenses = this.#changes.event;

  constructor(questions: Questions, proposals: Proposals) {
    this.#proposals = proposals;
    this.#subscriptions = [
      vscode.languages.registerCodeLensProvider({ scheme: SCHEME }, this),
      proposals.onDidEdit(() => this.#changes.fire()),
      questions.onDidChange(() => this.#changes.fire()),
    ];
  }

  provideCodeLenses(document: vscode.TextDocument): vscode.CodeLens[] {
    const request = this.#proposals.request(document.uri);
    if (!request || document.uri.toString() !== this.#proposals.uri(request, "new").toString()) return [];
    const at = (line: number, title: string, command: string, ...args: unknown[]): vscode.CodeLens =>
      new vscode.CodeLens(new vscode.Range(line, 0, line, 0), { title, command, arguments: args });
    const hunks = hunksOf(request.preview.oldText ?? "", document.getText());
    const { requestId } = request;
    return [
      at(0, "$(check) Approve", "deputy.question.approve", requestId),
      at(0, "$(close) Deny", "deputy.question.deny", requestId),
      at(0, "$(comment) Deny with reason…", "deputy.question.denyWithReason", requestId),
      ...(request.preview.oldText === null
        ? []
        : hunks.map((hunk, index) =>
            at(
              Math.min(hunk.newStart, document.lineCount - 1),
              `$(discard) Reject this change (${index + 1} of ${hunks.length})`,
              "deputy.question.rejectHunk",
              document.uri,
              index,
            ),
          )),
    ];
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
    this.#changes.dispose();
  }
}
