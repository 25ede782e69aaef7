/** Commands that answer permission requests, or go to them. */
import * as vscode from "vscode";

import { optionOf } from "../requests.ts";
import { briefTitle, isDiff, isSeenByTitle, rulesToList } from "../state/proposal.ts";
import { iconless, nameOf } from "../state/text.ts";
import type { InboxItem } from "../views/inbox.ts";
import { Cursor } from "./cursor.ts";
import type { CommandTable, Deputy } from "./deputy.ts";

/** The argument of a request's command: from a link, the inbox, a thread, its reply box, or an editor's title. */
type Which = string | InboxItem | vscode.CommentThread | vscode.CommentReply | vscode.Uri | undefined;

export function approvalCommands({ requests, proposals, approvals, threads, sessions, chat }: Deputy): CommandTable {
  /** The id of the given request; empty if it is settled. */
  const named = (which: NonNullable<Which>): string => {
    if (typeof which === "string") return which;
    if (which instanceof vscode.Uri) return proposals.request(which)?.requestId ?? "";
    if (isRow(which)) return which.kind === "request" ? which.requestId : "";
    return threads.requestId("thread" in which ? which.thread : which) ?? "";
  };
  const cursor = new Cursor({ requests, proposals, threads });
  /** Asks the user to pick a request. */
  const pick = async (): Promise<string | undefined> => {
    const items = requests.list().map((request) => ({
      label: iconless(briefTitle(request)),
      description: iconless(nameOf(request.agent)),
      requestId: request.requestId,
    }));
    const title = items.length ? "Select an approval" : "No open approvals";
    return (await vscode.window.showQuickPick(items, { title }))?.requestId;
  };
  /**
   * An answer applies to the given request, or to the one whose proposal has the focus or to which keys went last, and
   * to no other.
   */
  const answering = (run: (requestId: string) => unknown) => async (which?: Which) => {
    const shown = vscode.window.activeTextEditor?.document.uri;
    const inFocus = shown && proposals.request(shown)?.requestId;
    const id = which === undefined ? (cursor.answerable(inFocus) ?? (await pick())) : named(which);
    if (id === undefined) return;
    const isInDiff = !isRow(which) && inFocus !== undefined;
    await run(id);
    if (!isInDiff) return;
    // The editor with the focus is closed: focus the one below.
    await approvals.closing;
    await vscode.commands.executeCommand("workbench.action.focusActiveEditorGroup");
  };
  const lookingAt = (run: (requestId: string) => unknown) => async (which?: Which) => {
    const id = which === undefined ? (cursor.change ?? (await pick())) : named(which);
    return id === undefined ? undefined : run(id);
  };
  /** Approves a request that is visible; otherwise shows it first. */
  const approving =
    (run: (requestId: string) => unknown) =>
    (which?: Which): Promise<unknown> =>
      answering((id) => {
        const request = requests.get(id);
        const isSeen = !request || (isRow(which) ? isDiff(request) : isSeenByTitle(request));
        return isSeen ? run(id) : vscode.commands.executeCommand("deputy.question.show", id);
      })(which);
  const ofAgent = (run: (agentId: string) => Promise<void>) => (item?: InboxItem) =>
    item?.kind === "agent" ? run(item.agentId) : vscode.commands.executeCommand("deputy.questions.focus");
  return {
    "deputy.question.approve": approving((id) => approvals.approve(id)),
    "deputy.question.approveAlways": approving((id) => {
      const [request, option] = [requests.get(id), optionOf(requests.get(id), "allow_always")];
      if (!request || !option) return undefined;
      return rulesToList(request, option).length === 0 ? approvals.choose(id, option) : chat.show(id);
    }),
    "deputy.question.deny": answering((id) => approvals.deny(id)),
    "deputy.question.denyWithReason": answering((id) => approvals.denyWithReason(id)),
    "deputy.question.denyWithNote": async (reply: vscode.CommentReply) => {
      await approvals.deny(named(reply), reply.text);
      // The box with the focus closes with its request.
      await vscode.commands.executeCommand("workbench.action.focusActiveEditorGroup");
    },
    "deputy.question.openDiff": lookingAt((id) => approvals.openDiff(id)),
    "deputy.question.openBatch": lookingAt((id) => approvals.openBatch(id)),
    "deputy.question.rejectHunk": (uri: vscode.Uri, index: number) => approvals.rejectHunk(uri, index),
    "deputy.question.show": lookingAt(async (id) => {
      const request = requests.get(id);
      if (request && request.sessionId !== sessions.current?.sessionId) await sessions.open(request.sessionId);
      return !request || isDiff(request) ? approvals.show(id) : chat.show(id);
    }),
    "deputy.question.next": async () => {
      const { next } = cursor;
      if (next === undefined) return;
      await vscode.commands.executeCommand("deputy.question.show", next);
      cursor.visit(next);
    },
    "deputy.input.show": async ({ requestId, sessionId }: { requestId: string; sessionId: string }) => {
      if (sessionId !== sessions.current?.sessionId) await sessions.open(sessionId);
      await chat.show(requestId);
    },
    "deputy.inbox.approveAgent": ofAgent((agentId) => approvals.approveAgent(agentId)),
    "deputy.inbox.approveEdits": ofAgent((agentId) => approvals.approveEdits(agentId)),
    "deputy.inbox.denyAgent": ofAgent((agentId) => approvals.denyAgent(agentId)),
  };
}

/** Whether a command was called from a row, where the text may be cut. */
function isRow(which: Which): which is InboxItem {
  return typeof which === "object" && "kind" in which;
}
