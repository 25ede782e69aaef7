/**
 * One quiet notification for questions that have no place in a visible file, such as commands. It is a progress
 * notification because only those can be taken away again: it vanishes when its questions are settled elsewhere.
 */
import * as vscode from "vscode";

import type { PermissionRequest } from "../protocol.ts";
import type { Questions } from "../questions.ts";
import { notifiesOfQuestions } from "../settings.ts";
import { isDiff } from "../state/proposal.ts";
import { nameOf, oneLine } from "../state/words.ts";

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
    const waiting = notifiesOfQuestions() ? this.#questions.list().filter(hasNoVisiblePlace) : [];
    const [first] = waiting;
    const text = first && told(first, waiting.length - 1);
    if (text === this.#shown) return;
    this.#close();
    this.#shown = text;
    if (!first || text === undefined) return;
    const closed = new Promise<void>((resolve) => (this.#close = resolve));
    const options = { location: vscode.ProgressLocation.Notification, title: text, cancellable: true };
    void vscode.window.withProgress(options, (_, token) => {
      token.onCancellationRequested(() => this.#questions.answer(first.requestId, "reject_once"));
      return closed;
    });
  }
}

/** Who wants what and where, with links to the answers. Only a notification with a button is shown unfolded. */
function told(request: PermissionRequest, more: number): string {
  const { preview } = request;
  const what =
    preview?.type === "command"
      ? `[${nameOf(request.agent)}] wants to run: ${preview.command} (in ${vscode.Uri.parse(preview.cwd).fsPath})`
      : `[${nameOf(request.agent)}] asks: ${request.title}`;
  const argument = encodeURIComponent(JSON.stringify([request.requestId]));
  const link = (text: string, command: string): string => `[${text}](command:deputy.question.${command}?${argument})`;
  const short = unlinked(oneLine(what, 240));
  // Only what is shown whole can be approved here: not a file's text, a long command, or one with hidden characters.
  const isWhole = preview?.type === "command" && short === what;
  const answers = [isWhole ? link("Approve", "approve") : "", link("Show", "show"), "Cancel denies it."];
  return `${short} — ${answers.filter(Boolean).join("  ")}${more > 0 ? `  (${more} more)` : ""}`;
}

/** Notifications make links of Markdown links: words of a model must not become one. */
function unlinked(text: string): string {
  return text.replaceAll("](", "] (");
}

function hasNoVisiblePlace(request: PermissionRequest): boolean {
  return !isDiff(request) || request.preview.oldText === null;
}
