/** The parts of the extension that commands use. */
import * as vscode from "vscode";

import type { Approvals } from "../approval/approvals.ts";
import type { Proposals } from "../approval/proposals.ts";
import type { Staleness } from "../approval/staleness.ts";
import type { Threads } from "../approval/threads.ts";
import type { Chat, TranscriptPanels } from "../page/chat.ts";
import type { Prompt } from "../page/messages.ts";
import type { OpenRequests } from "../requests.ts";
import type { Changes } from "../review/changes.ts";
import type { ReviewComments } from "../review/comments.ts";
import type { ReviewDiffs } from "../review/diffs.ts";
import type { Rewinds } from "../review/rewinds.ts";
import type { ApiKey } from "../secret.ts";
import type { Setup } from "../install/setup.ts";
import { explain, isShownInChat, type Server } from "../server.ts";
import type { Sessions } from "../sessions.ts";
import type { StatusItem } from "../status.ts";
import type { AgentsTree } from "../views/agents.ts";
import type { History } from "../views/history.ts";
import type { Inbox } from "../views/inbox.ts";

export interface Deputy {
  readonly setup: Setup;
  readonly server: Server;
  readonly key: ApiKey;
  readonly sessions: Sessions;
  readonly requests: OpenRequests;
  readonly proposals: Proposals;
  readonly staleness: Staleness;
  readonly approvals: Approvals;
  readonly threads: Threads;
  readonly changes: Changes;
  readonly comments: ReviewComments;
  readonly reviewDiffs: ReviewDiffs;
  readonly rewinds: Rewinds;
  readonly agents: AgentsTree;
  readonly inbox: Inbox;
  readonly history: History;
  readonly status: StatusItem;
  /** Queued and running prompts as written, in the order of sending, with their sessions. */
  readonly sent: Map<Prompt, string>;
  readonly chat: Chat;
  readonly panels: TranscriptPanels;
}

/** Commands by id; errors that they throw are shown to the user. */
export type CommandTable = Readonly<Record<string, (...args: never[]) => unknown>>;

export function explained(server: Server, run: (...args: never[]) => unknown): (...args: never[]) => Promise<unknown> {
  return async (...args) => {
    try {
      return await run(...args);
    } catch (error) {
      void explain(error, server);
      return undefined;
    }
  };
}

/** Like {@link explained}, for the user's commands: also shows the chat if it has the error. */
export function commanded(server: Server, run: (...args: never[]) => unknown): (...args: never[]) => Promise<unknown> {
  return explained(server, async (...args) => {
    try {
      return await run(...args);
    } catch (error) {
      if (isShownInChat(error)) await vscode.commands.executeCommand("deputy.chat.focus");
      throw error;
    }
  });
}
