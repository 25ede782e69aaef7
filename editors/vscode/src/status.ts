/** The status bar item: counts of agents and open approvals. */
import * as vscode from "vscode";

import type { Card } from "./install/card.ts";
import type { Setup } from "./install/setup.ts";
import type { OpenRequests } from "./requests.ts";
import type { Server } from "./server.ts";
import type { Sessions } from "./sessions.ts";
import { countsOf, isBusy } from "./state/session.ts";
import { statusLine, waitingLine, workLine } from "./state/text.ts";
import { Paced } from "./views/paced.ts";

interface Sources {
  readonly server: Server;
  readonly setup: Setup;
  readonly sessions: Sessions;
  readonly requests: OpenRequests;
}

export class StatusItem implements vscode.Disposable {
  readonly #item: vscode.StatusBarItem;
  readonly #sources: Sources;
  readonly #paced = new Paced(() => this.#draw());
  readonly #subscriptions: vscode.Disposable[];

  constructor(sources: Sources) {
    this.#sources = sources;
    const { server, setup, sessions, requests } = sources;
    this.#item = vscode.window.createStatusBarItem("deputy.status", vscode.StatusBarAlignment.Left, 10);
    this.#item.name = "Deputy";
    const draw = (): void => this.#paced.call();
    this.#subscriptions = [
      sessions.onDidChange(draw),
      sessions.onDidShow(draw),
      server.onState(draw),
      setup.onDidChange(draw),
      requests.onDidChange(draw),
    ];
    this.#draw();
    this.#item.show();
  }

  /** The text of the item, for tests. */
  get text(): string {
    return this.#item.text;
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
    this.#paced.dispose();
    this.#item.dispose();
  }

  /** Without a server: a click shows the chat, which has the button. */
  #drawCard({ icon, title, progress }: Card): void {
    const line = progress ? `Deputy: installing, ${progress.done} of ${progress.of}` : "Deputy: no server";
    this.#item.text = `$(${progress ? "sync~spin" : icon}) ${line}`;
    this.#item.tooltip = title;
    this.#item.command = "deputy.chat.focus";
    this.#item.accessibilityInformation = { label: `${line}. ${title}` };
    this.#item.backgroundColor = undefined;
  }

  #draw(): void {
    const { server, setup, sessions, requests } = this.#sources;
    const { card } = setup;
    if (card && server.state !== "running") return this.#drawCard(card);
    const state = sessions.current;
    const waiting = requests.list().length;
    const counts = state && { ...countsOf(state), waiting };
    const busy = state !== undefined && isBusy(state);
    const isStopped = server.state === "stopped";
    const icon = isStopped ? "circle-slash" : waiting ? "question" : busy ? "sync~spin" : "hubot";
    const line = isStopped ? "Deputy: not running" : counts ? statusLine(counts) : "Deputy";
    const work = state && busy ? workLine(state, Date.now()) : "";
    const shown = isStopped ? line : [waitingLine({ waiting }), work].filter(Boolean).join(" · ") || "Deputy";
    this.#item.text = `$(${icon}) ${shown}`;
    // Updates the time when no events arrive.
    if (busy) this.#paced.callIn(1000);
    this.#item.tooltip = server.state === "starting" ? "Deputy is starting" : line;
    this.#item.command = waiting ? "deputy.questions.focus" : state ? "deputy.agents.focus" : "deputy.chat.focus";
    this.#item.accessibilityInformation = { label: line };
    this.#item.backgroundColor = waiting ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
  }
}
