/**
 * Which questions are about a file that has changed since, or is gone: an approval would come to nothing, as the agent
 * has to read the file again. The server looks once more in any case; this is only told.
 */
import * as vscode from "vscode";

import { isOpenAt, isThere } from "../editor.ts";
import type { Questions } from "../questions.ts";
import { type DiffRequest, isDiff, plain, type Stale } from "../state/proposal.ts";
import type { Proposals } from "./proposals.ts";

interface Watched {
  readonly request: DiffRequest;
  readonly watcher: vscode.FileSystemWatcher;
  /** Whether there was a file when the question came: an editor may show one that was never saved. */
  readonly wasThere: Promise<boolean>;
  /** How often the file was looked at: the last look counts, whichever ends first. */
  looks: number;
}

export class Staleness implements vscode.Disposable {
  readonly #questions: Questions;
  readonly #watched = new Map<string, Watched>();
  readonly #stale = new Map<string, Stale>();
  /** Texts that a file has before and after the other changes of a batch, by batch and file. */
  readonly #expected = new Map<string, Set<string>>();
  readonly #changes = new vscode.EventEmitter<string>();
  readonly #subscriptions: vscode.Disposable[];
  /** A question, named by its id, has become stale, or is so no more. */
  readonly onDidChange = this.#changes.event;

  constructor(questions: Questions, proposals: Proposals) {
    this.#questions = questions;
    this.#subscriptions = [
      questions.onDidAllow((request) => isDiff(request) && this.#expect(request, proposals.text(request))),
      questions.onDidChange(() => this.#update()),
      vscode.workspace.onDidChangeTextDocument(({ document }) => this.#lookIn(document.uri)),
      vscode.workspace.onDidChangeNotebookDocument(({ notebook }) => this.#lookIn(notebook.uri)),
      vscode.workspace.onDidOpenNotebookDocument(({ uri }) => this.#lookIn(uri)),
      vscode.workspace.onDidCloseNotebookDocument(({ uri }) => this.#lookIn(uri)),
      vscode.workspace.onDidOpenTextDocument(({ uri }) => this.#lookIn(uri)),
      vscode.workspace.onDidCloseTextDocument(({ uri }) => this.#lookIn(uri)),
    ];
  }

  of(requestId: string): Stale | undefined {
    return this.#stale.get(requestId);
  }

  all(): Readonly<Record<string, Stale>> {
    return Object.fromEntries(this.#stale);
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
    for (const { watcher } of this.#watched.values()) watcher.dispose();
    this.#changes.dispose();
  }

  #update(): void {
    for (const [requestId, { watcher }] of this.#watched) {
      if (this.#questions.get(requestId)) continue;
      watcher.dispose();
      this.#watched.delete(requestId);
      this.#stale.delete(requestId);
    }
    for (const request of this.#questions.list().filter(isDiff)) {
      if (this.#watched.has(request.requestId)) continue;
      this.#expect(request, request.preview.oldText, request.preview.newText);
      const wasThere = isThere(vscode.Uri.parse(request.preview.uri));
      this.#watched.set(request.requestId, { request, watcher: this.#watch(request), wasThere, looks: 0 });
      void this.#look(request);
    }
    const open = new Set([...this.#watched.values()].map(({ request }) => keyOf(request)));
    for (const key of this.#expected.keys()) if (!open.has(key)) this.#expected.delete(key);
  }

  #watch(request: DiffRequest): vscode.FileSystemWatcher {
    const uri = vscode.Uri.parse(request.preview.uri);
    // Its name may have characters that mean something in a pattern.
    const pattern = new vscode.RelativePattern(vscode.Uri.joinPath(uri, ".."), "*");
    const watcher = vscode.workspace.createFileSystemWatcher(pattern);
    const look = (changed: vscode.Uri): void => {
      if (changed.toString() === uri.toString()) void this.#look(request);
    };
    watcher.onDidChange(look);
    watcher.onDidCreate(look);
    watcher.onDidDelete(look);
    return watcher;
  }

  #expect(request: DiffRequest, ...texts: readonly (string | null)[]): void {
    const known = this.#expected.get(keyOf(request)) ?? new Set();
    for (const text of texts) if (text !== null) known.add(plain(text));
    this.#expected.set(keyOf(request), known);
  }

  #lookIn(uri: vscode.Uri): void {
    for (const { request } of this.#watched.values()) {
      if (request.preview.uri === uri.toString()) void this.#look(request);
    }
  }

  async #look(request: DiffRequest): Promise<void> {
    const { requestId } = request;
    const watched = this.#watched.get(requestId);
    if (!watched) return;
    const look = ++watched.looks;
    const stale = await this.#find(watched);
    const isLast = this.#watched.get(requestId)?.looks === look;
    if (!isLast || stale === this.#stale.get(requestId)) return;
    if (stale) this.#stale.set(requestId, stale);
    else this.#stale.delete(requestId);
    this.#changes.fire(requestId);
  }

  async #find({ request, wasThere }: Watched): Promise<Stale | undefined> {
    const uri = vscode.Uri.parse(request.preview.uri);
    const { oldText } = request.preview;
    // What is open may be shown for long after the file is gone.
    if (oldText !== null && (await wasThere) && !(await isThere(uri))) return "gone";
    const text = openText(uri) ?? (await textOnDisk(uri));
    if (text === undefined || this.#expected.get(keyOf(request))?.has(plain(text))) return undefined;
    // What is no character may be shown as more or fewer signs for that.
    return text.includes("\uFFFD") ? undefined : "changed";
  }
}

function keyOf({ batch, preview }: DiffRequest): string {
  return JSON.stringify([batch.id, preview.uri]);
}

/** The text of a file that is open, as agents read it: a notebook as a script with a line above each cell. */
function openText(uri: vscode.Uri): string | undefined {
  const isIt = isOpenAt(uri);
  const cells = vscode.workspace.notebookDocuments.find(isIt)?.getCells();
  const script = cells?.map(({ kind, document }) => {
    const head = kind === vscode.NotebookCellKind.Code ? "# %%" : "# %% [markdown]";
    return `${head}\n${document.getText().trimEnd()}\n`;
  });
  return script?.join("\n") ?? vscode.workspace.textDocuments.find(isIt)?.getText();
}

/** The text of a file on disk; undefined when it is not known. */
async function textOnDisk(uri: vscode.Uri): Promise<string | undefined> {
  try {
    // In another encoding it may have been read another way.
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await vscode.workspace.fs.readFile(uri));
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}
