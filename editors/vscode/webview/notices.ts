/** Notices above the prompt box, each with an action. */
import type { FromPage, Surroundings } from "../src/page/messages.ts";
import type { TurnError, TurnOutcome } from "../src/protocol.ts";
import { countsOf, isInterrupted, type SessionState } from "../src/state/session.ts";
import { endingOf, oneLine, waitingLine, workLine } from "../src/state/text.ts";
import { button, fill, h, icon, setText } from "./dom.ts";
import type { Part, View } from "./view.ts";

interface Notice {
  readonly text: string;
  readonly icon: string;
  readonly actions?: readonly Action[];
}

interface Action {
  readonly text: string;
  readonly message: FromPage;
}

const SET_KEY: Action = { text: "Set API Key…", message: { type: "setApiKey" } };
const CHOOSE_MODEL: Action = { text: "Choose Model…", message: { type: "pickModel" } };
const RETRY: Action = { text: "Retry", message: { type: "continue" } };
const SHOW_LOG: Action = { text: "Show Log", message: { type: "showLog" } };
const NEW_SESSION: Action = { text: "New Session", message: { type: "newSession" } };

export class Notices implements Part {
  readonly element = h("div", { class: "notices", role: "status" });
  #drawn = "";

  update(view: View): void {
    const notices = noticesOf(view);
    const key = JSON.stringify(notices);
    if (key === this.#drawn) return;
    this.#drawn = key;
    fill(
      this.element,
      ...notices.map((notice) =>
        h(
          "div",
          { class: "notice" },
          icon(notice.icon),
          h("span", {}, notice.text),
          ...(notice.actions ?? []).map(({ text, message }) =>
            button(text, () => view.send(message), { class: "secondary small" }),
          ),
        ),
      ),
    );
  }
}

/** The line below the transcript: what waits for the user, and what works for how long and at what cost. */
export class StatusRow implements Part {
  readonly element = h("div", { class: "status muted" });

  update({ state, around, now }: View): void {
    const starting = around.server === "starting" ? "Deputy is starting" : "";
    const detail = state.turn && state.primaryId ? (state.agents[state.primaryId]?.detail ?? "") : "";
    const parts = [waitingLine(countsOf(state)), starting, workLine(state, now), oneLine(detail)];
    setText(this.element, parts.filter(Boolean).join(" · "));
    this.element.title = this.element.textContent;
    this.element.hidden = this.element.textContent === "";
  }
}

function noticesOf({ state, around }: View): readonly Notice[] {
  const notices: Notice[] = [];
  if (around.server === "stopped" && !around.card) notices.push(stopped(around.problem));
  if (!around.hasFolder && !state.primaryId) {
    const text = "Open a folder. Agents work in a folder and see nothing outside of it.";
    notices.push({ text, icon: "folder", actions: [{ text: "Open Folder", message: { type: "openFolder" } }] });
  }
  if (!around.trusted) {
    const text = "This folder is not trusted. Agents can read and plan, but change nothing.";
    notices.push({ text, icon: "shield", actions: [{ text: "Trust…", message: { type: "trust" } }] });
  }
  if (state.snapshot) {
    const text = "This session is open in another window. This is its state when it was read.";
    notices.push({ text, icon: "eye", actions: [{ text: "Read Again", message: { type: "refresh" } }] });
  }
  const { ended } = state;
  if (isInterrupted(state)) {
    const text = "The last turn was interrupted: the server ended.";
    notices.push({ text, icon: "debug-restart", actions: [{ text: "Continue", message: { type: "continue" } }] });
  } else if (ended && ended.stopReason !== "end_turn") {
    const text = ended.error ? failure(ended.error) : endingOf(ended);
    notices.push({
      text: oneLine(text, 400),
      icon: ended.stopReason === "cancelled" ? "circle-slash" : "error",
      actions: remediesOf(ended),
    });
  }
  if (isUnanswered(state)) {
    notices.push({ text: "The turn ended without an answer from the model.", icon: "info" });
  }
  return notices;
}

/** The notice while the server does not run, although there is one. */
function stopped(problem: Surroundings["problem"]): Notice {
  const setting: Action[] = problem?.isSetting ? [{ text: "Open Settings", message: { type: "serverSettings" } }] : [];
  const start: Action = { text: problem ? "Try Again" : "Start", message: { type: "start" } };
  return {
    text: problem?.message ?? "Deputy's server is not running.",
    icon: problem ? "error" : "debug-disconnect",
    actions: [...setting, start, SHOW_LOG],
  };
}

/** Actions after a turn that ended early. */
function remediesOf(ended: TurnOutcome): readonly Action[] {
  if (ended.stopReason === "max_turn_requests") {
    return [{ text: "Open Settings", message: { type: "setting", name: ended.setting ?? "budgets" } }, NEW_SESSION];
  }
  if (!ended.error) return [];
  const remedy = remedyOf(ended.error);
  return [...(remedy ? [remedy] : []), RETRY, SHOW_LOG];
}

/** The failure with its advice, unless a button is the advice. */
function failure(error: TurnError): string {
  const isButton = remedyOf(error) === SET_KEY;
  return isButton ? sentence(error.message) : `${sentence(error.message)} ${error.action}`;
}

/** What removes the cause of a failure, by the setting or the key that its advice names. */
function remedyOf({ action }: TurnError): Action | undefined {
  const [, setting] = /\bsetting `([\w.]+)`/.exec(action) ?? [];
  if (setting === "model") return CHOOSE_MODEL;
  if (setting !== undefined) return { text: "Open Settings", message: { type: "setting", name: setting } };
  return /_API_KEY\b/.test(action) ? SET_KEY : undefined;
}

/** Adds a missing full stop to a service's message. */
function sentence(text: string): string {
  return /[.!?…]$/.test(text.trim()) ? text.trim() : `${text.trim()}.`;
}

/** Whether the turn ended normally without an answer. */
function isUnanswered(state: SessionState): boolean {
  const last = state.entries[state.primaryId ?? ""]?.at(-1);
  return state.ended?.stopReason === "end_turn" && last?.type === "message" && last.role === "user";
}
