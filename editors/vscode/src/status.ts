/** The item in the status bar: how many agents there are, and whether they wait for the user. */
import * as vscode from "vscode";

import type { Questions } from "./questions.ts";
import type { Server } from "./server.ts";
import type { Sessions } from "./sessions.ts";
import { countsOf, isBusy } from "./state/session.ts";
import { statusLine } from "./state/words.ts";
import { Paced } from "./views/paced.ts";

export class StatusItem implements vscode.Disposable {
  readonly #item: vscode.StatusBarItem;
  readonly #sources: { readonly server: Server; readonly sessions: Sessions; readonly questions: Questions };
  readonly #paced = new Paced(() => this.#draw());
  readonly #subscriptions: vscode.Disposable[];

  constructor(server: Server, sessions: Sessions, questions: Questions) {
    this.#sources = { server, sessions, questions };
    this.#item = vscode.window.createStatusBarItem("deputy.status", vscode.StatusBarAlignment.Left, 10);
    this.#item.name = "Deputy";
    const draw = (): void => this.#paced.call();
    this.#subscriptions = [
      sessions.onDidChange(draw),
      sessions.onDidShow(draw),
      server.onState(draw),
      questions.onDidChange(draw),
    ];
    this.#draw();
    this.#item.show();
  }

  /** What the item says, for tests and screen readers. */
  get text(): string {
    return this.#item.text;
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
    this.#paced.dispose();
    this.#item.dispose();
  }

  #draw(): void {
    const { server, sessions, questions } = this.#sources;
    const state = sessions.current;
    const waiting = questions.list().length;
    const counts = state && { ...countsOf(state), waiting };
    const busy = state !== undefined && isBusy(state);
    const isStopped = server.state === "stopped";
    const icon = isStopped ? "circle-slash" : waiting ? "question" : busy ? "sync~spin" : "hubot";
    const line = isStopped ? "Deputy: not running" : counts ? statusLine(counts) : "Deputy";
    this.#item.text = `$(${icon}) ${isStopped || (counts && (busy || waiting)) ? line : "Deputy"}`;
    this.#item.tooltip = server.state === "starting" ? "Deputy is starting" : line;
    this.#item.command = waiting ? "deputy.questions.focus" : state ? "deputy.agents.focus" : "deputy.chat.focus";
    this.#item.accessibilityInformation = { label: line };
    this.#item.backgroundColor = waiting ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
  }
}
