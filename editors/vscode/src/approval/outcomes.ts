/** Reports changes that were approved here but failed, for example because the file has changed. */
import * as vscode from "vscode";

import type { EventParams, PermissionRequest } from "../protocol.ts";
import type { OpenRequests } from "../requests.ts";
import type { Server } from "../server.ts";
import { isDiff, withoutLabel } from "../state/proposal.ts";
import { oneLine } from "../state/text.ts";

export class Outcomes implements vscode.Disposable {
  readonly #approved = new Map<string, PermissionRequest>();
  readonly #subscriptions: vscode.Disposable[];

  constructor(requests: OpenRequests, server: Server) {
    this.#subscriptions = [
      // The result of a command is visible in its output.
      requests.onDidAllow((request) => isDiff(request) && this.#approved.set(request.toolCallId, request)),
      server.onEvent((event) => this.#handle(event)),
      server.onState((state) => state !== "running" && this.#approved.clear()),
    ];
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
  }

  #handle(event: EventParams): void {
    if (event.type !== "tool_call_update" || event.status === "in_progress") return;
    const request = this.#approved.get(event.toolCallId);
    this.#approved.delete(event.toolCallId);
    if (!request || event.status !== "failed") return;
    const cause = oneLine(event.content ?? "", 300);
    void vscode.window.showWarningMessage(`${oneLine(withoutLabel(request), 100)} was approved, but failed: ${cause}`);
  }
}
