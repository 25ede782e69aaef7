/** The request at the cursor: commands without an argument apply to it, and keys go from it to the next. */
import * as vscode from "vscode";

import { isDiff } from "../state/proposal.ts";
import type { Deputy } from "./deputy.ts";

interface At {
  readonly requestId: string;
  /** Whether the cursor is at the request's line, and not only in its file. */
  readonly isThere: boolean;
}

export class Cursor {
  readonly #deputy: Pick<Deputy, "requests" | "proposals" | "threads">;
  /** The request that keys went to last, and the cursor position then. */
  #last: { readonly requestId: string; readonly place: string } | undefined;

  constructor(deputy: Pick<Deputy, "requests" | "proposals" | "threads">) {
    this.#deputy = deputy;
  }

  /** The request whose proposal has the focus, or the one nearest to the cursor. */
  get change(): string | undefined {
    const { visited } = this;
    const request = visited === undefined ? undefined : this.#deputy.requests.get(visited);
    return request && isDiff(request) ? visited : this.#inFile()?.requestId;
  }

  /** The request after the one at the cursor, or the nearest in the file; otherwise the first. */
  get next(): string | undefined {
    const all = this.#deputy.requests.list().map(({ requestId }) => requestId);
    const { visited } = this;
    const at = visited === undefined ? this.#inFile() : { requestId: visited, isThere: true };
    const index = at === undefined ? 0 : all.indexOf(at.requestId) + (at.isThere ? 1 : 0);
    return all[index % Math.max(1, all.length)];
  }

  /** Records that keys went to a request. */
  visit(requestId: string): void {
    this.#last = { requestId, place: place() };
  }

  /** The request that keys went to last, which may be in the chat; undefined if the cursor has moved since. */
  get visited(): string | undefined {
    const here = this.#here;
    return here !== undefined && this.#deputy.requests.get(here) ? here : undefined;
  }

  /** The request that keys went to last, settled or not; undefined if the cursor has moved since. */
  get #here(): string | undefined {
    return this.#last?.place === place() ? this.#last.requestId : undefined;
  }

  /**
   * The request that an answer applies to: the one that keys went to last, also if it is in the chat; otherwise the one
   * whose proposal is `inFocus`. Undefined once that one is settled: a second press must not answer another one.
   */
  answerable(inFocus: string | undefined): string | undefined {
    const requestId = this.#here ?? inFocus;
    return requestId !== undefined && this.#deputy.requests.get(requestId) ? requestId : undefined;
  }

  #inFile(): At | undefined {
    const editor = vscode.window.activeTextEditor;
    if (!editor) return undefined;
    const { requests, proposals, threads } = this.#deputy;
    const { document, selection } = editor;
    const proposed = proposals.request(document.uri);
    if (proposed) return { requestId: proposed.requestId, isThere: true };
    const [nearest] = requests
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
