import type { PlanEntry } from "../src/protocol.ts";
import { oneLine } from "../src/state/text.ts";
import { h, icon } from "./dom.ts";

const SIGNS = {
  pending: { icon: "circle-large-outline", word: "to do" },
  in_progress: { icon: "arrow-right", word: "in progress" },
  completed: { icon: "check", word: "done" },
} as const;

/** The steps of a plan, with their status. */
export function planList(entries: readonly PlanEntry[]): HTMLElement {
  return h(
    "ol",
    { class: "plan", "aria-label": "Plan" },
    ...entries.map(({ content, status }) =>
      h(
        "li",
        { class: status },
        h("span", { class: "sign", role: "img", "aria-label": SIGNS[status].word }, icon(SIGNS[status].icon)),
        oneLine(content, 160),
      ),
    ),
  );
}
