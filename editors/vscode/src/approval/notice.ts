/**
 * One quiet notification for requests without a location in a file, such as commands. It is a progress notification,
 * because only those can be closed by the extension: it disappears when its request is settled elsewhere.
 */
import * as vscode from "vscode";

import type { OpenRequests } from "../requests.ts";
import { notifiesOfRequests } from "../settings.ts";
import { hasPlace } from "../state/proposal.ts";
import { notice } from "./answers.ts";

/** The text of the notification's button. */
const DENY = "Deny";

export class Notice implements vscode.Disposable {
  readonly #requests: OpenRequests;
  readonly #subscription: vscode.Disposable;
  #shown: string | undefined;
  #close: () => void = () => undefined;

  constructor(requests: OpenRequests) {
    this.#requests = requests;
    this.#subscription = requests.onDidChange(() => this.#update());
  }

  dispose(): void {
    this.#subscription.dispose();
    this.#close();
  }

  #update(): void {
    const waiting = notifiesOfRequests() ? this.#requests.list().filter((request) => !hasPlace(request)) : [];
    const [first] = waiting;
    const text = first && notice(first, waiting.length - 1);
    if (text === this.#shown) return;
    this.#close();
    this.#shown = text;
    if (!first || text === undefined) return;
    const closed = new Promise<void>((resolve) => (this.#close = resolve));
    // Only a notification with a button is shown expanded. The editor takes its text, which the API does not declare.
    const cancellable = DENY as unknown as boolean;
    const options = { location: vscode.ProgressLocation.Notification, title: text, cancellable };
    void vscode.window.withProgress(options, (_, token) => {
      token.onCancellationRequested(() => this.#requests.answer(first.requestId, "reject_once"));
      return closed;
    });
  }
}
