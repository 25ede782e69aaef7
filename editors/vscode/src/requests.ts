/**
 * The open permission requests of this window. Each is a pending request of the server until the user selects an
 * option: only {@link OpenRequests.answer}, called by an explicit user action, settles it. Requests that the server
 * withdraws are removed.
 */
import * as vscode from "vscode";

import type {
  OptionKind,
  PermissionOption,
  PermissionRequest,
  PermissionResponse,
  SelectedOutcome,
} from "./protocol.ts";

interface Open {
  readonly request: PermissionRequest;
  readonly settle: (response: PermissionResponse) => void;
}

export type Extras = Pick<SelectedOutcome, "feedback" | "input">;

export class OpenRequests implements vscode.Disposable {
  readonly #open = new Map<string, Open>();
  readonly #changes = new vscode.EventEmitter<void>();
  readonly #allowed = new vscode.EventEmitter<PermissionRequest>();
  readonly onDidChange = this.#changes.event;
  /** The user approved a request. */
  readonly onDidAllow = this.#allowed.event;

  /** Adds a request of the server; the promise resolves when it is settled, here or elsewhere. */
  add(request: PermissionRequest, token: vscode.CancellationToken): Promise<PermissionResponse> {
    return new Promise((resolve) => {
      const settle = (response: PermissionResponse): void => {
        withdrawal.dispose();
        // A request that was asked again, because the session was loaded again, stays.
        if (this.#open.get(request.requestId)?.settle === settle) this.#open.delete(request.requestId);
        resolve(response);
        this.#changes.fire();
      };
      const withdrawal = token.onCancellationRequested(() => settle({ outcome: { outcome: "cancelled" } }));
      this.#open.set(request.requestId, { request, settle });
      this.#changes.fire();
    });
  }

  /** All open requests, in order. */
  list(): readonly PermissionRequest[] {
    return [...this.#open.values()].map(({ request }) => request);
  }

  get(requestId: string): PermissionRequest | undefined {
    return this.#open.get(requestId)?.request;
  }

  /** Replaces the preview of an open request by one with complete texts. */
  complete(requestId: string, preview: PermissionRequest["preview"]): void {
    const open = this.#open.get(requestId);
    if (!open || !preview) return;
    this.#open.set(requestId, { ...open, request: { ...open.request, preview } });
    this.#changes.fire();
  }

  /** Settles a request with one of its options; false if it is already settled or has no such option. */
  answer(requestId: string, option: OptionKind | PermissionOption, extras: Extras = {}): boolean {
    const open = this.#open.get(requestId);
    const chosen = typeof option === "string" ? optionOf(open?.request, option) : option;
    if (!open || !chosen) return false;
    const outcome: SelectedOutcome = { outcome: "selected", optionId: chosen.optionId, ...extras };
    if (chosen.kind === "allow_once" || chosen.kind === "allow_always") this.#allowed.fire(open.request);
    open.settle({ outcome });
    return true;
  }

  /** Removes all requests, because their server has ended. */
  clear(): void {
    for (const { settle } of [...this.#open.values()]) settle({ outcome: { outcome: "cancelled" } });
  }

  dispose(): void {
    this.clear();
    this.#changes.dispose();
    this.#allowed.dispose();
  }
}

export function optionOf(request: PermissionRequest | undefined, kind: OptionKind): PermissionOption | undefined {
  return request?.options.find((option) => option.kind === kind);
}
