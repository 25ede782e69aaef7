/** Commands that review what agents changed: go to changes, keep, undo and comment on them. */
import * as vscode from "vscode";

import { spanOf } from "../editor.ts";
import type { Hunk, ReviewFile, ReviewResult } from "../protocol.ts";
import { fileOfBase, BASE } from "../review/bases.ts";
import type { Selector } from "../review/changes.ts";
import { changesText, filesText, hunkAt, type HunkPlace, nextHunk } from "../state/changes.ts";
import { oneLine } from "../state/text.ts";
import { send } from "./ask.ts";
import type { CommandTable, Deputy } from "./deputy.ts";

/** The file of a command: from a link or the chat, from an editor's title, or none for the active editor. */
type Where = string | vscode.Uri | undefined;

export function reviewCommands(deputy: Deputy): CommandTable {
  const { changes, reviewDiffs, comments } = deputy;
  return {
    "deputy.changes.review": () => reviewDiffs.openAll(),
    "deputy.changes.open": (where?: Where, hunkId?: string) => {
      const uri = uriOf(where);
      return (
        uri &&
        reviewDiffs.open(
          uri,
          changes.fileAt(uri)?.hunks.find((hunk) => hunk.hunkId === hunkId),
        )
      );
    },
    "deputy.changes.next": () => step(deputy, 1),
    "deputy.changes.previous": () => step(deputy, -1),
    "deputy.changes.keep": (where?: Where, hunkId?: string) => reviewHunk(deputy, "keep", where, hunkId),
    "deputy.changes.undo": (where?: Where, hunkId?: string) => reviewHunk(deputy, "undo", where, hunkId),
    "deputy.changes.keepFile": (where?: Where) => reviewFile(deputy, "keep", where),
    "deputy.changes.undoFile": (where?: Where) => reviewFile(deputy, "undo", where),
    "deputy.changes.keepAll": () => review(deputy, "keep", { all: true }),
    "deputy.changes.undoAll": async () => {
      const { totals } = changes.list;
      if (totals.hunks === 0) return;
      const message = `Undo ${changesText(totals.hunks)} in ${filesText(totals.files)}?`;
      const detail = "The lines that agents changed become what they were before. Lines that you typed stay.";
      if ((await vscode.window.showWarningMessage(message, { modal: true, detail }, "Undo All")) === "Undo All")
        await review(deputy, "undo", { all: true });
    },
    "deputy.changes.comment": (where?: Where, hunkId?: string) => comment(deputy, where, hunkId),
    "deputy.comments.add": (reply: vscode.CommentReply) => comments.add(reply),
    "deputy.comments.discard": (thread: vscode.CommentThread) => comments.discard(thread),
    "deputy.comments.send": async () => {
      const text = comments.take();
      if (!text) return;
      await vscode.commands.executeCommand("deputy.chat.focus");
      if (!(await send(deputy, { type: "prompt", text, mentions: [], images: [] }))) deputy.chat.restore({ text });
    },
  };
}

/** Keeps or undoes changes, and reports those that were left. */
async function review({ changes }: Deputy, verb: "keep" | "undo", selector: Selector): Promise<ReviewResult> {
  const result = await changes[verb](selector);
  if (result.conflicts.length > 0) {
    const reasons = [...new Set(result.conflicts.map(({ uri, reason }) => `${nameOf(uri)}: ${oneLine(reason, 200)}`))];
    const more = reasons.length > 3 ? ` And ${reasons.length - 3} more.` : "";
    void vscode.window.showWarningMessage(`Not changed: ${reasons.slice(0, 3).join(" ")}${more}`);
  }
  return result;
}

/** Keeps or undoes one hunk: the given one, or the one at the cursor. From the cursor, goes on to the next one. */
async function reviewHunk(deputy: Deputy, verb: "keep" | "undo", where?: Where, hunkId?: string): Promise<void> {
  if (hunkId !== undefined) {
    await review(deputy, verb, { hunkIds: [hunkId] });
    return;
  }
  const here = atCursor(deputy);
  if (!here) {
    showNone();
    return;
  }
  const { done } = await review(deputy, verb, { hunkIds: [here.hunk.hunkId] });
  const left = deputy.changes.list.totals;
  if (done.length === 0) return;
  if (here.file.hunks.length > 1) await step(deputy, 1);
  else if (left.hunks > 0) showStatus(`${changesText(left.hunks)} left in ${filesText(left.files)}`);
  else showStatus("All changes are reviewed");
}

async function reviewFile(deputy: Deputy, verb: "keep" | "undo", where: Where): Promise<void> {
  const uri = uriOf(where);
  const file = uri && deputy.changes.fileAt(uri);
  if (!file) {
    showNone();
    return;
  }
  await review(deputy, verb, { uri: file.uri });
}

/** Goes to the next or the previous hunk, also in another file. In a diff, that file opens as a diff too. */
async function step({ changes, reviewDiffs }: Deputy, by: 1 | -1): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  const uri = uriOf(undefined);
  const file = uri && changes.fileAt(uri);
  const at = editor && file && { uri: file.uri, line: editor.selection.active.line };
  const place = nextHunk(changes.list.files, at, by);
  if (!place) {
    showNone();
    return;
  }
  const target = vscode.Uri.parse(place.file.uri);
  const isInDiff = vscode.window.tabGroups.activeTabGroup.activeTab?.input instanceof vscode.TabInputTextDiff;
  if (place.file.status === "deleted" || (isInDiff && place.file !== file)) return reviewDiffs.open(target, place.hunk);
  const start = place.hunk.range.start;
  const selection = spanOf({ start, end: start });
  if (editor && place.file === file) {
    editor.selection = new vscode.Selection(selection.start, selection.start);
    editor.revealRange(selection, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
  } else await vscode.window.showTextDocument(target, { selection, preview: true });
}

/** Opens the comment box at a hunk. */
async function comment(deputy: Deputy, where?: Where, hunkId?: string): Promise<void> {
  const here = hunkId === undefined ? atCursor(deputy) : named(deputy, where, hunkId);
  if (!here) {
    showNone();
    return;
  }
  const { start, end } = here.hunk.range;
  await vscode.window.showTextDocument(vscode.Uri.parse(here.file.uri), {
    selection: spanOf({ start, end: start }),
    preview: true,
  });
  const last = Math.max(start.line, end.line - 1) + 1;
  const range = { startLineNumber: start.line + 1, startColumn: 1, endLineNumber: last, endColumn: 1 };
  await vscode.commands.executeCommand("workbench.action.addComment", { range, fileComment: false });
}

/** The hunk at the cursor, or the only one of the file. */
function atCursor({ changes }: Deputy): HunkPlace | undefined {
  const [editor, uri] = [vscode.window.activeTextEditor, uriOf(undefined)];
  const file = uri && changes.fileAt(uri);
  if (!editor || !file) return undefined;
  const hunk = hunkAt(file.hunks, editor.selection.active.line) ?? onlyOf(file);
  return hunk && { file, hunk };
}

function named({ changes }: Deputy, where: Where, hunkId: string): HunkPlace | undefined {
  const uri = uriOf(where);
  const file = uri && changes.fileAt(uri);
  const hunk = file?.hunks.find((one) => one.hunkId === hunkId);
  return file && hunk && { file, hunk };
}

function onlyOf({ hunks }: ReviewFile): Hunk | undefined {
  return hunks.length === 1 ? hunks[0] : undefined;
}

function uriOf(where: Where): vscode.Uri | undefined {
  const uri = typeof where === "string" ? vscode.Uri.parse(where) : (where ?? activeUri());
  return uri?.scheme === BASE ? fileOfBase(uri) : uri;
}

function activeUri(): vscode.Uri | undefined {
  return vscode.window.activeTextEditor?.document.uri;
}

function nameOf(uri: string): string {
  return vscode.workspace.asRelativePath(vscode.Uri.parse(uri));
}

function showNone(): void {
  showStatus("There is no change to review here");
}

function showStatus(text: string): void {
  vscode.window.setStatusBarMessage(`$(info) ${text}.`, 4000);
}
