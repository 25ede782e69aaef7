/** Commands that send prompts. */
import * as vscode from "vscode";

import { mentionOf, spanOf } from "../editor.ts";
import type { Mention, Prompt } from "../page/messages.ts";
import { ErrorCode, type Range } from "../protocol.ts";
import { explain } from "../server.ts";
import type { PromptBlock } from "../sessions.ts";
import { oneLine } from "../state/text.ts";
import type { CommandTable, Deputy } from "./deputy.ts";

interface Problem {
  readonly message: string;
  readonly line: number;
}

/** Maximum characters of a document that is not a file, in a prompt. */
const MAX_TEXT = 256 * 1024;

export function askCommands(deputy: Deputy): CommandTable {
  return {
    "deputy.ask": async (text?: string) => {
      const prompt = text ?? (await vscode.window.showInputBox({ title: "Ask Deputy", prompt: "Enter a prompt" }));
      if (!prompt?.trim()) return;
      await vscode.commands.executeCommand("deputy.chat.focus");
      await send(deputy, { type: "prompt", text: prompt, mentions: [], images: [] });
    },
    "deputy.askSelection": async () => {
      const editor = vscode.window.activeTextEditor;
      await deputy.chat.mention(editor ? [mentionOf(editor.document.uri, editor.selection)] : []);
    },
    "deputy.askFile": async (uri?: vscode.Uri, all?: readonly vscode.Uri[]) => {
      const chosen = all?.length
        ? all
        : [uri ?? vscode.window.activeTextEditor?.document.uri].filter((one) => one !== undefined);
      await deputy.chat.mention(chosen.map((one) => mentionOf(one)));
    },
    "deputy.attach": async () => {
      const found = await vscode.workspace.findFiles("**/*", "**/{node_modules,.git,.venv}/**", 2000);
      const items = found.map((uri) => ({ label: vscode.workspace.asRelativePath(uri), uri })).sort(byLabel);
      const picked = await vscode.window.showQuickPick(items, { title: "Add files to the prompt", canPickMany: true });
      if (picked?.length) await deputy.chat.mention(picked.map(({ uri }) => mentionOf(uri)));
    },
    "deputy.fix": async (uri: vscode.Uri, range: Range, problems: readonly Problem[]) => {
      const mention: Mention = { uri: uri.toString(), label: vscode.workspace.asRelativePath(uri), range };
      const list = problems.map(({ message, line }) => `- line ${line}: ${oneLine(message, 300)}`).join("\n");
      await vscode.commands.executeCommand("deputy.chat.focus");
      await send(deputy, {
        type: "prompt",
        text: `Fix in ${mention.label}:\n${list}`,
        mentions: [mention],
        images: [],
      });
    },
    "deputy.continue": () =>
      send(deputy, { type: "prompt", text: "Continue where you were interrupted.", mentions: [], images: [] }),
  };
}

/** Sends a prompt and reports errors that the chat does not show; false if the prompt did not reach the agent. */
export async function send(deputy: Deputy, prompt: Prompt): Promise<boolean> {
  try {
    const blocks = await blocksOf(prompt);
    const session = await deputy.sessions.present();
    deputy.sent.set(prompt, session.sessionId);
    await deputy.sessions.prompt(session, blocks);
    return true;
  } catch (error) {
    // The chat shows a failed turn, with what to do.
    if ((error as { code?: unknown }).code === ErrorCode.MODEL_FAILURE) return true;
    void explain(error, deputy.server);
    return false;
  } finally {
    deputy.sent.delete(prompt);
  }
}

async function blocksOf({ text, mentions, images }: Prompt): Promise<readonly PromptBlock[]> {
  return [
    ...(text.trim() ? [{ type: "text" as const, text }] : []),
    ...(await Promise.all(mentions.map(mentioned))),
    ...images.map((image) => ({ type: "image" as const, ...image })),
  ];
}

/** A link for a file, which agents read; the text for anything else, such as a document that was never saved. */
async function mentioned({ uri, label, range }: Mention): Promise<PromptBlock> {
  const at = vscode.Uri.parse(uri);
  if (at.scheme === "file") return { type: "resource_link", uri, ...(range && { range }) };
  const document = await vscode.workspace.openTextDocument(at);
  const text = document.getText(range && spanOf(range));
  const cut = text.length > MAX_TEXT ? "\n[cut: the rest is too long]" : "";
  return { type: "text", text: `[${label}, as the editor has it]\n${text.slice(0, MAX_TEXT)}${cut}` };
}

function byLabel(one: { label: string }, other: { label: string }): number {
  return one.label.localeCompare(other.label);
}
