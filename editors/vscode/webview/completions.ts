/**
 * Completions of a prompt: commands after `/`, files after `@`. The text keeps the focus; arrows select in the list,
 * Enter and Tab accept, Escape closes the list until the next word.
 */
import type { Completion, CompletionKind, CompleteResult } from "../src/protocol.ts";
import { oneLine, visible } from "../src/state/text.ts";
import { fill, h, icon } from "./dom.ts";

/** A word that can be completed, at the end of the text before the cursor. */
const STARTED = /(?:^\s*\/\S*|(?<![\w@./-])@(?:"[^"\n]*|[^\s@"]*))$/;
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
  readonly #request: (text: string) => void;
  readonly #accepted: () => void;
  #items: readonly Completion[] = [];
  #replace = "";
  #selected = 0;
  /** Start of the word for which the list was closed. */
  #closedAt: number | undefined;

  /** `request` requests completions for {@link show}; `accepted` is called after a completion changed the text. */
  constructor(text: HTMLTextAreaElement, request: (text: string) => void, accepted: () => void) {
    this.#text = text;
    this.#request = request;
    this.#accepted = accepted;
    this.element.hidden = true;
    text.setAttribute("aria-autocomplete", "list");
    text.setAttribute("aria-controls", LIST);
    text.addEventListener("input", () => this.#refresh());
    text.addEventListener("click", () => this.#refresh());
    text.addEventListener("blur", () => this.#close());
  }

  /** Shows completions of `text`, unless the text has changed. */
  show(text: string, { replace, items }: CompleteResult): void {
    if (text !== this.#before()) return;
    const isWhole = items.length === 1 && items[0]?.text === replace;
    this.#replace = replace;
    this.#items = isWhole ? [] : items;
    if (this.#items.length === 0) return this.#close();
    fill(this.element, ...this.#items.map((item, index) => this.#row(item, index)));
    this.element.hidden = false;
    this.#select(0);
  }

  /** Handles a key; whether the list used it. */
  key(event: KeyboardEvent): boolean {
    if (this.element.hidden || event.isComposing || event.altKey || event.ctrlKey || event.metaKey) return false;
    const count = this.#items.length;
    const keys: Readonly<Record<string, () => void>> = {
      ArrowDown: () => this.#select((this.#selected + 1) % count),
      ArrowUp: () => this.#select((this.#selected + count - 1) % count),
      PageDown: () => this.#select(count - 1),
      PageUp: () => this.#select(0),
      Enter: () => this.#accept(this.#selected),
      Tab: () => this.#accept(this.#selected),
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

  #refresh(): void {
    const before = this.#before();
    const started = STARTED.exec(before);
    if (started?.index !== this.#closedAt) this.#closedAt = undefined;
    if (started && this.#closedAt === undefined) this.#request(before);
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
      this.#accept(index);
    });
    return row;
  }

  #select(index: number): void {
    this.#selected = index;
    [...this.element.children].forEach((row, at) => row.setAttribute("aria-selected", String(at === index)));
    this.element.children[index]?.scrollIntoView({ block: "nearest" });
    this.#text.setAttribute("aria-activedescendant", idOf(index));
  }

  /** Inserts an item into the text. After a folder the list shows its content. */
  #accept(index: number): void {
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
    this.#accepted();
    if (isFolder) this.#refresh();
  }

  #dismiss(): void {
    this.#closedAt = STARTED.exec(this.#before())?.index;
    this.#close();
  }

  #close(): void {
    this.element.hidden = true;
    this.#text.removeAttribute("aria-activedescendant");
  }
}

/** A file's name first, then its folder. */
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
