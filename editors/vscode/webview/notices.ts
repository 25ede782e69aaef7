/** One line over the prompt when something stands in the way, with the one thing to do about it. */
import { countsOf, isBusy, isInterrupted, isUnanswered } from "../src/state/session.ts";
import { elapsed, endingOf, oneLine, statusLine, waitingLine } from "../src/state/words.ts";
import { button, fill, h, icon, setText } from "./dom.ts";
import type { Part, View } from "./view.ts";

interface Notice {
  readonly text: string;
  readonly icon: string;
  readonly actions?: readonly Action[];
}

interface Action {
  readonly text: string;
  readonly type: "start" | "refresh" | "trust" | "continue" | "setApiKey" | "pickModel" | "showLog";
}

/** What helps against failures of the model, by their kind. */
const REMEDIES: Readonly<Record<string, Action>> = {
  authentication: { text: "Set API Key…", type: "setApiKey" },
  not_configured: { text: "Set API Key…", type: "setApiKey" },
  not_found: { text: "Choose Model…", type: "pickModel" },
};
const SHOW_LOG: Action = { text: "Show Log", type: "showLog" };

export class Notices implements Part {
  readonly element = h("div", { class: "notices", role: "status" });
  #drawn = "";

  update(view: View): void {
    const notices = noticesOf(view);
    const key = JSON.stringify(notices);
    if (key === this.#drawn) return;
    this.#drawn = key;
    const act = (type: Action["type"]) => () => view.send({ type });
    fill(
      this.element,
      ...notices.map((notice) =>
        h(
          "div",
          { class: "notice" },
          icon(notice.icon),
          h("span", {}, notice.text),
          ...(notice.actions ?? []).map(({ text, type }) => button(text, act(type), { class: "secondary small" })),
        ),
      ),
    );
  }
}

/** The line of counts under the transcript, and how long the turn has run. */
export class StatusRow implements Part {
  readonly element = h("div", { class: "status muted" });

  update({ state, around, now }: View): void {
    const hasChildren = Object.keys(state.agents).length > 1;
    const busy = isBusy(state);
    const time = state.turn ? elapsed(now - Date.parse(state.turn.startedAt)) : "";
    const starting = around.server === "starting" ? "Deputy is starting" : "";
    const activity = state.turn && state.primaryId ? (state.agents[state.primaryId]?.detail ?? "") : "";
    const counts = countsOf(state);
    const agents = hasChildren || busy ? statusLine({ ...counts, waiting: 0 }) : "";
    setText(this.element, [waitingLine(counts), starting, time, activity, agents].filter(Boolean).join(" · "));
    this.element.title = this.element.textContent;
    this.element.hidden = this.element.textContent === "";
  }
}

function noticesOf({ state, around }: View): readonly Notice[] {
  const notices: Notice[] = [];
  if (around.server === "stopped") {
    notices.push({
      text: "Deputy's server is not running.",
      icon: "debug-disconnect",
      actions: [{ text: "Start", type: "start" }, SHOW_LOG],
    });
  }
  if (!around.trusted) {
    const text = "This folder is not trusted: agents read and plan, and change nothing.";
    notices.push({ text, icon: "shield", actions: [{ text: "Trust…", type: "trust" }] });
  }
  if (state.snapshot) {
    const text = "This session is open in another window: this is how it was when it was read.";
    notices.push({ text, icon: "eye", actions: [{ text: "Read Again", type: "refresh" }] });
  }
  const { ended } = state;
  if (isInterrupted(state)) {
    const text = "The last turn was interrupted: the server ended.";
    notices.push({ text, icon: "debug-restart", actions: [{ text: "Continue", type: "continue" }] });
  } else if (ended && ended.stopReason !== "end_turn") {
    const text = ended.error ? `${sentence(ended.error.message)} ${ended.error.action}` : endingOf(ended.stopReason);
    const remedy = REMEDIES[ended.error?.kind ?? ""];
    notices.push({
      text: oneLine(text, 400),
      icon: ended.stopReason === "cancelled" ? "circle-slash" : "error",
      actions: ended.error ? [...(remedy ? [remedy] : []), SHOW_LOG] : [],
    });
  }
  if (isUnanswered(state)) {
    notices.push({ text: "The turn has ended, and the model gave no answer.", icon: "info" });
  }
  return notices;
}

/** Words of a service may end without a full stop. */
function sentence(text: string): string {
  return /[.!?…]$/.test(text.trim()) ? text.trim() : `${text.trim()}.`;
}
