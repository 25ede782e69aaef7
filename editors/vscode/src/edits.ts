/**
 * Edits of agents to open files. A file that had nothing unsaved is saved after the edit, so that commands and tests see
 * what was approved; a file in which the user is typing stays unsaved, as that is the user's to save.
 */
import * as vscode from "vscode";
import {
  type ApplyWorkspaceEditParams,
  type ApplyWorkspaceEditRequest,
  type ApplyWorkspaceEditResult,
  CancellationToken,
} from "vscode-languageclient/node";

/** Milliseconds for what others do at a save, such as formatting; the edit itself is done by then. */
const SAVE_TIMEOUT = 5_000;

export async function applied(
  params: ApplyWorkspaceEditParams,
  apply: ApplyWorkspaceEditRequest.HandlerSignature,
): Promise<ApplyWorkspaceEditResult> {
  const { textDocuments, notebookDocuments } = vscode.workspace;
  const clean = [...textDocuments, ...notebookDocuments].filter((document) => !document.isDirty);
  const result = (await apply(params, CancellationToken.None)) as ApplyWorkspaceEditResult;
  const saves = clean
    .filter((document) => document.isDirty && document.uri.scheme === "file")
    .map((document) => document.save());
  let timer: NodeJS.Timeout | undefined;
  const enough = new Promise((resolve) => (timer = setTimeout(resolve, SAVE_TIMEOUT)));
  await Promise.race([Promise.all(saves), enough]).catch(() => undefined);
  clearTimeout(timer);
  return result;
}
