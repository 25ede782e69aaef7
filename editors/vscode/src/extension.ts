/** Puts the parts of the extension together. */
import * as vscode from "vscode";

import { Approvals } from "./approval/approvals.ts";
import { Diffs } from "./approval/diffs.ts";
import { Lenses } from "./approval/lenses.ts";
import { Notice } from "./approval/notice.ts";
import { Outcomes } from "./approval/outcomes.ts";
import { Proposals } from "./approval/proposals.ts";
import { Staleness } from "./approval/staleness.ts";
import { Threads } from "./approval/threads.ts";
import { agentCommands } from "./commands/agents.ts";
import { askCommands } from "./commands/ask.ts";
import { type Deputy, explained } from "./commands/deputy.ts";
import { pageActs } from "./commands/page.ts";
import { questionCommands } from "./commands/questions.ts";
import { sessionCommands } from "./commands/sessions.ts";
import { Actions } from "./editor.ts";
import * as language from "./language.ts";
import { Chat, ThreadPanels } from "./page/chat.ts";
import { Questions } from "./questions.ts";
import { ApiKey } from "./secret.ts";
import { Server } from "./server.ts";
import { Sessions } from "./sessions.ts";
import { SECTION } from "./settings.ts";
import { StatusItem } from "./status.ts";
import { AgentsTree } from "./views/agents.ts";
import { Definitions } from "./views/definitions.ts";
import { History } from "./views/history.ts";
import { Inbox } from "./views/inbox.ts";

let running: Server | undefined;

/** The parts are for tests alone: with them another extension could read the key, or say yes to a question. */
export function activate(context: vscode.ExtensionContext): Deputy | undefined {
  const keep = <T extends vscode.Disposable>(part: T): T => {
    context.subscriptions.push(part);
    return part;
  };
  const key = new ApiKey(context.secrets);
  const questions = keep(new Questions());
  const server = keep(new Server(key, { question: (request, token) => questions.ask(request, token), language }));
  running = server;
  const sessions = keep(new Sessions(server, context.workspaceState));
  const proposals = keep(new Proposals(questions));
  const staleness = keep(new Staleness(questions, proposals));
  const { extensionUri } = context;
  const pages = { extensionUri, sessions, server, proposals, staleness, act: pageActs(() => deputy) };
  const deputy: Deputy = {
    server,
    key,
    sessions,
    questions,
    proposals,
    staleness,
    approvals: new Approvals(questions, proposals, staleness, keep(new Diffs(questions, proposals))),
    threads: keep(new Threads(questions, proposals, staleness)),
    agents: keep(new AgentsTree(sessions, server)),
    inbox: keep(new Inbox(questions, sessions)),
    history: keep(new History(server, sessions)),
    status: keep(new StatusItem(server, sessions, questions)),
    sent: new Map(),
    chat: keep(new Chat(pages)),
    panels: keep(new ThreadPanels(pages)),
  };
  keep(new Definitions(server));
  keep(new Lenses(questions, proposals, staleness));
  keep(new Notice(questions));
  keep(new Outcomes(questions, server));
  keep(vscode.languages.registerCodeActionsProvider({ scheme: "file" }, new Actions()));
  const commands = {
    ...askCommands(deputy),
    ...agentCommands(deputy),
    ...questionCommands(deputy),
    ...sessionCommands(deputy),
  };
  for (const [id, run] of Object.entries(commands)) keep(vscode.commands.registerCommand(id, explained(server, run)));
  follow(deputy, keep);
  return context.extensionMode === vscode.ExtensionMode.Test ? deputy : undefined;
}

/** The server ends with the editor. */
export async function deactivate(): Promise<void> {
  await running?.stop();
}

function follow({ server, sessions, questions, key }: Deputy, keep: (part: vscode.Disposable) => void): void {
  const renew = explained(server, async () => {
    if (server.state !== "running") return;
    const words = "The key is used once Deputy's server has been restarted. Agents work.";
    if (sessions.isAnyBusy && (await vscode.window.showInformationMessage(words, "Restart")) !== "Restart") return;
    await server.restart();
  });
  keep(key.onDidChange(() => void renew()));
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
      if (state !== "running") questions.clear();
    }),
  );
  followSteps(server, keep);
  void explained(server, () => sessions.restore())();
}

/**
 * Ticks the step of the walkthrough that is about the server. A context ticks a step when it comes to hold while the
 * walkthrough shows, and never if it held before; that page is a tab of no known kind.
 */
function followSteps(server: Server, keep: (part: vscode.Disposable) => void): void {
  const tick = async (): Promise<void> => {
    if (server.state !== "running") return;
    for (const holds of [true, false]) await vscode.commands.executeCommand("setContext", "deputy.ready", holds);
  };
  keep(server.onState(() => void tick()));
  keep(vscode.window.tabGroups.onDidChangeTabs(({ opened }) => opened.some(({ input }) => !input) && void tick()));
}
