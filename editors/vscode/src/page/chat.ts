/** The chat in the side bar, and transcripts of agents in editor tabs. */
import * as vscode from "vscode";

import type { AgentItem } from "../views/agents.ts";
import type { Mention, Unsent } from "./messages.ts";
import { type Context, Page } from "./page.ts";
import { oneLine } from "../state/text.ts";

export class Chat implements vscode.WebviewViewProvider, vscode.Disposable {
  readonly #context: Context;
  readonly #registration: vscode.Disposable;
  #page: Page | undefined;
  #pending: { mentions: readonly Mention[]; text?: string }[] = [];

  constructor(context: Context) {
    this.#context = context;
    this.#registration = vscode.window.registerWebviewViewProvider("deputy.chat", this);
  }

  resolveWebviewView(view: vscode.WebviewView): void {
    const page = new Page(this.#context, view.webview);
    this.#page = page;
    view.onDidChangeVisibility(() => !view.visible && page.hide());
    view.onDidDispose(() => {
      page.dispose();
      this.#page = undefined;
    });
    for (const mention of this.#pending.splice(0)) page.send({ type: "mention", ...mention });
  }

  /** Shows the chat and adds files or ranges to the prompt. */
  async mention(mentions: readonly Mention[], text?: string): Promise<void> {
    const message = { mentions, ...(text !== undefined && { text }) };
    if (this.#page) this.#page.send({ type: "mention", ...message });
    else this.#pending.push(message);
    await vscode.commands.executeCommand("deputy.chat.focus");
  }

  /** Puts a removed prompt back into the box. */
  restore(prompt: Unsent): void {
    this.#page?.send({ type: "unsent", ...prompt });
  }

  /** Shows the chat at a permission request. */
  async show(requestId: string): Promise<void> {
    await vscode.commands.executeCommand("deputy.chat.focus");
    this.#page?.send({ type: "show", requestId });
  }

  dispose(): void {
    this.#registration.dispose();
    this.#page?.dispose();
  }
}

export class TranscriptPanels implements vscode.Disposable {
  readonly #context: Context;
  readonly #panels = new Map<string, vscode.WebviewPanel>();

  constructor(context: Context) {
    this.#context = context;
  }

  /** Opens the read-only transcript of an agent beside the code. */
  async open({ sessionId, agentId }: AgentItem): Promise<void> {
    const key = `${sessionId}/${agentId}`;
    const present = this.#panels.get(key);
    if (present) {
      present.reveal();
      return;
    }
    const agent = this.#context.sessions.get(sessionId)?.agents[agentId];
    const title = agent ? oneLine(agent.label, 40) : "Transcript";
    const panel = vscode.window.createWebviewPanel("deputy.transcript", title, vscode.ViewColumn.Active, {
      enableFindWidget: true,
    });
    const page = new Page(this.#context, panel.webview, { sessionId, agentId });
    this.#panels.set(key, panel);
    panel.onDidChangeViewState(() => !panel.visible && page.hide());
    panel.onDidDispose(() => {
      page.dispose();
      this.#panels.delete(key);
    });
    await this.#context.sessions.fetchTranscript(sessionId, agentId);
  }

  dispose(): void {
    for (const panel of this.#panels.values()) panel.dispose();
  }
}
