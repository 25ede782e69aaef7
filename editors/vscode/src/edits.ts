/**
 * Edits of agents to open files. A file without unsaved changes is saved after the edit, so that commands and tests see
 * the approved text; a file with unsaved changes is left for the user to save.
 */
import * as vscode from "vscode";
import {
  type ApplyWorkspaceEditParams,
  type ApplyWorkspaceEditRequest,
  type ApplyWorkspaceEditResult,
  CancellationToken,
} from "vscode-languageclient/node";

/** Time limit in milliseconds for save participants such as formatters; the edit itself is already applied. */
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
