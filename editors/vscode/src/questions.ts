/**
 * The open questions of this window. The server asks each as a request, which stays open until the user has chosen:
 * only {@link Questions.answer}, called by an explicit gesture, settles it. What the server withdraws vanishes.
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

export class Questions implements vscode.Disposable {
  readonly #open = new Map<string, Open>();
  readonly #changes = new vscode.EventEmitter<void>();
  readonly #allowed = new vscode.EventEmitter<PermissionRequest>();
  readonly onDidChange = this.#changes.event;
  /** The user has said yes to a question. */
  readonly onDidAllow = this.#allowed.event;

  /** Takes a question of the server; the promise ends when it is settled, here or elsewhere. */
  ask(request: PermissionRequest, token: vscode.CancellationToken): Promise<PermissionResponse> {
    return new Promise((resolve) => {
      const settle = (response: PermissionResponse): void => {
        withdrawal.dispose();
        this.#open.delete(request.requestId);
        resolve(response);
        this.#changes.fire();
      };
      const withdrawal = token.onCancellationRequested(() => settle({ outcome: { outcome: "cancelled" } }));
      this.#open.set(request.requestId, { request, settle });
      this.#changes.fire();
    });
  }

  /** All that are open, in the order of asking. */
  list(): readonly PermissionRequest[] {
    return [...this.#open.values()].map(({ request }) => request);
  }

  get(requestId: string): PermissionRequest | undefined {
    return this.#open.get(requestId)?.request;
  }

  /** Settles a question by one of its options; false when it is settled already or has no such option. */
  answer(requestId: string, option: OptionKind | PermissionOption, extras: Extras = {}): boolean {
    const open = this.#open.get(requestId);
    const chosen = typeof option === "string" ? optionOf(open?.request, option) : option;
    if (!open || !chosen) return false;
    const outcome: SelectedOutcome = { outcome: "selected", optionId: chosen.optionId, ...extras };
    if (chosen.kind === "allow_once" || chosen.kind === "allow_always") this.#allowed.fire(open.request);
    open.settle({ outcome });
    return true;
  }

  /** Forgets all questions, as the server that asked them is gone. */
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
