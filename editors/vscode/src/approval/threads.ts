/**
 * Approvals at the code: a comment thread at the first changed line, with the diff, the answers, and a box for the
 * reason of a denial. Folding or closing a thread answers nothing.
 */
import * as vscode from "vscode";

import type { OpenRequests } from "../requests.ts";
import { type DiffRequest, diffText, firstLine, hasPlace, isDiff, STALE } from "../state/proposal.ts";
import { nameOf } from "../state/text.ts";
import { answersAtCode, AT_CODE, labelAtCode } from "./answers.ts";
import type { Proposals } from "./proposals.ts";
import type { Staleness } from "./staleness.ts";

const MAX_LINES = 60;

export class Threads implements vscode.Disposable {
  readonly #requests: OpenRequests;
  readonly #proposals: Proposals;
  readonly #staleness: Staleness;
  readonly #controller: vscode.CommentController;
  readonly #threads = new Map<string, vscode.CommentThread>();
  readonly #subscriptions: vscode.Disposable[];

  constructor(requests: OpenRequests, proposals: Proposals, staleness: Staleness) {
    this.#requests = requests;
    this.#proposals = proposals;
    this.#staleness = staleness;
    this.#controller = vscode.comments.createCommentController("deputy", "Deputy");
    this.#controller.options = {
      prompt: "Deny with a reason…",
      placeHolder: "What should the agent do instead? Sending this denies the change.",
    };
    this.#subscriptions = [
      requests.onDidChange(() => this.#update()),
      proposals.onDidEdit((requestId) => this.#redraw(requestId)),
      staleness.onDidChange((requestId) => this.#redraw(requestId)),
      vscode.workspace.onDidChangeTextDocument((change) => this.#follow(change)),
    ];
  }

  /** The request of a thread. */
  requestId(thread: vscode.CommentThread): string | undefined {
    return [...this.#threads].find(([, known]) => known === thread)?.[0];
  }

  get(requestId: string): vscode.CommentThread | undefined {
    return this.#threads.get(requestId);
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
    this.#controller.dispose();
  }

  #update(): void {
    for (const [requestId, thread] of this.#threads) {
      if (this.#requests.get(requestId)) continue;
      thread.dispose();
      this.#threads.delete(requestId);
    }
    for (const request of this.#requests.list()) {
      // A request without a location is shown in the chat, in the inbox and as a diff.
      if (!hasPlace(request) || this.#threads.has(request.requestId)) continue;
      this.#threads.set(request.requestId, this.#open(request));
    }
  }

  #open(request: DiffRequest): vscode.CommentThread {
    const line = firstLine(request);
    const uri = vscode.Uri.parse(request.preview.uri);
    const thread = this.#controller.createCommentThread(uri, new vscode.Range(line, 0, line, 0), [
      this.#comment(request),
    ]);
    thread.label = labelAtCode(request);
    thread.contextValue = request.batch.size > 1 ? "question.batch" : "question";
    thread.collapsibleState = vscode.CommentThreadCollapsibleState.Expanded;
    return thread;
  }

  /** Moves threads with their lines while the user types in the file. */
  #follow({ document, contentChanges }: vscode.TextDocumentChangeEvent): void {
    if (contentChanges.length === 0) return;
    for (const thread of this.#threads.values()) {
      if (thread.uri.toString() !== document.uri.toString() || !thread.range) continue;
      const line = contentChanges.reduce(movedBy, thread.range.start.line);
      if (line !== thread.range.start.line) thread.range = new vscode.Range(line, 0, line, 0);
    }
  }

  #redraw(requestId: string): void {
    const [thread, request] = [this.#threads.get(requestId), this.#requests.get(requestId)];
    if (thread && request && isDiff(request)) thread.comments = [this.#comment(request)];
  }

  #comment(request: DiffRequest): vscode.Comment {
    const of = request.batch.size > 1 ? `${request.batch.index + 1} of ${request.batch.size}` : undefined;
    return {
      author: { name: nameOf(request.agent) },
      body: this.#body(request),
      mode: vscode.CommentMode.Preview,
      ...(of && { label: of }),
    };
  }

  #body(request: DiffRequest): vscode.MarkdownString {
    const text = this.#proposals.text(request);
    const diff = diffText({ ...request.preview, newText: text }, MAX_LINES);
    const body = new vscode.MarkdownString("", true);
    body.isTrusted = { enabledCommands: AT_CODE };
    if (diff.text) body.appendCodeblock(diff.text, "diff");
    else body.appendMarkdown("*No proposed change is left: deny it instead.*\n");
    if (diff.more) body.appendMarkdown(`\n*${diff.more} more lines: open the diff.*\n`);
    if (text !== request.preview.newText) body.appendMarkdown("\n*$(edit) Edited by you: this text will be used.*\n");
    const stale = this.#staleness.of(request.requestId);
    if (stale) body.appendMarkdown(`\n*$(warning) ${STALE[stale]}*\n`);
    body.appendMarkdown(`\n${answersAtCode(request)}\n`);
    return body;
  }
}

/** The position of a line after a change of the text. */
function movedBy(line: number, { range, text }: vscode.TextDocumentContentChangeEvent): number {
  const { start, end } = range;
  if (start.line > line || (start.line === line && start.character > 0)) return line;
  const added = text.split("\n").length - 1;
  return end.line > line ? start.line : line + added - (end.line - start.line);
}
