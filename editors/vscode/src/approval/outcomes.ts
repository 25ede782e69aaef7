/** Tells of changes that the user has approved here and that were not made after all, as when a file is another one by now. */
import * as vscode from "vscode";

import type { EventParams, PermissionRequest } from "../protocol.ts";
import type { Questions } from "../questions.ts";
import type { Server } from "../server.ts";
import { isDiff, withoutLabel } from "../state/proposal.ts";
import { oneLine } from "../state/words.ts";

export class Outcomes implements vscode.Disposable {
  readonly #approved = new Map<string, PermissionRequest>();
  readonly #subscriptions: vscode.Disposable[];

  constructor(questions: Questions, server: Server) {
    this.#subscriptions = [
      // What becomes of a command is no more than what it has put out.
      questions.onDidAllow((request) => isDiff(request) && this.#approved.set(request.toolCallId, request)),
      server.onEvent((event) => this.#hear(event)),
      server.onState((state) => state !== "running" && this.#approved.clear()),
    ];
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
  }

  #hear(event: EventParams): void {
    if (event.type !== "tool_call_update" || event.status === "in_progress") return;
    const request = this.#approved.get(event.toolCallId);
    this.#approved.delete(event.toolCallId);
    if (!request || event.status !== "failed") return;
    const why = oneLine(event.content ?? "", 300);
    void vscode.window.showWarningMessage(
      `${oneLine(withoutLabel(request), 100)} was approved, and not done. The agent reads: ${why}`,
    );
  }
}
