/**
 * What a prompt can go on with: commands after `/`, files after `@`. The text keeps the focus; arrows choose in the list,
 * Enter and Tab take, Escape closes until the next word.
 */
import type { Completion, CompletionKind, CompleteResult } from "../src/protocol.ts";
import { oneLine, visible } from "../src/state/words.ts";
import { fill, h, icon } from "./dom.ts";

/** A word that can be completed, at the end of what stands before the cursor. */
const BEGUN = /(?:^\s*\/\S*|(?<![\w@./-])@(?:"[^"\n]*|[^\s@"]*))$/;
const LIST = "completions";
const ICONS: Readonly<Record<CompletionKind, string>> = {
  command: "terminal",
  file: "file",
  folder: "folder",
  context: "warning",
};

export class Completions {
  readonly element = h("div", { class: "completions", role: "listbox", "aria-label": "Completions", id: LIST });
  readonly #text: HTMLTextAreaElement;
  readonly #ask: (text: string) => void;
  readonly #taken: () => void;
  #items: readonly Completion[] = [];
  #replace = "";
  #chosen = 0;
  /** Where the word begins for which the list was closed. */
  #closedAt: number | undefined;

  /** `ask` asks for {@link show}; `taken` is called when the text was changed here. */
  constructor(text: HTMLTextAreaElement, ask: (text: string) => void, taken: () => void) {
    this.#text = text;
    this.#ask = ask;
    this.#taken = taken;
    this.element.hidden = true;
    text.setAttribute("aria-autocomplete", "list");
    text.setAttribute("aria-controls", LIST);
    text.addEventListener("input", () => this.#look());
    text.addEventListener("click", () => this.#look());
    text.addEventListener("blur", () => this.#close());
  }

  /** Shows how `text` can go on, unless something else is written by now. */
  show(text: string, { replace, items }: CompleteResult): void {
    if (text !== this.#before()) return;
    const isWhole = items.length === 1 && items[0]?.text === replace;
    this.#replace = replace;
    this.#items = isWhole ? [] : items;
    if (this.#items.length === 0) return this.#close();
    fill(this.element, ...this.#items.map((item, index) => this.#row(item, index)));
    this.element.hidden = false;
    this.#choose(0);
  }

  /** Whether the list took the key. */
  key(event: KeyboardEvent): boolean {
    if (this.element.hidden || event.isComposing || event.altKey || event.ctrlKey || event.metaKey) return false;
    const count = this.#items.length;
    const keys: Readonly<Record<string, () => void>> = {
      ArrowDown: () => this.#choose((this.#chosen + 1) % count),
      ArrowUp: () => this.#choose((this.#chosen + count - 1) % count),
      PageDown: () => this.#choose(count - 1),
      PageUp: () => this.#choose(0),
      Enter: () => this.#take(this.#chosen),
      Tab: () => this.#take(this.#chosen),
      Escape: () => this.#dismiss(),
    };
    const act = event.shiftKey ? undefined : keys[event.key];
    if (act) {
      event.preventDefault();
      event.stopPropagation();
      act();
    } else if (["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) {
      this.#close();
    }
    return act !== undefined;
  }

  #look(): void {
    const before = this.#before();
    const begun = BEGUN.exec(before);
    if (begun?.index !== this.#closedAt) this.#closedAt = undefined;
    if (begun && this.#closedAt === undefined) this.#ask(before);
    else this.#close();
  }

  #before(): string {
    return this.#text.value.slice(0, this.#text.selectionStart);
  }

  #row(item: Completion, index: number): HTMLElement {
    const row = h(
      "div",
      { class: "completion", role: "option", id: idOf(index), title: visible(item.text) },
      icon(ICONS[item.kind]),
      ...wordsOf(item),
    );
    row.addEventListener("mousedown", (event) => {
      event.preventDefault(); // the text keeps the focus
      this.#take(index);
    });
    return row;
  }

  #choose(index: number): void {
    this.#chosen = index;
    [...this.element.children].forEach((row, at) => row.setAttribute("aria-selected", String(at === index)));
    this.element.children[index]?.scrollIntoView({ block: "nearest" });
    this.#text.setAttribute("aria-activedescendant", idOf(index));
  }

  /** Puts an item into the text. After a folder the list goes on with what is in it. */
  #take(index: number): void {
    const item = this.#items[index];
    const before = this.#before();
    this.#close();
    if (!item || !before.endsWith(this.#replace)) return;
    const isFolder = item.kind === "folder";
    const start = before.length - this.#replace.length;
    const after = this.#text.value.slice(before.length);
    this.#text.setRangeText(item.text + (isFolder || /^\s/.test(after) ? "" : " "), start, before.length, "end");
    const inside = this.#text.selectionStart - 1;
    if (isFolder && item.text.endsWith('"')) this.#text.setSelectionRange(inside, inside);
    this.#taken();
    if (isFolder) this.#look();
  }

  #dismiss(): void {
    this.#closedAt = BEGUN.exec(this.#before())?.index;
    this.#close();
  }

  #close(): void {
    this.element.hidden = true;
    this.#text.removeAttribute("aria-activedescendant");
  }
}

/** A file's own name first, then where it is. */
function wordsOf({ text, kind, detail }: Completion): readonly HTMLElement[] {
  const path = kind === "file" || kind === "folder" ? text.replaceAll(/^@"?|"$/g, "") : text;
  const cut = kind === "file" || kind === "folder" ? path.replace(/\/$/, "").lastIndexOf("/") + 1 : 0;
  const about = detail ?? path.slice(0, Math.max(0, cut - 1));
  return [
    h("span", { class: "completion-name" }, oneLine(path.slice(cut), 80)),
    h("span", { class: "completion-about muted" }, oneLine(about, 120)),
  ];
}

function idOf(index: number): string {
  return `${LIST}-${String(index)}`;
}
