/**
 * Detects requests whose file has changed or was deleted since. Approving one would fail, and the agent would have to
 * read the file again. The server checks again in any case; this only informs the user.
 */
import * as vscode from "vscode";

import { isOpenAt, isThere } from "../editor.ts";
import type { OpenRequests } from "../requests.ts";
import { type DiffRequest, isDiff, type Stale } from "../state/proposal.ts";
import { plain } from "../state/shown.ts";
import type { Proposals } from "./proposals.ts";

interface Watched {
  readonly request: DiffRequest;
  readonly watcher: vscode.FileSystemWatcher;
  /** Whether the file existed when the request arrived: an editor may show one that was never saved. */
  readonly wasThere: Promise<boolean>;
  /** Number of checks of the file: only the result of the last one counts. */
  checks: number;
}

export class Staleness implements vscode.Disposable {
  readonly #requests: OpenRequests;
  readonly #watched = new Map<string, Watched>();
  readonly #stale = new Map<string, Stale>();
  /** Texts of a file before and after the other changes of a batch, by batch and file. */
  readonly #expected = new Map<string, Set<string>>();
  readonly #changes = new vscode.EventEmitter<string>();
  readonly #subscriptions: vscode.Disposable[];
  /** The request with that id has become stale, or is no longer stale. */
  readonly onDidChange = this.#changes.event;

  constructor(requests: OpenRequests, proposals: Proposals) {
    this.#requests = requests;
    this.#subscriptions = [
      requests.onDidAllow((request) => isDiff(request) && this.#expect(request, proposals.text(request))),
      requests.onDidChange(() => this.#update()),
      vscode.workspace.onDidChangeTextDocument(({ document }) => this.#checkAt(document.uri)),
      vscode.workspace.onDidChangeNotebookDocument(({ notebook }) => this.#checkAt(notebook.uri)),
      vscode.workspace.onDidOpenNotebookDocument(({ uri }) => this.#checkAt(uri)),
      vscode.workspace.onDidCloseNotebookDocument(({ uri }) => this.#checkAt(uri)),
      vscode.workspace.onDidOpenTextDocument(({ uri }) => this.#checkAt(uri)),
      vscode.workspace.onDidCloseTextDocument(({ uri }) => this.#checkAt(uri)),
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
      if (this.#requests.get(requestId)) continue;
      watcher.dispose();
      this.#watched.delete(requestId);
      this.#stale.delete(requestId);
    }
    for (const request of this.#requests.list().filter(isDiff)) {
      if (this.#watched.has(request.requestId)) continue;
      this.#expect(request, request.preview.oldText, request.preview.newText);
      const wasThere = isThere(vscode.Uri.parse(request.preview.uri));
      this.#watched.set(request.requestId, { request, watcher: this.#watch(request), wasThere, checks: 0 });
      void this.#check(request);
    }
    const open = new Set([...this.#watched.values()].map(({ request }) => keyOf(request)));
    for (const key of this.#expected.keys()) if (!open.has(key)) this.#expected.delete(key);
  }

  #watch(request: DiffRequest): vscode.FileSystemWatcher {
    const uri = vscode.Uri.parse(request.preview.uri);
    // The file name may contain glob characters.
    const pattern = new vscode.RelativePattern(vscode.Uri.joinPath(uri, ".."), "*");
    const watcher = vscode.workspace.createFileSystemWatcher(pattern);
    const check = (changed: vscode.Uri): void => {
      if (changed.toString() === uri.toString()) void this.#check(request);
    };
    watcher.onDidChange(check);
    watcher.onDidCreate(check);
    watcher.onDidDelete(check);
    return watcher;
  }

  #expect(request: DiffRequest, ...texts: readonly (string | null)[]): void {
    const known = this.#expected.get(keyOf(request)) ?? new Set();
    for (const text of texts) if (text !== null) known.add(plain(text));
    this.#expected.set(keyOf(request), known);
  }

  #checkAt(uri: vscode.Uri): void {
    for (const { request } of this.#watched.values()) {
      if (request.preview.uri === uri.toString()) void this.#check(request);
    }
  }

  async #check(request: DiffRequest): Promise<void> {
    const { requestId } = request;
    const watched = this.#watched.get(requestId);
    if (!watched) return;
    const check = ++watched.checks;
    const stale = await this.#find(watched);
    const isLast = this.#watched.get(requestId)?.checks === check;
    if (!isLast || stale === this.#stale.get(requestId)) return;
    if (stale) this.#stale.set(requestId, stale);
    else this.#stale.delete(requestId);
    this.#changes.fire(requestId);
  }

  async #find({ request, wasThere }: Watched): Promise<Stale | undefined> {
    const uri = vscode.Uri.parse(request.preview.uri);
    const { oldText } = request.preview;
    // An editor can show a file long after it was deleted.
    if (oldText !== null && (await wasThere) && !(await isThere(uri))) return "gone";
    const text = openText(uri) ?? (await textOnDisk(uri));
    if (text === undefined || this.#expected.get(keyOf(request))?.has(plain(text))) return undefined;
    // Invalid bytes may be shown as a different number of replacement characters.
    return text.includes("\uFFFD") ? undefined : "changed";
  }
}

function keyOf({ batch, preview }: DiffRequest): string {
  return JSON.stringify([batch.id, preview.uri]);
}

/** The text of an open file as agents read it: a notebook is a script with a line above each cell. */
function openText(uri: vscode.Uri): string | undefined {
  const isIt = isOpenAt(uri);
  const cells = vscode.workspace.notebookDocuments.find(isIt)?.getCells();
  const script = cells?.map(({ kind, document }) => {
    const head = kind === vscode.NotebookCellKind.Code ? "# %%" : "# %% [markdown]";
    return `${head}\n${document.getText().trimEnd()}\n`;
  });
  return script?.join("\n") ?? vscode.workspace.textDocuments.find(isIt)?.getText();
}

/** The text of a file on disk; undefined if it cannot be decoded. */
async function textOnDisk(uri: vscode.Uri): Promise<string | undefined> {
  try {
    // Fatal: text in another encoding cannot be compared.
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await vscode.workspace.fs.readFile(uri));
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}
