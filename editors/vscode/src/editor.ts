/** Selections, files and folders of the editor, and code actions for them. */
import * as vscode from "vscode";

import type { Mention } from "./page/messages.ts";
import type { Range } from "./protocol.ts";
import { lines } from "./state/text.ts";

/** A mention of the selection, or of the whole file if nothing is selected. */
export function mentionOf(uri: vscode.Uri, selection?: vscode.Range): Mention {
  const name = vscode.workspace.asRelativePath(uri, false);
  if (!selection || selection.isEmpty) return { uri: uri.toString(), label: name };
  return { uri: uri.toString(), label: `${name}:${lines(selection)}`, range: rangeOf(selection) };
}

/** A filter for the open document or notebook with that URI. */
export function isOpenAt(uri: vscode.Uri): (open: { readonly uri: vscode.Uri; readonly isClosed: boolean }) => boolean {
  return (open) => !open.isClosed && open.uri.toString() === uri.toString();
}

/** Whether a file exists; true if it cannot be determined. */
export async function isThere(uri: vscode.Uri): Promise<boolean> {
  try {
    await vscode.workspace.fs.stat(uri);
    return true;
  } catch (error) {
    return !(error instanceof vscode.FileSystemError && error.code === "FileNotFound");
  }
}

/** The window has no folder for agents to work in. */
export class NoFolder extends Error {
  constructor() {
    super("Open a folder first. Deputy works in a folder.");
  }
}

/**
 * The folder of a new session. With several folders, the user picks one.
 *
 * @throws NoFolder without a folder; CancellationError if the user picks none.
 */
export async function pickFolder(): Promise<vscode.Uri> {
  const [first, ...others] = vscode.workspace.workspaceFolders ?? [];
  if (!first) throw new NoFolder();
  if (others.length === 0) return first.uri;
  const picked = await vscode.window.showWorkspaceFolderPick({ placeHolder: "Select the folder to work in" });
  if (!picked) throw new vscode.CancellationError();
  return picked.uri;
}

/** Name of a workspace folder, with its parent if two have the same name. */
export function folderName(uri: vscode.Uri): string {
  const last = (path: string, count: number): string => path.split("/").slice(-count).join("/");
  const same = (vscode.workspace.workspaceFolders ?? []).filter((one) => last(one.uri.path, 1) === last(uri.path, 1));
  return last(uri.path, same.length > 1 ? 2 : 1);
}

/** Offers "Ask Deputy" on a selection, and "Ask Deputy to fix" on diagnostics. */
export class Actions implements vscode.CodeActionProvider {
  provideCodeActions(
    document: vscode.TextDocument,
    range: vscode.Range,
    context: vscode.CodeActionContext,
  ): vscode.CodeAction[] {
    const actions: vscode.CodeAction[] = [];
    if (context.diagnostics.length) {
      const fix = new vscode.CodeAction("Ask Deputy to fix", vscode.CodeActionKind.QuickFix);
      fix.diagnostics = [...context.diagnostics];
      const problems = context.diagnostics.map(({ message, range: at }) => ({ message, line: at.start.line + 1 }));
      const all = context.diagnostics.map((diagnostic) => diagnostic.range).reduce((one, other) => one.union(other));
      fix.command = { title: fix.title, command: "deputy.fix", arguments: [document.uri, rangeOf(all), problems] };
      actions.push(fix);
    }
    if (!range.isEmpty) {
      const ask = new vscode.CodeAction("Ask Deputy about the selection", vscode.CodeActionKind.RefactorRewrite);
      ask.command = { title: ask.title, command: "deputy.askSelection" };
      actions.push(ask);
    }
    return actions;
  }
}

export function spanOf({ start, end }: Range): vscode.Range {
  return new vscode.Range(start.line, start.character, end.line, end.character);
}

export function rangeOf({ start, end }: vscode.Range): { start: Place; end: Place } {
  return {
    start: { line: start.line, character: start.character },
    end: { line: end.line, character: end.character },
  };
}

interface Place {
  readonly line: number;
  readonly character: number;
}
