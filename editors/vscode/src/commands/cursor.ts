/** The question at the cursor: commands without a name for one are about it, and keys lead from it to the next. */
import * as vscode from "vscode";

import { isDiff } from "../state/proposal.ts";
import type { Deputy } from "./deputy.ts";

interface At {
  readonly requestId: string;
  /** Whether the cursor is there, and not only in its file. */
  readonly isThere: boolean;
}

export class Cursor {
  readonly #deputy: Pick<Deputy, "questions" | "proposals" | "threads">;
  /** The question that keys have led to last, and where the cursor was then. */
  #led: { readonly requestId: string; readonly place: string } | undefined;

  constructor(deputy: Pick<Deputy, "questions" | "proposals" | "threads">) {
    this.#deputy = deputy;
  }

  /** The change whose proposal has the focus, or that is asked for nearest to the cursor. */
  get change(): string | undefined {
    const { led } = this;
    const request = led === undefined ? undefined : this.#deputy.questions.get(led);
    return request && isDiff(request) ? led : this.#inFile()?.requestId;
  }

  /** The question after the one at the cursor, or the nearest in the file; the first where there is none. */
  get next(): string | undefined {
    const all = this.#deputy.questions.list().map(({ requestId }) => requestId);
    const { led } = this;
    const at = led === undefined ? this.#inFile() : { requestId: led, isThere: true };
    const index = at === undefined ? 0 : all.indexOf(at.requestId) + (at.isThere ? 1 : 0);
    return all[index % Math.max(1, all.length)];
  }

  /** Keys have led to a question. */
  ledTo(requestId: string): void {
    this.#led = { requestId, place: place() };
  }

  /** The question that keys have led to, unless the cursor has moved since: it may be in the chat. */
  get led(): string | undefined {
    const led = this.#led;
    return led?.place === place() && this.#deputy.questions.get(led.requestId) ? led.requestId : undefined;
  }

  #inFile(): At | undefined {
    const editor = vscode.window.activeTextEditor;
    if (!editor) return undefined;
    const { questions, proposals, threads } = this.#deputy;
    const { document, selection } = editor;
    const proposed = proposals.request(document.uri);
    if (proposed) return { requestId: proposed.requestId, isThere: true };
    const [nearest] = questions
      .list()
      .filter((request) => isDiff(request) && request.preview.uri === document.uri.toString())
      .map(({ requestId }) => {
        const line = threads.get(requestId)?.range?.start.line ?? 0;
        return { requestId, distance: Math.abs(line - selection.active.line) };
      })
      .sort((one, other) => one.distance - other.distance);
    return nearest && { requestId: nearest.requestId, isThere: nearest.distance === 0 };
  }
}

function place(): string {
  const editor = vscode.window.activeTextEditor;
  return editor ? `${editor.document.uri.toString()}#${editor.selection.active.line}` : "";
}
