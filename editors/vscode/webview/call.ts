/** A tool call of a transcript. */
import type { ToolCallEntry } from "../src/protocol.ts";
import { oneLine, signOfCall, visible } from "../src/state/text.ts";
import { fill, h, icon } from "./dom.ts";
import { EntryPart } from "./entry.ts";
import type { View } from "./view.ts";

export class CallPart extends EntryPart<ToolCallEntry> {
  readonly element = h("div", { class: "call" });
  readonly #row = h("div", { class: "call-row" });
  readonly #output = h("pre", { class: "output", tabindex: "0", "aria-label": "Result" });
  /** Output of a running call; removed when the call ends and its result can be unfolded. */
  readonly #live = h("pre", { class: "output live", tabindex: "0", "aria-label": "Output so far" });
  readonly #whole = h("button", { type: "button", class: "link whole", onClick: () => this.#openWhole() }, "Show all");
  #view: View | undefined;
  #liveText: string | undefined;

  constructor(entry: ToolCallEntry) {
    super(entry);
    this.#output.hidden = this.#live.hidden = this.#whole.hidden = true;
    this.element.append(this.#row, this.#live, this.#output, this.#whole);
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
    const { status, title, content, locations } = this.entry;
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
    const toggle = h(
      "button",
      {
        type: "button",
        class: "icon-button",
        title: "Result",
        "aria-label": "Show the result",
        "aria-expanded": String(!this.#output.hidden),
        onClick: () => this.#toggle(toggle),
      },
      icon("chevron-right"),
    );
    this.element.dataset["status"] = status;
    fill(
      this.#row,
      h("span", { class: `sign ${status}`, role: "img", "aria-label": sign.word }, icon(sign.icon, sign.spin)),
      name,
      content !== undefined && toggle,
    );
    this.#output.textContent = visible(content ?? "");
  }

  #openWhole(): void {
    const { agentId, toolCallId } = this.entry;
    this.#view?.send({ type: "output", agentId, toolCallId });
  }

  #toggle(button: HTMLElement): void {
    this.#output.hidden = !this.#output.hidden;
    this.#whole.hidden = this.#output.hidden || !this.entry.truncated;
    button.setAttribute("aria-expanded", String(!this.#output.hidden));
  }
}
