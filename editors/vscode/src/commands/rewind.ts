/** Commands that go back to a checkpoint, or continue from one in a new session. */
import * as vscode from "vscode";

import type { Page } from "../page/page.ts";
import type { Checkpoint } from "../protocol.ts";
import { countsText, filesText, type RewindPlan } from "../state/changes.ts";
import { iconless, oneLine } from "../state/text.ts";
import type { CommandTable, Deputy } from "./deputy.ts";

/** What goes back. */
export interface Part {
  readonly files: boolean;
  readonly conversation: boolean;
}

type PartItem = vscode.QuickPickItem & { readonly part: Part };

export function rewindCommands(deputy: Deputy): CommandTable {
  const { rewinds, sessions } = deputy;
  return {
    "deputy.session.rewind": async () => {
      const sessionId = sessions.current?.sessionId;
      const checkpoint = sessionId && (await pick(deputy, sessionId, "Go back to before…"));
      if (!sessionId || !checkpoint) return;
      const plan = await rewinds.plan(sessionId, checkpoint);
      const title = `Go back: ${iconless(plan.title)}`;
      const chosen = await vscode.window.showQuickPick(partsOf(plan), { title, placeHolder: effectOf(plan) });
      if (chosen) await rewind(deputy, sessionId, plan.checkpointId, chosen.part);
    },
    "deputy.session.fork": async () => {
      const sessionId = sessions.current?.sessionId;
      const checkpoint = sessionId && (await pick(deputy, sessionId, "Continue in a new session from before…"));
      if (sessionId && checkpoint) await fork(deputy, sessionId, checkpoint.checkpointId, "");
    },
  };
}

/** Sends the plan of a rewind to before a message to the page; without one, the page closes its card. */
export async function sendPlan({ rewinds }: Deputy, page: Page, seq: number): Promise<void> {
  let plan: RewindPlan | undefined;
  try {
    plan = page.sessionId === undefined ? undefined : await rewinds.planBefore(page.sessionId, seq);
    if (!plan) void vscode.window.showInformationMessage("There is no checkpoint before this prompt.");
  } finally {
    page.send({ type: "rewindPlan", seq, plan });
  }
}

/** Goes back as far as possible. Files that cannot go back were shown before; they are left and named. */
export async function rewind(deputy: Deputy, sessionId: string, checkpointId: string, part: Part): Promise<void> {
  const params = { sessionId, checkpointId, ...part, onConflict: "skip" } as const;
  const { result, prompt } = await deputy.rewinds.rewind(params);
  if (prompt) {
    await vscode.commands.executeCommand("deputy.chat.focus");
    deputy.chat.restore(prompt);
  }
  const name = (uri: string): string => vscode.workspace.asRelativePath(vscode.Uri.parse(uri));
  const left = result.conflicts.map(({ uri, reason }) => `${name(uri)}: ${oneLine(reason, 200)}`);
  if (left.length > 0) void vscode.window.showWarningMessage(`Left unchanged: ${left.slice(0, 3).join(" ")}`);
  const what = part.files ? `Restored ${filesText(result.files.length)}` : "Went back; files are unchanged";
  vscode.window.setStatusBarMessage(`$(history) ${what}. Deputy: Rewind… can undo this.`, 8000);
}

/** Continues in a new session, with `text` in the prompt box. */
export async function fork(deputy: Deputy, sessionId: string, checkpointId: string, text: string): Promise<void> {
  await deputy.rewinds.fork(sessionId, checkpointId);
  await vscode.commands.executeCommand("deputy.chat.focus");
  if (text) deputy.chat.restore({ text });
}

/** Asks the user to pick a checkpoint. */
async function pick(deputy: Deputy, sessionId: string, title: string): Promise<Checkpoint | undefined> {
  const items = (await deputy.rewinds.list(sessionId)).map((checkpoint) => ({
    label: iconless(oneLine(checkpoint.title, 80)),
    description: new Date(checkpoint.time).toLocaleString(),
    detail: checkpoint.files > 0 ? `${filesText(checkpoint.files)} ${countsText(checkpoint)} until the next one` : "",
    checkpoint,
  }));
  const shown = { title: items.length ? title : "This session has no checkpoints yet", matchOnDetail: true };
  return (await vscode.window.showQuickPick(items, shown))?.checkpoint;
}

function partsOf({ files }: RewindPlan): readonly PartItem[] {
  const can = files.some(({ conflict }) => !conflict);
  const both = { label: "$(history) Files and conversation", part: { files: true, conversation: true } };
  const onlyFiles = { label: "$(files) Files only", part: { files: true, conversation: false } };
  const talk = { label: "$(comment-discussion) Conversation only", part: { files: false, conversation: true } };
  return can ? [both, onlyFiles, talk] : [talk];
}

/** What happens to the files, in one line. */
function effectOf({ files }: RewindPlan): string {
  const named = files.slice(0, 4).map((file) => `${file.path} ${file.conflict ? "(stays)" : countsText(file)}`);
  const more = files.length > 4 ? `, and ${files.length - 4} more` : "";
  return files.length === 0 ? "No file has changed since." : `Files: ${named.join(", ")}${more}`;
}
