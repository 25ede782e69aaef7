/**
 * Tests in the extension host. A file calls {@link test} for each of its tests and exports {@link run}, which VS Code
 * calls in a separate window. The results are written to the folder in `DEPUTY_RESULTS`.
 */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import * as vscode from "vscode";

import type { Deputy } from "../../src/commands/deputy.ts";
import type { PermissionRequest } from "../../src/protocol.ts";
import { type AgentView, type SessionState, transcriptOf } from "../../src/state/session.ts";

type Body = (deputy: Deputy) => Promise<void>;

/** Time limit of each wait in milliseconds, for a busy machine. */
const PATIENCE = 40_000;
const POLL = 20;

/** Time limit of a test in milliseconds: one that hangs fails alone. */
const TEST_LIMIT = 120_000;

const tests: [name: string, body: Body][] = [];
const originals = new Map<string, string>();

export function test(name: string, body: Body): void {
  tests.push([name, body]);
}

/** Runs the tests of a file one after the other. */
export async function run(): Promise<void> {
  const extension = vscode.extensions.getExtension<Deputy>("deputy.deputy");
  assert.ok(extension, "the extension is installed");
  const deputy = await extension.activate();
  const results: Record<string, string> = {};
  for (const [name, body] of tests) results[name] = await outcome(deputy, body);
  const folder = process.env["DEPUTY_RESULTS"] ?? ".";
  writeFileSync(join(folder, `${basename(__filename, ".js")}.json`), JSON.stringify(results));
}

/** Empty if the test passed, otherwise the error. */
async function outcome(deputy: Deputy, body: Body): Promise<string> {
  try {
    await deputy.server.start();
    await limited(body(deputy), "the test");
    return "";
  } catch (error) {
    return error instanceof Error ? (error.stack ?? error.message) : String(error);
  } finally {
    await limited(tidyUp(deputy), "the clean-up").catch(() => undefined);
  }
}

/** Waits for `work`, at most as long as a test may take. */
async function limited(work: Promise<void>, what: string): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} did not finish in time`)), TEST_LIMIT);
  });
  try {
    await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Cleans up after a test: no session, no open editor, no changed file. */
async function tidyUp(deputy: Deputy): Promise<void> {
  await vscode.commands.executeCommand("deputy.cancel");
  deputy.sessions.leave();
  for (const [path, text] of originals) await vscode.workspace.fs.writeFile(vscode.Uri.file(path), Buffer.from(text));
  originals.clear();
  await vscode.commands.executeCommand("workbench.action.revertAndCloseActiveEditor");
  await vscode.commands.executeCommand("workbench.action.closeAllEditors");
}

/** Waits for a value. */
export async function until<T>(what: string, find: () => T | undefined | false | null): Promise<T> {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const found = find();
    if (found) return found;
    if (Date.now() > end) throw new Error(`timed out waiting for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, POLL));
  }
}

/** A file of the project, which is restored after the test. */
export async function file(name: string): Promise<vscode.Uri> {
  const root = vscode.workspace.workspaceFolders?.[0]?.uri;
  assert.ok(root);
  const uri = vscode.Uri.joinPath(root, name);
  originals.set(uri.fsPath, await onDisk(uri));
  return uri;
}

export async function onDisk(uri: vscode.Uri): Promise<string> {
  return Buffer.from(await vscode.workspace.fs.readFile(uri)).toString();
}

/** Sends a prompt like the user, without waiting for the turn. */
export function ask(text: string): void {
  void vscode.commands.executeCommand("deputy.ask", text);
}

/** The shown session, once its turn has ended. */
export function ended(deputy: Deputy): Promise<SessionState> {
  return until("the end of the turn", () => {
    const state = deputy.sessions.current;
    return state?.ended && !state.turn ? state : undefined;
  });
}

/** The open permission request whose title contains `title`. */
export function openRequest(deputy: Deputy, title: string): Promise<PermissionRequest> {
  return until(`the request ${title}`, () => deputy.requests.list().find((one) => one.title.includes(title)));
}

/** The agent with that label, once it has that status. */
export function agent(deputy: Deputy, label: string, status: AgentView["status"]): Promise<AgentView> {
  return until(`${label} ${status}`, () => {
    const agents = Object.values(deputy.sessions.current?.agents ?? {});
    return agents.find((one) => one.label === label && one.status === status);
  });
}

/** The last message of the primary. */
export function answer(state: SessionState): string {
  const entry = transcriptOf(state, state.primaryId ?? "").findLast((one) => one.type === "message");
  return entry?.type === "message" && entry.role === "assistant" ? entry.text : "";
}

/** The results of an agent's calls of a tool, in the order of the calls. */
export function results(state: SessionState, agentId: string, tool: string): readonly string[] {
  return transcriptOf(state, agentId).flatMap((one) =>
    one.type === "tool_call" && one.tool === tool ? [one.content ?? ""] : [],
  );
}

/** The code lenses of a document. */
export async function lenses(uri: vscode.Uri): Promise<readonly vscode.Command[]> {
  const found = await vscode.commands.executeCommand<vscode.CodeLens[]>("vscode.executeCodeLensProvider", uri, 100);
  return found.flatMap(({ command }) => (command ? [command] : []));
}

/** Runs a command like a click on its lens or action. */
export async function click(command: vscode.Command): Promise<void> {
  await vscode.commands.executeCommand(command.command, ...((command.arguments ?? []) as unknown[]));
}

/** Clicks the lens whose title contains `title`. */
export async function clickLens(uri: vscode.Uri, title: string): Promise<void> {
  const lens = (await lenses(uri)).find((command) => command.title.includes(title));
  assert.ok(lens, `a lens ${title}`);
  await click(lens);
}

/** Captures and answers messages instead of showing them, until the returned function is called. */
export function capture(
  name: "showErrorMessage" | "showWarningMessage" | "showInformationMessage" | "setStatusBarMessage",
  messages: unknown[][],
  answer?: string,
): () => void {
  const before = Object.getOwnPropertyDescriptor(vscode.window, name);
  const value = (...args: unknown[]): Promise<string | undefined> => {
    messages.push(args);
    return Promise.resolve(answer);
  };
  Object.defineProperty(vscode.window, name, { value, configurable: true });
  return () => before && Object.defineProperty(vscode.window, name, before);
}

/** Answers the dialogs that `body` opens, because tests cannot show them. */
export async function whileAnswering<T>(
  name: "showWarningMessage" | "showInputBox" | "showQuickPick",
  value: unknown,
  body: () => Promise<T>,
): Promise<T> {
  const before = Object.getOwnPropertyDescriptor(vscode.window, name);
  Object.defineProperty(vscode.window, name, { value: () => Promise.resolve(value), configurable: true });
  try {
    return await body();
  } finally {
    if (before) Object.defineProperty(vscode.window, name, before);
  }
}
