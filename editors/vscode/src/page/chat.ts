/** The chat in the side bar, and threads of agents in editor tabs. */
import * as vscode from "vscode";

import type { AgentItem } from "../views/agents.ts";
import type { Mention, Unsent } from "./messages.ts";
import { type Context, Page } from "./page.ts";
import { oneLine } from "../state/words.ts";

export class Chat implements vscode.WebviewViewProvider, vscode.Disposable {
  readonly #context: Context;
  readonly #registration: vscode.Disposable;
  #page: Page | undefined;
  #waiting: { mentions: readonly Mention[]; text?: string }[] = [];

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
    for (const mention of this.#waiting.splice(0)) page.send({ type: "mention", ...mention });
  }

  /** Shows the chat and puts files or passages into the prompt, ready to ask about. */
  async mention(mentions: readonly Mention[], text?: string): Promise<void> {
    const message = { mentions, ...(text !== undefined && { text }) };
    if (this.#page) this.#page.send({ type: "mention", ...message });
    else this.#waiting.push(message);
    await vscode.commands.executeCommand("deputy.chat.focus");
  }

  /** Puts a prompt that was sent back into the box. */
  takeBack(prompt: Unsent): void {
    this.#page?.send({ type: "unsent", ...prompt });
  }

  /** Shows the chat at a question. */
  async show(requestId: string): Promise<void> {
    await vscode.commands.executeCommand("deputy.chat.focus");
    this.#page?.send({ type: "show", requestId });
  }

  dispose(): void {
    this.#registration.dispose();
    this.#page?.dispose();
  }
}

export class ThreadPanels implements vscode.Disposable {
  readonly #context: Context;
  readonly #panels = new Map<string, vscode.WebviewPanel>();

  constructor(context: Context) {
    this.#context = context;
  }

  /** Opens the thread of an agent beside the code, to read. */
  async open({ sessionId, agentId }: AgentItem): Promise<void> {
    const key = `${sessionId}/${agentId}`;
    const present = this.#panels.get(key);
    if (present) {
      present.reveal();
      return;
    }
    const agent = this.#context.sessions.get(sessionId)?.agents[agentId];
    const title = agent ? oneLine(agent.label, 40) : "Thread";
    const panel = vscode.window.createWebviewPanel("deputy.thread", title, vscode.ViewColumn.Active, {
      enableFindWidget: true,
    });
    const page = new Page(this.#context, panel.webview, { sessionId, agentId });
    this.#panels.set(key, panel);
    panel.onDidChangeViewState(() => !panel.visible && page.hide());
    panel.onDidDispose(() => {
      page.dispose();
      this.#panels.delete(key);
    });
    await this.#context.sessions.transcribe(sessionId, agentId);
  }

  dispose(): void {
    for (const panel of this.#panels.values()) panel.dispose();
  }
}
