/** The base of the parts of a transcript. */
import type { Entry } from "../src/state/session.ts";
import type { Part, View } from "./view.ts";

/** An entry keeps its element; its content is redrawn only when the entry object changes. */
export abstract class EntryPart<E extends Entry = Entry> implements Part {
  abstract readonly element: HTMLElement;
  entry: E;
  #drawn: E | undefined;

  constructor(entry: E) {
    this.entry = entry;
  }

  update(view: View): void {
    if (this.#drawn === this.entry) return;
    this.#drawn = this.entry;
    this.draw(view);
  }

  protected abstract draw(view: View): void;
}
