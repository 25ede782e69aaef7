/** Commands that answer questions, or go to them. */
import * as vscode from "vscode";

import { optionOf } from "../questions.ts";
import { isDiff } from "../state/proposal.ts";
import type { InboxItem } from "../views/inbox.ts";
import type { CommandTable, Deputy } from "./deputy.ts";

/** What a question's command is called with: by a link, the inbox, a thread, a thread's reply box, or an editor's title. */
type Which = string | InboxItem | vscode.CommentThread | vscode.CommentReply | vscode.Uri | undefined;

export function questionCommands({ questions, proposals, approvals, threads, chat }: Deputy): CommandTable {
  const idOf = (which: Which): string => {
    if (typeof which === "string") return which;
    if (which instanceof vscode.Uri) return proposals.request(which)?.requestId ?? "";
    if (which && "kind" in which) return which.kind === "question" ? which.requestId : "";
    if (which) return threads.requestId("thread" in which ? which.thread : which) ?? "";
    return here() ?? questions.list()[0]?.requestId ?? "";
  };
  /** The question that the editor with the focus is about: its proposal, or the file that it would change. */
  const here = (): string | undefined => {
    const shown = vscode.window.activeTextEditor?.document.uri;
    const at = questions.list().find((request) => isDiff(request) && request.preview.uri === shown?.toString());
    return (shown && proposals.request(shown)?.requestId) ?? at?.requestId;
  };
  const on = (run: (requestId: string) => unknown) => (which?: Which) => run(idOf(which));
  const about = (item: InboxItem | undefined): string =>
    item?.kind === "agent" ? item.agentId : (questions.list()[0]?.agent.agentId ?? "");
  return {
    "deputy.question.approve": on((id) => approvals.approve(id)),
    "deputy.question.approveAlways": on((id) => {
      const option = optionOf(questions.get(id), "allow_always");
      return option && approvals.choose(id, option);
    }),
    "deputy.question.deny": on((id) => approvals.deny(id)),
    "deputy.question.denyWithReason": on((id) => approvals.denyWithReason(id)),
    "deputy.question.denyWithNote": (reply: vscode.CommentReply) => approvals.deny(idOf(reply), reply.text),
    "deputy.question.openDiff": on((id) => approvals.openDiff(id)),
    "deputy.question.openBatch": on((id) => approvals.openBatch(id)),
    "deputy.question.rejectHunk": (uri: vscode.Uri, index: number) => approvals.rejectHunk(uri, index),
    "deputy.question.show": on((id) => {
      const request = questions.get(id);
      return request && !isDiff(request) ? chat.show(id) : approvals.show(id);
    }),
    "deputy.question.next": () => {
      const all = questions.list().map(({ requestId }) => requestId);
      const next = all[(all.indexOf(here() ?? "") + 1) % Math.max(1, all.length)];
      return next === undefined ? undefined : vscode.commands.executeCommand("deputy.question.show", next);
    },
    "deputy.inbox.approveAgent": (item?: InboxItem) => approvals.answerAgent(about(item), true),
    "deputy.inbox.denyAgent": (item?: InboxItem) => approvals.answerAgent(about(item), false),
  };
}
