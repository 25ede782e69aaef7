/** The tree view of the session's agents: the primary, and below it its sub-agents by start. */
import * as vscode from "vscode";

import type { Server } from "../server.ts";
import type { Sessions } from "../sessions.ts";
import { activityOf } from "../state/calls.ts";
import { type AgentView, childrenOf, clockOf, countsOf, hasNotEnded, type SessionState } from "../state/session.ts";
import { brief, calls, cost, modelOf, oneLine, ownModelOf, reasonOf, runTime, signOf, tokens } from "../state/text.ts";
import { Paced } from "./paced.ts";

/** An agent in the tree: the argument of its row's commands. */
export interface AgentItem {
  readonly sessionId: string;
  readonly agentId: string;
}

/** Maximum characters of a label, so that time and state fit after it in a side bar of 300 pixels. */
const MAX_LABEL = 20;
/**
 * Milliseconds between two refreshes. The editor redraws a tree 200 ms after the last refresh: with shorter intervals, it
 * would never do so.
 */
const INTERVAL = 400;
const COLOURS: Readonly<Record<string, string>> = {
  completed: "testing.iconPassed",
  failed: "testing.iconFailed",
  "waiting for you": "charts.yellow",
  running: "charts.blue",
};

export class AgentsTree implements vscode.TreeDataProvider<AgentItem>, vscode.Disposable {
  readonly #sessions: Sessions;
  readonly #server: Server;
  readonly #changes = new vscode.EventEmitter<AgentItem | AgentItem[] | undefined>();
  readonly #paced: Paced;
  readonly #items = new Map<string, AgentItem>();
  #drawn: { readonly sessionId: string | undefined; readonly rows: ReadonlyMap<string, string> } = {
    sessionId: undefined,
    rows: new Map(),
  };
  readonly #subscriptions: vscode.Disposable[];
  readonly view: vscode.TreeView<AgentItem>;
  readonly onDidChangeTreeData = this.#changes.event;

  constructor(sessions: Sessions, server: Server) {
    this.#sessions = sessions;
    this.#server = server;
    this.#paced = new Paced(() => this.#refresh(), INTERVAL);
    this.view = vscode.window.createTreeView("deputy.agents", { treeDataProvider: this, showCollapseAll: true });
    this.#subscriptions = [
      sessions.onDidChange(() => this.#paced.call()),
      sessions.onDidShow(() => this.#paced.call()),
      server.onState(() => this.#paced.call()),
    ];
  }

  getChildren(item?: AgentItem): AgentItem[] {
    const state = this.#sessions.current;
    if (!state) return [];
    return childrenOf(state, item?.agentId).map((agent) => this.#item(state.sessionId, agent.agentId));
  }

  getParent(item: AgentItem): AgentItem | undefined {
    const parentId = this.#sessions.get(item.sessionId)?.agents[item.agentId]?.parentAgentId;
    return parentId === undefined ? undefined : this.#item(item.sessionId, parentId);
  }

  getTreeItem(item: AgentItem): vscode.TreeItem {
    const state = this.#sessions.get(item.sessionId);
    const agent = state?.agents[item.agentId];
    if (!state || !agent) return new vscode.TreeItem("");
    const isPrimary = agent.parentAgentId === undefined;
    const sign = signOf(agent);
    const row = new vscode.TreeItem(isPrimary ? "Deputy" : brief(agent.label, MAX_LABEL));
    row.description = describe(agent, clockOf(state), ownModelOf(state, agent));
    const colour = COLOURS[sign.word];
    row.iconPath = new vscode.ThemeIcon(
      sign.spin && !state.snapshot ? `${sign.icon}~spin` : sign.icon,
      colour === undefined ? undefined : new vscode.ThemeColor(colour),
    );
    row.accessibilityInformation = {
      label: `${isPrimary ? "Deputy" : agent.label}, ${agent.definition}, ${sign.word}, ${row.description}`,
    };
    const isParent = childrenOf(state, agent.agentId).length > 0;
    row.collapsibleState = isParent ? vscode.TreeItemCollapsibleState.Expanded : vscode.TreeItemCollapsibleState.None;
    // The editor stores folds by this id; it changes when a row gets children, which then start unfolded.
    row.id = `${item.sessionId}/${item.agentId}${isParent ? "/parent" : ""}`;
    row.contextValue = state.snapshot ? "child" : this.#context(agent, isPrimary);
    row.command = {
      title: "Open Transcript",
      command: isPrimary ? "deputy.chat.focus" : "deputy.agent.open",
      arguments: isPrimary ? [] : [item],
    };
    return row;
  }

  resolveTreeItem(row: vscode.TreeItem, item: AgentItem): vscode.TreeItem {
    const agent = this.#sessions.get(item.sessionId)?.agents[item.agentId];
    if (agent) row.tooltip = tooltip(agent);
    return row;
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
    this.#paced.dispose();
    this.view.dispose();
    this.#changes.dispose();
  }

  #refresh(): void {
    const state = this.#sessions.current;
    const counts = state && countsOf(state);
    const queued = counts?.pending ? `, ${counts.pending} queued` : "";
    this.view.description = counts ? `${counts.running} running${queued}, ${counts.finished} finished` : "";
    // Without agents, the view's welcome content shows this.
    this.view.message = state && this.#server.state === "stopped" ? "Deputy's server is not running." : undefined;
    // Also while the view is hidden: the editor reads it when the view is shown.
    const changed = this.#changedRows(state);
    if (changed?.length !== 0) this.#changes.fire(changed);
    // Updates elapsed times when no events arrive.
    if (counts?.running && !state?.snapshot) this.#paced.callIn(1000);
  }

  /** The rows whose text or icon has changed; undefined for the whole tree, if there are other rows. */
  #changedRows(state: SessionState | undefined): AgentItem[] | undefined {
    const rows = new Map(
      Object.values(state?.agents ?? {}).map(({ agentId }) => [agentId, this.#textOf(state, agentId)]),
    );
    const before = this.#drawn;
    this.#drawn = { sessionId: state?.sessionId, rows };
    const isSame = before.sessionId === state?.sessionId && [...rows.keys()].join() === [...before.rows.keys()].join();
    if (!state || !isSame) return undefined;
    return [...rows]
      .filter(([agentId, text]) => before.rows.get(agentId) !== text)
      .map(([agentId]) => this.#item(state.sessionId, agentId));
  }

  /** What the editor draws of a row, for comparison. */
  #textOf(state: SessionState | undefined, agentId: string): string {
    if (!state) return "";
    const { label, description, iconPath, contextValue, id } = this.getTreeItem(this.#item(state.sessionId, agentId));
    return JSON.stringify([label, description, iconPath, contextValue, id]);
  }

  /** The editor identifies rows by reference, so each agent has one item. */
  #item(sessionId: string, agentId: string): AgentItem {
    const key = `${sessionId}/${agentId}`;
    const item = this.#items.get(key) ?? { sessionId, agentId };
    this.#items.set(key, item);
    return item;
  }

  #context(agent: AgentView, isPrimary: boolean): string {
    const state = hasNotEnded(agent) ? "running" : "ended";
    const mayHaveEdited = !hasNotEnded(agent) && agent.access !== "read_only";
    const revert = mayHaveEdited && this.#server.has("deputy/agent/revert") ? ".revert" : "";
    return `${isPrimary ? "primary" : "child"}.${state}${revert}`;
  }
}

/**
 * The agent's row without its name. The editor cuts the end, so the most important part is first: time, state or
 * failure, activity, calls, cost.
 */
function describe(agent: AgentView, now: number, model: string): string {
  const sign = signOf(agent);
  const isWaiting = sign.word === "waiting for you";
  const isChild = agent.parentAgentId !== undefined;
  return [
    isChild && agent.status !== "pending" ? runTime(agent, now) : "",
    isWaiting ? sign.word : reasonOf(agent),
    !isWaiting && hasNotEnded(agent) && agent.activity ? oneLine(activityOf(agent.activity), 60) : "",
    agent.toolCallCount ? calls(agent.toolCallCount) : "",
    tokens(agent.usage),
    cost(agent.usage),
    isChild ? agent.definition : "",
    model,
  ]
    .filter(Boolean)
    .join(" · ");
}

function tooltip(agent: AgentView): vscode.MarkdownString {
  const text = new vscode.MarkdownString();
  const state = reasonOf(agent) || signOf(agent).word;
  text.appendText(
    `${agent.label}\n${state}\n${agent.definition} · ${modelOf(agent)} · ${agent.access === "read_only" ? "read-only" : "can change files"}`,
  );
  if (agent.error) text.appendText(`\n\n${agent.error}`);
  if (agent.summary) text.appendText(`\n\n${oneLine(agent.summary, 500)}`);
  return text;
}

/** A one-line summary of the session, for the status bar. */
export function shownCounts(state: SessionState | undefined): ReturnType<typeof countsOf> {
  return state ? countsOf(state) : { pending: 0, running: 0, finished: 0, waiting: 0 };
}
