/**
 * Proposed changes as files: `deputy-proposal:/path?old/<request>` and `?new/<request>`. Both sides have the file's own
 * path, or editors would show a renamed file. The new side can be edited, and what the user leaves there, saved or not,
 * is what an approval approves.
 */
import * as vscode from "vscode";

import { isOpenAt } from "../editor.ts";
import type { Questions } from "../questions.ts";
import { type DiffRequest, isDiff, textSuffix, withEndsOf } from "../state/proposal.ts";

export const SCHEME = "deputy-proposal";

type Side = "old" | "new";

/** Whatever encoding the user's settings have for files: what begins with this is read, and saved, as UTF-8. */
const MARK = "\uFEFF";

export class Proposals implements vscode.FileSystemProvider, vscode.Disposable {
  readonly #questions: Questions;
  readonly #edited = new Map<string, string>();
  /** What of that was saved, by question: an editor that is reverted goes back to it. */
  readonly #saved = new Map<string, string>();
  /** What open editors have last seen, by address: they can still save, and so close, when their question is settled. */
  readonly #seen = new Map<string, string>();
  /** How often texts were changed here and not in an editor, by question. */
  readonly #versions = new Map<string, number>();
  readonly #files = new vscode.EventEmitter<vscode.FileChangeEvent[]>();
  readonly #edits = new vscode.EventEmitter<string>();
  readonly #subscriptions: vscode.Disposable[];
  readonly onDidChangeFile = this.#files.event;
  /** The user changed the proposal of a question, named by its id. */
  readonly onDidEdit = this.#edits.event;

  constructor(questions: Questions) {
    this.#questions = questions;
    this.#subscriptions = [
      vscode.workspace.registerFileSystemProvider(SCHEME, this, { isCaseSensitive: true }),
      vscode.workspace.onDidChangeTextDocument(({ document }) => this.#take(document)),
      vscode.workspace.onDidCloseTextDocument(({ uri }) => this.#seen.delete(uri.toString())),
      questions.onDidChange(() => this.#tidy()),
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

  /** The question that a proposal's file belongs to. */
  request(uri: vscode.Uri): DiffRequest | undefined {
    if (uri.scheme !== SCHEME) return undefined;
    const request = this.#questions.get(uri.query.slice(uri.query.indexOf("/") + 1));
    return request && isDiff(request) ? request : undefined;
  }

  /** The proposed text as the user left it. */
  text(request: DiffRequest): string {
    return this.#edited.get(request.requestId) ?? request.preview.newText;
  }

  /** Changes the proposed text, also in the editor that shows it, unless that has something unsaved. */
  replace(request: DiffRequest, text: string): void {
    const { requestId } = request;
    this.#versions.set(requestId, (this.#versions.get(requestId) ?? 0) + 1);
    this.#keep(request, text);
    this.#saved.set(requestId, text);
    this.#files.fire([{ type: vscode.FileChangeType.Changed, uri: this.uri(request, "new") }]);
  }

  /** Texts that the user has changed, by question. */
  edits(): Readonly<Record<string, string>> {
    return Object.fromEntries(this.#edited);
  }

  stat(uri: vscode.Uri): vscode.FileStat {
    const size = Buffer.byteLength(MARK + this.#content(uri));
    const readonly = this.#side(uri) === "old" ? { permissions: vscode.FilePermission.Readonly } : {};
    // What its own editor has saved is not newer than what that has.
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
    if (request) this.#saved.set(request.requestId, this.text(request));
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

  /** An editor with something unsaved reads only to drop that. */
  #isReverted(uri: vscode.Uri): boolean {
    const open = vscode.workspace.textDocuments.find(isOpenAt(uri));
    return this.request(uri) !== undefined && this.#side(uri) === "new" && open?.isDirty === true;
  }

  #lastSaved(uri: vscode.Uri): string {
    const request = this.request(uri);
    return this.#saved.get(request?.requestId ?? "") ?? request?.preview.newText ?? "";
  }

  #side(uri: vscode.Uri): Side {
    return uri.query.startsWith("new/") ? "new" : "old";
  }

  #content(uri: vscode.Uri): string {
    const request = this.request(uri);
    if (request) return this.#side(uri) === "new" ? this.text(request) : (request.preview.oldText ?? "");
    const seen = this.#seen.get(uri.toString());
    // A tab that is restored after a restart: its question is gone.
    if (seen === undefined) throw vscode.FileSystemError.FileNotFound(uri);
    return seen;
  }

  #take(document: vscode.TextDocument): void {
    const request = this.request(document.uri);
    if (request && this.#side(document.uri) === "new") this.#keep(request, document.getText());
  }

  #keep(request: DiffRequest, shown: string): void {
    const text = withEndsOf(request.preview.newText, shown);
    if (text === this.text(request)) return;
    if (text === request.preview.newText) this.#edited.delete(request.requestId);
    else this.#edited.set(request.requestId, text);
    this.#edits.fire(request.requestId);
  }

  #tidy(): void {
    for (const kept of [this.#edited, this.#saved, this.#versions]) {
      for (const requestId of kept.keys()) if (!this.#questions.get(requestId)) kept.delete(requestId);
    }
    const open = new Set(vscode.workspace.textDocuments.map(({ uri }) => uri.toString()));
    for (const uri of this.#seen.keys()) if (!open.has(uri)) this.#seen.delete(uri);
  }
}
