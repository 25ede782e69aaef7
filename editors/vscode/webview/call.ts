/** A tool call of a transcript, and a run of calls as one row. */
import type { ToolCallEntry } from "../src/protocol.ts";
import { type CallGroup, outcomeOf, phraseOf, summaryOf } from "../src/state/calls.ts";
import { editCounts, editLines } from "../src/state/diff.ts";
import type { CallTimes } from "../src/state/session.ts";
import { signOfCall, visible } from "../src/state/text.ts";
import { counts } from "./changes.ts";
import { diffBox } from "./diff.ts";
import { arrange, fill, h, icon, setText } from "./dom.ts";
import { EntryPart } from "./entry.ts";
import type { Part, View } from "./view.ts";

export class CallPart extends EntryPart<ToolCallEntry> {
  readonly element = h("div", { class: "call" });
  readonly #row = h("div", { class: "call-row" });
  readonly #outcome = h("span", { class: "call-outcome muted" });
  /** What an edit has changed. */
  readonly #diff = h("div", { class: "edit" });
  readonly #output = h("pre", { class: "output", tabindex: "0", "aria-label": "Result" });
  /** Output of a running call; removed when the call ends and its result can be unfolded. */
  readonly #live = h("pre", { class: "output live", tabindex: "0", "aria-label": "Output so far" });
  readonly #whole = h("button", { type: "button", class: "link whole", onClick: () => this.#openWhole() }, "Show all");
  #open = false;
  #view: View | undefined;
  #liveText: string | undefined;
  #outcomeFor: ToolCallEntry | undefined;
  #outcomeTimes: CallTimes | undefined;

  constructor(entry: ToolCallEntry) {
    super(entry);
    this.#diff.hidden = this.#output.hidden = this.#live.hidden = this.#whole.hidden = true;
    this.element.append(this.#row, this.#live, this.#diff, this.#output, this.#whole);
  }

  override update(view: View): void {
    this.#view = view;
    super.update(view);
    const { toolCallId, status } = this.entry;
    const [times, text] = [view.state.times[toolCallId], view.state.outputs[toolCallId]];
    const isRunning = status === "in_progress";
    if (isRunning || this.#outcomeFor !== this.entry || this.#outcomeTimes !== times)
      setText(this.#outcome, outcomeOf(this.entry, times, view.now).join(" · "));
    [this.#outcomeFor, this.#outcomeTimes] = [this.entry, times];
    if (this.#liveText === text) return;
    this.#liveText = text;
    this.#live.hidden = text === undefined;
    this.#live.textContent = visible(text ?? "");
    this.#live.scrollTop = this.#live.scrollHeight;
  }

  protected draw(view: View): void {
    const { status, content, diff } = this.entry;
    const sign = signOfCall(status);
    const toggle = h(
      "button",
      {
        type: "button",
        class: "icon-button",
        title: diff ? "Change" : "Result",
        "aria-label": `Show the ${diff ? "change" : "result"}`,
        "aria-expanded": String(this.#open),
        onClick: () => this.#toggle(toggle),
      },
      icon("chevron-right"),
    );
    this.element.dataset["status"] = status;
    fill(
      this.#row,
      h("span", { class: `sign ${status}`, role: "img", "aria-label": sign.word }, icon(sign.icon, sign.spin)),
      this.#title(view),
      diff && counts(editCounts(diff)),
      this.#outcome,
      (content !== undefined || diff !== undefined) && toggle,
    );
    fill(this.#diff, diff && diffBox(editLines(diff).map(visible), "Change"));
    this.#output.textContent = visible(diff ? textBeside(content) : (content ?? ""));
    this.#show();
  }

  /** The verb and the target; the target opens the first place that the call is about. */
  #title(view: View): HTMLElement {
    const { verb, target } = phraseOf(this.entry);
    const [place] = this.entry.locations;
    const open = (): void =>
      place && view.send({ type: "open", uri: place.uri, ...(place.range && { range: place.range }) });
    const attributes = { class: "call-target", title: target };
    return h(
      "span",
      { class: "call-title" },
      h("span", { class: "call-verb" }, `${verb} `),
      target && place
        ? h("button", { ...attributes, class: "call-target link", type: "button", onClick: open }, target)
        : h("span", attributes, target),
    );
  }

  #openWhole(): void {
    const { agentId, toolCallId } = this.entry;
    this.#view?.send({ type: "output", agentId, toolCallId });
  }

  #toggle(button: HTMLElement): void {
    this.#open = !this.#open;
    this.#show();
    button.setAttribute("aria-expanded", String(this.#open));
  }

  #show(): void {
    this.#diff.hidden = !this.#open || this.entry.diff === undefined;
    this.#output.hidden = !this.#open || (this.entry.diff !== undefined && this.#output.textContent === "");
    this.#whole.hidden = !this.#open || !this.entry.truncated;
  }
}

/** One row for a run of calls; unfolded, it has a row for each. */
export class CallGroupPart implements Part {
  entry: CallGroup;
  readonly element = h("div", { class: "call-group" });
  readonly #text = h("span", { class: "call-title" });
  readonly #body = h("div", { class: "call-group-body" });
  readonly #parts = new Map<number, CallPart>();
  readonly #toggle: HTMLElement;
  #view: View | undefined;

  constructor(entry: CallGroup) {
    this.entry = entry;
    this.#body.hidden = true;
    this.#toggle = h(
      "button",
      { type: "button", class: "call-row call-group-toggle", "aria-expanded": "false", onClick: () => this.#fold() },
      h("span", { class: "sign completed", role: "img", "aria-label": "completed" }, icon("check")),
      this.#text,
      icon("chevron-right"),
    );
    this.element.append(this.#toggle, this.#body);
  }

  update(view: View): void {
    this.#view = view;
    setText(this.#text, summaryOf(this.entry.calls));
    if (this.#body.hidden) return;
    const parts = this.entry.calls.map((call) => {
      const part = this.#parts.get(call.seq) ?? new CallPart(call);
      this.#parts.set(call.seq, part);
      part.entry = call;
      part.update(view);
      return part.element;
    });
    arrange(this.#body, parts);
  }

  #fold(): void {
    this.#body.hidden = !this.#body.hidden;
    this.#toggle.setAttribute("aria-expanded", String(!this.#body.hidden));
    if (this.#view) this.update(this.#view);
  }
}

/** What the result of an edit has beside the changed lines, such as new problems. */
function textBeside(content = ""): string {
  return content.split("\n").slice(1).join("\n").trim();
}
