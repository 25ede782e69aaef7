/**
 * Proposed changes as files: `deputy-proposal:/path?old/<request>` and `?new/<request>`. Both sides have the file's own
 * path; otherwise editors would show a renamed file. The new side can be edited, and an approval applies its text,
 * saved or not. Editors get both sides with invisible characters spelled out.
 */
import * as vscode from "vscode";

import { isOpenAt } from "../editor.ts";
import type { OpenRequests } from "../requests.ts";
import { type DiffRequest, isDiff, textSuffix } from "../state/proposal.ts";
import { fileText, shownSides } from "../state/shown.ts";

export const SCHEME = "deputy-proposal";

type Side = "old" | "new";

/** A byte order mark: the editor reads and saves such a file as UTF-8, regardless of the user's settings. */
const MARK = "\uFEFF";

export class Proposals implements vscode.FileSystemProvider, vscode.Disposable {
  readonly #requests: OpenRequests;
  /** Edited texts of the file, by request. */
  readonly #edited = new Map<string, string>();
  /** Shown texts of proposals that were edited, by request. */
  readonly #shown = new Map<string, string>();
  /** The last saved text, by request: reverting an editor restores it. */
  readonly #saved = new Map<string, string>();
  /** The last text of open editors, by URI: they can still save and close after their request is settled. */
  readonly #seen = new Map<string, string>();
  /** Number of changes made here and not in an editor, by request. */
  readonly #versions = new Map<string, number>();
  readonly #files = new vscode.EventEmitter<vscode.FileChangeEvent[]>();
  readonly #edits = new vscode.EventEmitter<string>();
  readonly #subscriptions: vscode.Disposable[];
  readonly onDidChangeFile = this.#files.event;
  /** The user edited the proposal of the request with that id. */
  readonly onDidEdit = this.#edits.event;

  constructor(requests: OpenRequests) {
    this.#requests = requests;
    this.#subscriptions = [
      vscode.workspace.registerFileSystemProvider(SCHEME, this, { isCaseSensitive: true }),
      vscode.workspace.onDidChangeTextDocument(({ document }) => this.#update(document)),
      vscode.workspace.onDidCloseTextDocument(({ uri }) => this.#seen.delete(uri.toString())),
      requests.onDidChange(() => this.#tidy()),
    ];
  }

  uri(request: DiffRequest, side: Side): vscode.Uri {
    const path = vscode.workspace.asRelativePath(vscode.Uri.parse(request.preview.uri));
    return vscode.Uri.from({
      scheme: SCHEME,
      path: `${path.startsWith("/") ? "" : "/"}${path}${textSuffix(request.preview)}`,
      query: `${side}/${request.requestId}`,
    });
  }

  /** The request that a proposal's file belongs to. */
  request(uri: vscode.Uri): DiffRequest | undefined {
    if (uri.scheme !== SCHEME) return undefined;
    const request = this.#requests.get(uri.query.slice(uri.query.indexOf("/") + 1));
    return request && isDiff(request) ? request : undefined;
  }

  /** The proposed text, including the user's edits. */
  text(request: DiffRequest): string {
    return this.#edited.get(request.requestId) ?? request.preview.newText;
  }

  /** The proposed text as an editor shows it, including the user's edits. */
  shownText(request: DiffRequest): string {
    return this.#shown.get(request.requestId) ?? shownSides(request.preview).after;
  }

  /** Changes the proposed text as an editor shows it, also in an editor without unsaved changes. */
  replace(request: DiffRequest, text: string): void {
    const { requestId } = request;
    this.#versions.set(requestId, (this.#versions.get(requestId) ?? 0) + 1);
    this.#keep(request, text);
    this.#saved.set(requestId, text);
    this.#files.fire([{ type: vscode.FileChangeType.Changed, uri: this.uri(request, "new") }]);
  }

  /** Edited texts, by request. */
  edits(): Readonly<Record<string, string>> {
    return Object.fromEntries(this.#edited);
  }

  stat(uri: vscode.Uri): vscode.FileStat {
    const size = Buffer.byteLength(MARK + this.#content(uri));
    const readonly = this.#side(uri) === "old" ? { permissions: vscode.FilePermission.Readonly } : {};
    // A save from the proposal's own editor does not change the version.
    const mtime = this.#versions.get(this.request(uri)?.requestId ?? "") ?? 0;
    return { type: vscode.FileType.File, ctime: 0, mtime, size, ...readonly };
  }

  readFile(uri: vscode.Uri): Uint8Array {
    const text = this.#isReverted(uri) ? this.#lastSaved(uri) : this.#content(uri);
    this.#seen.set(uri.toString(), text);
    return Buffer.from(MARK + text);
  }

  writeFile(uri: vscode.Uri, content: Uint8Array): void {
    if (this.#side(uri) !== "new") throw vscode.FileSystemError.NoPermissions(uri);
    const [request, text] = [this.request(uri), new TextDecoder().decode(content)];
    this.#seen.set(uri.toString(), text);
    if (request) this.#keep(request, text);
    if (request) this.#saved.set(request.requestId, text);
    this.#files.fire([{ type: vscode.FileChangeType.Changed, uri }]);
  }

  watch(): vscode.Disposable {
    return new vscode.Disposable(() => undefined);
  }

  readDirectory(uri: vscode.Uri): never {
    throw vscode.FileSystemError.FileNotADirectory(uri);
  }

  createDirectory(uri: vscode.Uri): never {
    throw vscode.FileSystemError.NoPermissions(uri);
  }

  delete(uri: vscode.Uri): never {
    throw vscode.FileSystemError.NoPermissions(uri);
  }

  rename(uri: vscode.Uri): never {
    throw vscode.FileSystemError.NoPermissions(uri);
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
    this.#files.dispose();
    this.#edits.dispose();
  }

  /** An editor with unsaved changes reads the file only to revert them. */
  #isReverted(uri: vscode.Uri): boolean {
    const open = vscode.workspace.textDocuments.find(isOpenAt(uri));
    return this.request(uri) !== undefined && this.#side(uri) === "new" && open?.isDirty === true;
  }

  #lastSaved(uri: vscode.Uri): string {
    const request = this.request(uri);
    if (!request) return "";
    return this.#saved.get(request.requestId) ?? shownSides(request.preview).after;
  }

  #side(uri: vscode.Uri): Side {
    return uri.query.startsWith("new/") ? "new" : "old";
  }

  #content(uri: vscode.Uri): string {
    const request = this.request(uri);
    if (request) return this.#side(uri) === "new" ? this.shownText(request) : shownSides(request.preview).before;
    const seen = this.#seen.get(uri.toString());
    // A tab restored after a restart: its request is closed.
    if (seen === undefined) throw vscode.FileSystemError.FileNotFound(uri);
    return seen;
  }

  #update(document: vscode.TextDocument): void {
    const request = this.request(document.uri);
    if (request && this.#side(document.uri) === "new") this.#keep(request, document.getText());
  }

  #keep(request: DiffRequest, shown: string): void {
    const text = fileText(request.preview, shown);
    if (text === request.preview.newText) this.#shown.delete(request.requestId);
    else this.#shown.set(request.requestId, shown);
    if (text === this.text(request)) return;
    if (text === request.preview.newText) this.#edited.delete(request.requestId);
    else this.#edited.set(request.requestId, text);
    this.#edits.fire(request.requestId);
  }

  #tidy(): void {
    for (const kept of [this.#edited, this.#shown, this.#saved, this.#versions]) {
      for (const requestId of kept.keys()) if (!this.#requests.get(requestId)) kept.delete(requestId);
    }
    const open = new Set(vscode.workspace.textDocuments.map(({ uri }) => uri.toString()));
    for (const uri of this.#seen.keys()) if (!open.has(uri)) this.#seen.delete(uri);
  }
}
