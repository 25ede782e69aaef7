/** The user's comments on unreviewed changes: collected at the code, and sent together as one prompt. */
import * as vscode from "vscode";

import { commentsPrompt, hunkAt, type HunkComment, hunkDiff } from "../state/changes.ts";
import type { Changes } from "./changes.ts";

export class ReviewComments implements vscode.Disposable {
  readonly #changes: Changes;
  readonly #controller: vscode.CommentController;
  readonly #threads = new Set<vscode.CommentThread>();
  readonly #updates = new vscode.EventEmitter<void>();
  readonly #subscription: vscode.Disposable;
  /** The number of comments has changed. */
  readonly onDidChange = this.#updates.event;

  constructor(changes: Changes) {
    this.#changes = changes;
    this.#controller = vscode.comments.createCommentController("deputy-review", "Deputy: comments on changes");
    this.#controller.options = {
      prompt: "Comment on this change…",
      placeHolder: "What should the agent change? Comments are sent together.",
    };
    const offer = (): void => {
      // The editor requests the ranges again only for another provider.
      this.#controller.commentingRangeProvider = {
        provideCommentingRanges: ({ uri }) => (changes.fileAt(uri)?.hunks ?? []).map((hunk) => linesOf(hunk.range)),
      };
    };
    offer();
    this.#subscription = changes.onDidChange(offer);
  }

  get count(): number {
    return this.#threads.size;
  }

  /** Adds the text of the comment box. */
  add({ thread, text }: vscode.CommentReply): void {
    if (!text.trim()) return;
    const comment = { author: { name: "You" }, body: text, mode: vscode.CommentMode.Preview };
    thread.comments = [...thread.comments, comment];
    thread.label = "Not sent yet";
    thread.contextValue = "draft";
    this.#threads.add(thread);
    this.#updates.fire();
  }

  discard(thread: vscode.CommentThread): void {
    thread.dispose();
    this.#threads.delete(thread);
    this.#updates.fire();
  }

  /** Removes all comments, and returns the prompt that contains them; empty without comments. */
  take(): string {
    const comments = [...this.#threads].map((thread) => this.#commentOf(thread));
    for (const thread of this.#threads) thread.dispose();
    this.#threads.clear();
    this.#updates.fire();
    return comments.length > 0 ? commentsPrompt(comments) : "";
  }

  dispose(): void {
    this.#subscription.dispose();
    this.#controller.dispose();
    this.#updates.dispose();
  }

  #commentOf({ uri, range, comments }: vscode.CommentThread): HunkComment {
    const { start, end } = range ?? new vscode.Range(0, 0, 0, 0);
    const hunk = hunkAt(this.#changes.fileAt(uri)?.hunks ?? [], end.line);
    return {
      path: vscode.workspace.asRelativePath(uri),
      first: start.line + 1,
      last: end.line + 1,
      diff: hunk ? hunkDiff(hunk) : "",
      texts: comments.map(({ body }) => (typeof body === "string" ? body : body.value)),
    };
  }
}

/** The lines of a hunk; at removed lines, the line below them. */
function linesOf({ start, end }: { start: { line: number }; end: { line: number } }): vscode.Range {
  return new vscode.Range(start.line, 0, Math.max(start.line, end.line - 1), 0);
}
