/** The entry point: creates the parts of the extension and connects them. */
import * as vscode from "vscode";

import { Approvals } from "./approval/approvals.ts";
import { Diffs } from "./approval/diffs.ts";
import { Lenses } from "./approval/lenses.ts";
import { Notice } from "./approval/notice.ts";
import { Outcomes } from "./approval/outcomes.ts";
import { questioned } from "./approval/questions.ts";
import { Proposals } from "./approval/proposals.ts";
import { Staleness } from "./approval/staleness.ts";
import { Threads } from "./approval/threads.ts";
import { agentCommands } from "./commands/agents.ts";
import { askCommands } from "./commands/ask.ts";
import { commanded, type Deputy, explained } from "./commands/deputy.ts";
import { approvalCommands } from "./commands/approvals.ts";
import { pageActs } from "./commands/page.ts";
import { reviewCommands } from "./commands/review.ts";
import { rewindCommands } from "./commands/rewind.ts";
import { serverCommands } from "./commands/server.ts";
import { sessionCommands } from "./commands/sessions.ts";
import { Actions } from "./editor.ts";
import { IgnoredSettings } from "./ignored.ts";
import { Setup } from "./install/setup.ts";
import * as language from "./language.ts";
import { Chat, TranscriptPanels } from "./page/chat.ts";
import { OpenRequests } from "./requests.ts";
import { Bases } from "./review/bases.ts";
import { Changes } from "./review/changes.ts";
import { ReviewComments } from "./review/comments.ts";
import { ReviewDiffs } from "./review/diffs.ts";
import { ReviewLenses } from "./review/lenses.ts";
import { Marks } from "./review/marks.ts";
import { Rewinds, unsent } from "./review/rewinds.ts";
import { ApiKey } from "./secret.ts";
import { type Handlers, Server } from "./server.ts";
import { Sessions } from "./sessions.ts";
import { SECTION } from "./settings.ts";
import { StatusItem } from "./status.ts";
import { AgentsTree } from "./views/agents.ts";
import { Definitions } from "./views/definitions.ts";
import { History } from "./views/history.ts";
import { Inbox } from "./views/inbox.ts";

let running: Server | undefined;

/** Returns the parts only in tests: other extensions could use them to read the key or approve requests. */
export function activate(context: vscode.ExtensionContext): Deputy | undefined {
  const keep = <T extends vscode.Disposable>(part: T): T => {
    context.subscriptions.push(part);
    return part;
  };
  const key = new ApiKey(context.secrets);
  const requests = keep(new OpenRequests());
  const log = keep(vscode.window.createOutputChannel("Deputy", { log: true }));
  const setup = keep(new Setup(context, log));
  const permission: Handlers["permission"] = (request, token) => requests.add(request, token);
  const server = keep(new Server(log, setup, key, { permission, input: questioned, language }));
  running = server;
  const sessions = keep(new Sessions(server, context.workspaceState));
  const proposals = keep(new Proposals(requests));
  const staleness = keep(new Staleness(requests, proposals));
  const changes = keep(new Changes(server, sessions));
  const comments = keep(new ReviewComments(changes));
  const { extensionUri } = context;
  const act = pageActs(() => deputy);
  const pages = { extensionUri, sessions, server, setup, proposals, staleness, changes, comments, act };
  const deputy: Deputy = {
    setup,
    server,
    key,
    sessions,
    requests,
    proposals,
    staleness,
    approvals: new Approvals(requests, proposals, staleness, keep(new Diffs(requests, proposals)), server),
    threads: keep(new Threads(requests, proposals, staleness)),
    changes,
    comments,
    reviewDiffs: keep(new ReviewDiffs(changes)),
    rewinds: new Rewinds(server, sessions),
    agents: keep(new AgentsTree(sessions, server)),
    inbox: keep(new Inbox(requests, sessions)),
    history: keep(new History(server, sessions)),
    status: keep(new StatusItem({ server, setup, sessions, requests })),
    sent: new Map(),
    chat: keep(new Chat(pages)),
    panels: keep(new TranscriptPanels(pages)),
  };
  keep(new Definitions(server));
  keep(new Lenses(requests, proposals, staleness));
  keep(new Bases(server, changes));
  keep(new Marks(changes));
  keep(new ReviewLenses(changes));
  keep(new Notice(requests));
  keep(new Outcomes(requests, server));
  keep(vscode.languages.registerCodeActionsProvider({ scheme: "file" }, new Actions()));
  const commands = {
    ...askCommands(deputy),
    ...agentCommands(deputy),
    ...approvalCommands(deputy),
    ...sessionCommands(deputy),
    ...serverCommands(deputy),
    ...reviewCommands(deputy),
    ...rewindCommands(deputy),
  };
  for (const [id, run] of Object.entries(commands)) keep(vscode.commands.registerCommand(id, commanded(server, run)));
  follow(deputy, keep);
  keep(new IgnoredSettings(context.workspaceState));
  return context.extensionMode === vscode.ExtensionMode.Test ? deputy : undefined;
}

/** The server ends with the editor. */
export async function deactivate(): Promise<void> {
  await running?.stop();
}

function follow(
  { setup, server, sessions, requests, key, chat }: Deputy,
  keep: (part: vscode.Disposable) => void,
): void {
  const restartForKey = explained(server, async () => {
    if (server.state !== "running") return;
    const message = "Restart Deputy's server to use the new key? Running agents will be stopped.";
    if (sessions.isAnyBusy && (await vscode.window.showInformationMessage(message, "Restart")) !== "Restart") return;
    await server.restart();
  });
  keep(key.onDidChange(() => void restartForKey()));
  const configure = explained(server, () => server.configure());
  const trust = explained(server, async () => {
    await server.configure();
    await sessions.refresh();
  });
  keep(vscode.workspace.onDidGrantWorkspaceTrust(() => void trust()));
  keep(
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration(SECTION)) void configure();
    }),
  );
  keep(
    server.onState((state) => {
      if (state !== "running") requests.clear();
    }),
  );
  keep(sessions.onDidGoBack((prompt) => chat.restore(unsent(prompt))));
  followSteps(server, keep);
  void setup.check();
  void explained(server, () => sessions.restore())();
}

/**
 * Completes the walkthrough's step about the server. A context key completes a step only when it becomes true while the
 * walkthrough is open, so it is toggled. The API reports the walkthrough as a tab without an input.
 */
function followSteps(server: Server, keep: (part: vscode.Disposable) => void): void {
  const tick = async (): Promise<void> => {
    if (server.state !== "running") return;
    for (const holds of [true, false]) await vscode.commands.executeCommand("setContext", "deputy.ready", holds);
  };
  keep(server.onState(() => void tick()));
  keep(vscode.window.tabGroups.onDidChangeTabs(({ opened }) => opened.some(({ input }) => !input) && void tick()));
}
