/** Commands that answer questions, or go to them. */
import * as vscode from "vscode";

import { optionOf } from "../questions.ts";
import { briefTitle, isDiff, isSeenByTitle } from "../state/proposal.ts";
import { iconless, nameOf } from "../state/words.ts";
import type { InboxItem } from "../views/inbox.ts";
import type { CommandTable, Deputy } from "./deputy.ts";

/** What a question's command is called with: by a link, the inbox, a thread, a thread's reply box, or an editor's title. */
type Which = string | InboxItem | vscode.CommentThread | vscode.CommentReply | vscode.Uri | undefined;

export function questionCommands({ questions, proposals, approvals, threads, sessions, chat }: Deputy): CommandTable {
  /** The question that was named; empty when it is settled. */
  const named = (which: NonNullable<Which>): string => {
    if (typeof which === "string") return which;
    if (which instanceof vscode.Uri) return proposals.request(which)?.requestId ?? "";
    if ("kind" in which) return which.kind === "question" ? which.requestId : "";
    return threads.requestId("thread" in which ? which.thread : which) ?? "";
  };
  /** The question that the editor with the focus is about: its proposal, or the file that it would change. */
  const here = (): string | undefined => {
    const shown = vscode.window.activeTextEditor?.document.uri;
    const at = questions.list().find((request) => isDiff(request) && request.preview.uri === shown?.toString());
    return (shown && proposals.request(shown)?.requestId) ?? at?.requestId;
  };
  /** Asks which question is meant; none when the user picks none. */
  const pick = async (): Promise<string | undefined> => {
    const items = questions.list().map((request) => ({
      label: iconless(briefTitle(request)),
      description: iconless(nameOf(request.agent)),
      requestId: request.requestId,
    }));
    const title = items.length ? "Which question?" : "Nothing waits for you";
    return (await vscode.window.showQuickPick(items, { title }))?.requestId;
  };
  /** An answer reaches the question that it names, or whose proposal has the focus; no other one is meant by it. */
  const answering = (run: (requestId: string) => unknown) => async (which?: Which) => {
    const shown = vscode.window.activeTextEditor?.document.uri;
    const id = which === undefined ? (shown && named(shown)) || (await pick()) : named(which);
    return id === undefined ? undefined : run(id);
  };
  const lookingAt = (run: (requestId: string) => unknown) => async (which?: Which) => {
    const id = which === undefined ? (here() ?? (await pick())) : named(which);
    return id === undefined ? undefined : run(id);
  };
  /** Yes to what has to be looked at first leads there. */
  const approving = (run: (requestId: string) => unknown) =>
    answering((id) => {
      const request = questions.get(id);
      return !request || isSeenByTitle(request) ? run(id) : vscode.commands.executeCommand("deputy.question.show", id);
    });
  const ofAgent = (allow: boolean) => (item?: InboxItem) =>
    item?.kind === "agent"
      ? approvals.answerAgent(item.agentId, allow)
      : vscode.commands.executeCommand("deputy.questions.focus");
  return {
    "deputy.question.approve": approving((id) => approvals.approve(id)),
    "deputy.question.approveAlways": approving((id) => {
      const option = optionOf(questions.get(id), "allow_always");
      return option && approvals.choose(id, option);
    }),
    "deputy.question.deny": answering((id) => approvals.deny(id)),
    "deputy.question.denyWithReason": answering((id) => approvals.denyWithReason(id)),
    "deputy.question.denyWithNote": (reply: vscode.CommentReply) => approvals.deny(named(reply), reply.text),
    "deputy.question.openDiff": lookingAt((id) => approvals.openDiff(id)),
    "deputy.question.openBatch": lookingAt((id) => approvals.openBatch(id)),
    "deputy.question.rejectHunk": (uri: vscode.Uri, index: number) => approvals.rejectHunk(uri, index),
    "deputy.question.show": lookingAt(async (id) => {
      const request = questions.get(id);
      if (!request || isDiff(request)) return approvals.show(id);
      if (request.sessionId !== sessions.current?.sessionId) await sessions.open(request.sessionId);
      return chat.show(id);
    }),
    "deputy.question.next": () => {
      const all = questions.list().map(({ requestId }) => requestId);
      const next = all[(all.indexOf(here() ?? "") + 1) % Math.max(1, all.length)];
      return next === undefined ? undefined : vscode.commands.executeCommand("deputy.question.show", next);
    },
    "deputy.inbox.approveAgent": ofAgent(true),
    "deputy.inbox.denyAgent": ofAgent(false),
  };
}
