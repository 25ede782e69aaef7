/** A tool call of a transcript. */
import type { ToolCallEntry } from "../src/protocol.ts";
import { editCounts, editLines } from "../src/state/diff.ts";
import { oneLine, signOfCall, visible } from "../src/state/text.ts";
import { counts } from "./changes.ts";
import { diffBox } from "./diff.ts";
import { fill, h, icon } from "./dom.ts";
import { EntryPart } from "./entry.ts";
import type { View } from "./view.ts";

export class CallPart extends EntryPart<ToolCallEntry> {
  readonly element = h("div", { class: "call" });
  readonly #row = h("div", { class: "call-row" });
  /** What an edit has changed. */
  readonly #diff = h("div", { class: "edit" });
  readonly #output = h("pre", { class: "output", tabindex: "0", "aria-label": "Result" });
  /** Output of a running call; removed when the call ends and its result can be unfolded. */
  readonly #live = h("pre", { class: "output live", tabindex: "0", "aria-label": "Output so far" });
  readonly #whole = h("button", { type: "button", class: "link whole", onClick: () => this.#openWhole() }, "Show all");
  #open = false;
  #view: View | undefined;
  #liveText: string | undefined;

  constructor(entry: ToolCallEntry) {
    super(entry);
    this.#diff.hidden = this.#output.hidden = this.#live.hidden = this.#whole.hidden = true;
    this.element.append(this.#row, this.#live, this.#diff, this.#output, this.#whole);
  }

  override update(view: View): void {
    this.#view = view;
    super.update(view);
    const text = view.state.outputs[this.entry.toolCallId];
    if (this.#liveText === text) return;
    this.#liveText = text;
    this.#live.hidden = text === undefined;
    this.#live.textContent = visible(text ?? "");
    this.#live.scrollTop = this.#live.scrollHeight;
  }

  protected draw(view: View): void {
    const { status, title, content, locations, diff } = this.entry;
    const sign = signOfCall(status);
    const text = oneLine(title.replace(/^\[[^\]]*\] /, ""), 160);
    const place = locations[0];
    const name = place
      ? h(
          "button",
          {
            type: "button",
            class: "call-title link",
            title: text,
            onClick: () => view.send({ type: "open", uri: place.uri, ...(place.range && { range: place.range }) }),
          },
          text,
        )
      : h("span", { class: "call-title", title: text }, text);
    const what = diff ? "change" : "result";
    const toggle = h(
      "button",
      {
        type: "button",
        class: "icon-button",
        title: diff ? "Change" : "Result",
        "aria-label": `Show the ${what}`,
        "aria-expanded": String(this.#open),
        onClick: () => this.#toggle(toggle),
      },
      icon("chevron-right"),
    );
    this.element.dataset["status"] = status;
    fill(
      this.#row,
      h("span", { class: `sign ${status}`, role: "img", "aria-label": sign.word }, icon(sign.icon, sign.spin)),
      name,
      diff && counts(editCounts(diff)),
      (content !== undefined || diff !== undefined) && toggle,
    );
    fill(this.#diff, diff && diffBox(editLines(diff).map(visible), "Change"));
    this.#output.textContent = visible(diff ? textBeside(content) : (content ?? ""));
    this.#show();
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

/** What the result of an edit has beside the changed lines, such as new problems. */
function textBeside(content = ""): string {
  return content.split("\n").slice(1).join("\n").trim();
}
