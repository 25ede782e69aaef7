/** The card for a window without a server: the cause, and one main button. */
import { button, fill, h, icon } from "./dom.ts";
import type { Part, View } from "./view.ts";

export class SetupCard implements Part {
  readonly element = h("section", { class: "setup", role: "status", "aria-label": "Server" });
  #drawn = "";

  update({ around: { card, agentId }, send }: View): void {
    const key = JSON.stringify(card ?? null);
    this.element.hidden = !card || agentId !== undefined;
    if (key === this.#drawn) return;
    // A step of the installation must not take the focus from Cancel.
    const focused = this.#buttons().findIndex((one) => one === document.activeElement);
    this.#drawn = key;
    if (!card) return fill(this.element);
    const { title, text, progress, buttons } = card;
    const bar = progress && h("progress", { "aria-label": title });
    if (bar) [bar.max, bar.value] = [progress.of, progress.done];
    fill(
      this.element,
      h("div", { class: "setup-title" }, icon(card.icon, progress !== undefined), h("h2", {}, title)),
      h("p", {}, text),
      bar,
      h(
        "div",
        { class: "answers" },
        ...buttons.map(({ text: label, act }, index) =>
          button(label, () => send({ type: act }), { class: index === 0 && !progress ? "primary" : "secondary" }),
        ),
      ),
    );
    this.#buttons()[focused]?.focus();
  }

  #buttons(): HTMLElement[] {
    return [...this.element.querySelectorAll("button")];
  }
}
