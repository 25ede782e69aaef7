/** The parts of the extension that commands use. */
import type { Approvals } from "../approval/approvals.ts";
import type { Proposals } from "../approval/proposals.ts";
import type { Staleness } from "../approval/staleness.ts";
import type { Threads } from "../approval/threads.ts";
import type { Chat, TranscriptPanels } from "../page/chat.ts";
import type { Prompt } from "../page/messages.ts";
import type { OpenRequests } from "../requests.ts";
import type { ApiKey } from "../secret.ts";
import { explain, type Server } from "../server.ts";
import type { Sessions } from "../sessions.ts";
import type { StatusItem } from "../status.ts";
import type { AgentsTree } from "../views/agents.ts";
import type { History } from "../views/history.ts";
import type { Inbox } from "../views/inbox.ts";

export interface Deputy {
  readonly server: Server;
  readonly key: ApiKey;
  readonly sessions: Sessions;
  readonly requests: OpenRequests;
  readonly proposals: Proposals;
  readonly staleness: Staleness;
  readonly approvals: Approvals;
  readonly threads: Threads;
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
