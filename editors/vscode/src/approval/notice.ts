/**
 * One quiet notification for questions that have no place in a visible file, such as commands. It is a progress
 * notification because only those can be taken away again: it vanishes when its questions are settled elsewhere.
 */
import * as vscode from "vscode";

import type { Questions } from "../questions.ts";
import { notifiesOfQuestions } from "../settings.ts";
import { hasPlace } from "../state/proposal.ts";
import { notice } from "./answers.ts";

export class Notice implements vscode.Disposable {
  readonly #questions: Questions;
  readonly #subscription: vscode.Disposable;
  #shown: string | undefined;
  #close: () => void = () => undefined;

  constructor(questions: Questions) {
    this.#questions = questions;
    this.#subscription = questions.onDidChange(() => this.#update());
  }

  dispose(): void {
    this.#subscription.dispose();
    this.#close();
  }

  #update(): void {
    const waiting = notifiesOfQuestions() ? this.#questions.list().filter((request) => !hasPlace(request)) : [];
    const [first] = waiting;
    const text = first && notice(first, waiting.length - 1);
    if (text === this.#shown) return;
    this.#close();
    this.#shown = text;
    if (!first || text === undefined) return;
    const closed = new Promise<void>((resolve) => (this.#close = resolve));
    // Only a notification with a button is shown unfolded.
    const options = { location: vscode.ProgressLocation.Notification, title: text, cancellable: true };
    void vscode.window.withProgress(options, (_, token) => {
      token.onCancellationRequested(() => this.#questions.answer(first.requestId, "reject_once"));
      return closed;
    });
  }
}
