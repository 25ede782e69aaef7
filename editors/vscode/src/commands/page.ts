/** The user's actions in the chat or in a transcript. */
import * as vscode from "vscode";

import { spanOf } from "../editor.ts";
import type { FromPage } from "../page/messages.ts";
import type { Page } from "../page/page.ts";
import { paletteOf } from "../page/theme.ts";
import type { InputAnswerParams, Range } from "../protocol.ts";
import { explain } from "../server.ts";
import { SECTION } from "../settings.ts";
import { send } from "./ask.ts";
import type { Deputy } from "./deputy.ts";
import { unqueue } from "./queue.ts";
import { fork, rewind, sendPlan } from "./rewind.ts";
import { installServer } from "./server.ts";

type Act = { readonly [T in FromPage["type"]]?: (message: Extract<FromPage, { type: T }>, page: Page) => unknown };

/** The handler of a page's messages. */
export function pageActs(deputy: () => Deputy): (message: FromPage, page: Page) => Promise<void> {
  const command = (id: string, ...args: unknown[]): Thenable<unknown> => vscode.commands.executeCommand(id, ...args);
  const onAgent = (id: string) => (message: { readonly agentId: string }, page: Page) =>
    command(id, { sessionId: page.sessionId, agentId: message.agentId });
  const acts: Act = {
    prompt: async (message, page) => {
      const { text, mentions, images } = message;
      const isSent = await send(deputy(), message);
      if (!isSent) page.send({ type: "unsent", text, mentions, images });
    },
    complete: ({ text }, page) => complete(deputy(), text, page),
    tooLarge: ({ limit }) => void vscode.window.showWarningMessage(`Images can have at most ${limit / 1024 ** 2} MB.`),
    choose: ({ requestId, option }) => deputy().approvals.choose(requestId, option),
    answer: ({ requestId, outcome, values }, page) =>
      answerInput(deputy(), page.sessionId, { requestId, outcome, ...(values && { values }) }),
    deny: ({ requestId, note }) => deputy().approvals.deny(requestId, note),
    diff: ({ requestId }) => deputy().approvals.openDiff(requestId),
    place: ({ requestId }) => deputy().approvals.show(requestId),
    cancelAgent: onAgent("deputy.agent.cancel"),
    openTranscript: onAgent("deputy.agent.open"),
    revert: onAgent("deputy.agent.revert"),
    steer: onAgent("deputy.agent.steer"),
    transcript: ({ agentId }, page) => page.sessionId && deputy().sessions.fetchTranscript(page.sessionId, agentId),
    earlier: ({ agentId }, page) => page.sessionId && deputy().sessions.fetchEarlier(page.sessionId, agentId),
    output: ({ agentId, toolCallId }, page) => openOutput(deputy(), { agentId, toolCallId }, page),
    message: ({ agentId, messageId }, page) => openMessage(deputy(), agentId, messageId, page),
    unqueue: ({ promptId }, { sessionId = "" }) => {
      const queued = deputy().sessions.get(sessionId)?.queue ?? [];
      return unqueue(
        deputy(),
        sessionId,
        queued.filter((entry) => entry.promptId === promptId),
      );
    },
    openChange: ({ uri }) => command("deputy.changes.open", uri),
    keepFile: ({ uri }) => command("deputy.changes.keepFile", uri),
    undoFile: ({ uri }) => command("deputy.changes.undoFile", uri),
    reviewAll: () => command("deputy.changes.review"),
    keepAll: () => command("deputy.changes.keepAll"),
    undoAll: () => command("deputy.changes.undoAll"),
    sendComments: () => command("deputy.comments.send"),
    planRewind: ({ seq }, page) => sendPlan(deputy(), page, seq),
    rewind: ({ checkpointId, files, conversation }, { sessionId }) =>
      sessionId && rewind(deputy(), sessionId, checkpointId, { files, conversation }),
    fork: ({ checkpointId, text }, { sessionId }) => sessionId && fork(deputy(), sessionId, checkpointId, text),
    setting: ({ name }) => command("workbench.action.openSettings", `${SECTION}.${name}`),
    open: ({ uri, range }) => openPlace(vscode.Uri.parse(uri), range),
    copy: ({ text }) => vscode.env.clipboard.writeText(text),
    insert: ({ text }) => insert(text),
    theme: async ({ id }, page) => page.send({ type: "palette", colours: await paletteOf(id) }),
    path: ({ path, line }, page) => openPath(deputy(), path, line, page),
    attach: () => command("deputy.attach"),
    cancelTurn: () => command("deputy.cancel"),
    newSession: () => command("deputy.session.new"),
    pickMode: () => command("deputy.setMode"),
    pickModel: () => command("deputy.setModel"),
    refresh: () => deputy().sessions.refresh(),
    continue: () => command("deputy.continue"),
    start: () => deputy().server.start(),
    install: () => installServer(deputy(), deputy().setup.state.tool),
    cancelInstall: () => deputy().setup.cancel(),
    check: () => deputy().server.start(),
    serverSettings: () => command("workbench.action.openSettings", deputy().server.problem?.setting ?? "deputy.server"),
    setApiKey: () => command("deputy.setApiKey"),
    showLog: () => command("deputy.showLog"),
    trust: () => command("workbench.trust.manage"),
    openFolder: () => command("vscode.openFolder"),
  };
  return async (message, page) => {
    const act = acts[message.type] as ((message: FromPage, page: Page) => unknown) | undefined;
    try {
      await act?.(message, page);
    } catch (error) {
      void explain(error, deputy().server);
    }
  };
}

/** Sends completions of a prompt to the page. Errors are only logged. */
async function complete({ server, sessions }: Deputy, text: string, page: Page): Promise<void> {
  try {
    // Do not ask for a folder while the user types.
    if (!sessions.current && vscode.workspace.workspaceFolders?.length !== 1) return;
    await server.start();
    if (!server.has("deputy/context/complete")) return;
    const { sessionId } = await sessions.present();
    const answer = await server.request("deputy/context/complete", { sessionId, text });
    page.send({ type: "completions", text, answer });
  } catch (error) {
    server.log.warn(String(error));
  }
}

/** Answers a question. One that asks to open a page opens it, now that the user has agreed. */
async function answerInput(
  { server, sessions }: Deputy,
  sessionId: string | undefined,
  answer: InputAnswerParams,
): Promise<void> {
  const url = sessions.get(sessionId ?? "")?.inputs[answer.requestId]?.url;
  const { accepted } = await server.request("deputy/input/answer", answer);
  if (!accepted) vscode.window.setStatusBarMessage("$(info) That question is already answered.", 4000);
  else if (url !== undefined && answer.outcome === "accepted")
    await vscode.env.openExternal(vscode.Uri.parse(url, true));
}

async function openOutput(
  { server }: Deputy,
  call: { readonly agentId: string; readonly toolCallId: string },
  { sessionId }: Page,
): Promise<void> {
  if (sessionId === undefined) return;
  const { text } = await server.request("deputy/agent/output", { sessionId, ...call });
  await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ content: text }));
}

async function openMessage({ sessions }: Deputy, agentId: string, messageId: string, page: Page): Promise<void> {
  const entries = sessions.get(page.sessionId ?? "")?.entries[agentId] ?? [];
  const message = entries.find((entry) => entry.type === "message" && entry.messageId === messageId);
  if (message?.type !== "message") return;
  const document = await vscode.workspace.openTextDocument({ content: message.text, language: "markdown" });
  await vscode.window.showTextDocument(document);
}

/** Inserts code at the cursor, or instead of what is selected. */
async function insert(text: string): Promise<void> {
  const editor = vscode.window.activeTextEditor ?? vscode.window.visibleTextEditors[0];
  if (!editor) {
    void vscode.window.showInformationMessage("Open a file first. The code is inserted at its cursor.");
    return;
  }
  await editor.edit((edit) => editor.selections.forEach((selection) => edit.replace(selection, text)));
  await vscode.window.showTextDocument(editor.document, editor.viewColumn);
}

async function openPlace(uri: vscode.Uri, range?: Range): Promise<void> {
  if (uri.scheme !== "file") return;
  const selection = range && spanOf(range);
  await vscode.window.showTextDocument(uri, { preview: true, ...(selection && { selection }) });
}

/** Opens a path from an agent's text, if it is in the workspace. */
async function openPath({ sessions }: Deputy, path: string, line: number | undefined, page: Page): Promise<void> {
  const cwd = sessions.get(page.sessionId ?? "")?.info?.cwd;
  const base = cwd ? vscode.Uri.parse(cwd) : vscode.workspace.workspaceFolders?.[0]?.uri;
  if (!base) return;
  const uri = path.startsWith("/") ? vscode.Uri.file(path) : vscode.Uri.joinPath(base, path);
  if (!vscode.workspace.getWorkspaceFolder(uri)) return;
  const at = line === undefined ? undefined : { line: Math.max(0, line - 1), character: 0 };
  await openPlace(uri, at && { start: at, end: at });
}
