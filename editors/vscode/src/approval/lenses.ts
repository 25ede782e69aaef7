/** Code lenses in the diff of a proposal: the answers at the top, and a reject action at each hunk. */
import * as vscode from "vscode";

import type { OpenRequests } from "../requests.ts";
import { type Hunk, hunksOf, STALE } from "../state/proposal.ts";
import { shownSides } from "../state/shown.ts";
import { type Proposals, SCHEME } from "./proposals.ts";
import type { Staleness } from "./staleness.ts";

export class Lenses implements vscode.CodeLensProvider, vscode.Disposable {
  readonly #proposals: Proposals;
  readonly #staleness: Staleness;
  readonly #changes = new vscode.EventEmitter<void>();
  readonly #subscriptions: vscode.Disposable[];
  readonly onDidChangeCodeLenses = this.#changes.event;

  constructor(requests: OpenRequests, proposals: Proposals, staleness: Staleness) {
    this.#proposals = proposals;
    this.#staleness = staleness;
    this.#subscriptions = [
      vscode.languages.registerCodeLensProvider({ scheme: SCHEME }, this),
      proposals.onDidEdit(() => this.#changes.fire()),
      requests.onDidChange(() => this.#changes.fire()),
      staleness.onDidChange(() => this.#changes.fire()),
    ];
  }

  provideCodeLenses(document: vscode.TextDocument): vscode.CodeLens[] {
    const request = this.#proposals.request(document.uri);
    if (!request || document.uri.toString() !== this.#proposals.uri(request, "new").toString()) return [];
    const at = (line: number, title: string, command: string, ...args: unknown[]): vscode.CodeLens =>
      new vscode.CodeLens(new vscode.Range(line, 0, line, 0), { title, command, arguments: args });
    const hunks = hunksOf(shownSides(request.preview).before, document.getText());
    const { requestId } = request;
    const lineOf = ({ newStart }: Hunk): number => Math.min(newStart, document.lineCount - 1);
    // At the first change: lines above it may be folded.
    const top = hunks[0] ? lineOf(hunks[0]) : 0;
    const stale = this.#staleness.of(requestId);
    return [
      at(top, "$(check) Approve", "deputy.question.approve", requestId),
      at(top, "$(close) Deny", "deputy.question.deny", requestId),
      at(top, "$(comment) Deny with reason…", "deputy.question.denyWithReason", requestId),
      // Last, because the text may be cut.
      ...(stale ? [at(top, `$(warning) ${STALE[stale]}`, "")] : []),
      ...(request.preview.oldText === null
        ? []
        : hunks.map((hunk, index) =>
            at(
              lineOf(hunk),
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
