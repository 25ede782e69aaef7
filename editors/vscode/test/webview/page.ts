/** The chat's page without an editor: a document, the messages of the page, and event logs to show in it. */
import { readFileSync } from "node:fs";
import { JSDOM } from "jsdom";

import type { FromPage, Surroundings, ToPage } from "../../src/page/messages.ts";
import type { EventParams } from "../../src/protocol.ts";
import { emptySession, reduce, type SessionState } from "../../src/state/session.ts";

/** Default state of the window. */
export const AROUND: Surroundings = {
  server: "running",
  card: undefined,
  problem: undefined,
  agentId: undefined,
  mode: "default",
  model: "a model",
  trusted: true,
  hasFolder: true,
  folder: "project",
  can: { revert: true, message: true, rewind: true },
  edits: {},
  stale: {},
};

const { window } = new JSDOM("<!DOCTYPE html><body></body>", { url: "https://page.test/" });
window.Element.prototype.scrollIntoView = () => undefined;
const frames: (() => void)[] = [];
let pages = 0;
/** Milliseconds; a second passes after each message. */
let clock = 0;
Object.assign(globalThis, {
  window,
  document: window.document,
  FileReader: window.FileReader,
  Text: window.Text,
  MutationObserver: window.MutationObserver,
  ResizeObserver: class {
    observe(): void {}
    unobserve(): void {}
  },
  requestAnimationFrame: (draw: () => void) => frames.push(draw),
  // A real timer would keep the tests from ending.
  setInterval: () => 0,
  performance: { now: () => clock },
});

export class TestPage {
  readonly root: HTMLElement;
  readonly sent: FromPage[] = [];
  state: SessionState = emptySession("session-1");
  draft: unknown;

  constructor(root: HTMLElement) {
    this.root = root;
  }

  /** Sends a message of the extension to the page, and draws a frame. */
  post(message: ToPage): void {
    window.dispatchEvent(new window.MessageEvent("message", { data: message }));
    for (const draw of frames.splice(0)) draw();
    clock += 1000;
  }

  /** Acts without any time passing. */
  quick(act: () => void): void {
    const before = clock;
    act();
    clock = before;
  }

  show(state: SessionState, around: Partial<Surroundings> = {}): void {
    this.state = state;
    this.post({ type: "state", state, around: { ...AROUND, ...around } });
  }

  /** Sends events one by one. */
  events(events: readonly EventParams[]): void {
    for (const event of events) this.post({ type: "events", events: [event] });
    this.state = events.reduce(reduce, this.state);
  }

  all(selector: string): HTMLElement[] {
    return [...this.root.querySelectorAll<HTMLElement>(selector)];
  }

  one(selector: string): HTMLElement {
    const [found, ...more] = this.all(selector);
    if (!found || more.length > 0)
      throw new Error(`${selector}: ${this.all(selector).length} in ${this.root.innerHTML}`);
    return found;
  }

  /** The button with that accessible name. */
  button(name: string, within: HTMLElement = this.root): HTMLElement {
    const found = [...within.querySelectorAll<HTMLElement>("button")].find((button) => nameOf(button) === name);
    if (!found) throw new Error(`no button ${name} in ${within.innerHTML}`);
    return found;
  }

  key(target: HTMLElement, key: string, init: KeyboardEventInit = {}): void {
    target.dispatchEvent(new window.KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...init }));
  }

  input(target: HTMLElement): void {
    target.dispatchEvent(new window.Event("input", { bubbles: true }));
  }

  /** Messages sent since the last call. */
  newMessages(): FromPage[] {
    return this.sent.splice(0);
  }
}

/** A new page with an empty session, as the editor opens it. */
export async function open(draft?: unknown): Promise<TestPage> {
  const page = await begin(draft);
  page.show(emptySession("session-1"));
  return page;
}

/** A new page without any messages. */
export async function begin(draft?: unknown): Promise<TestPage> {
  const root = window.document.createElement("div");
  root.id = "deputy";
  window.document.body.replaceChildren(root);
  const page = new TestPage(root);
  page.draft = draft;
  const host = {
    postMessage: (message: FromPage) => page.sent.push(message),
    getState: () => page.draft,
    setState: (kept: unknown) => (page.draft = kept),
  };
  Object.assign(globalThis, { acquireVsCodeApi: () => host });
  // A module with another URL runs again.
  await import(`../../webview/main.ts?${String(++pages)}`);
  page.newMessages();
  return page;
}

/** The steps of a recorded session, each a list of events. */
export function log(name: string): readonly (readonly EventParams[])[] {
  const text = readFileSync(new URL(`../../../../tests/vectors/${name}.json`, import.meta.url), "utf-8");
  const { steps } = JSON.parse(text) as { steps: { events: EventParams[] }[] };
  return steps.map(({ events }) => events);
}

/** The state after the steps of a recorded session. */
export function after(steps: readonly (readonly EventParams[])[]): SessionState {
  return steps.flat().reduce(reduce, emptySession("session-1"));
}

function nameOf(button: HTMLElement): string {
  return button.getAttribute("aria-label") ?? button.textContent;
}
