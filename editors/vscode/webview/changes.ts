/** The bar above the prompt box: what agents changed and was not reviewed, with a row for each file. */
import { type ChangedFile, countsText, filesText, type ShownChanges } from "../src/state/changes.ts";
import { button, fill, h, icon, iconButton } from "./dom.ts";
import type { Part, View } from "./view.ts";

const STATUS = {
  created: { icon: "diff-added", word: "created" },
  modified: { icon: "diff-modified", word: "modified" },
  deleted: { icon: "diff-removed", word: "deleted" },
} as const;

export class ChangesBar implements Part {
  readonly element = h("section", { class: "changes", "aria-label": "Changes to review" });
  readonly #head = h("div", { class: "changes-head" });
  readonly #list = h("div", { class: "changes-files" });
  #isOpen = false;
  #drawn: ShownChanges | undefined;
  #send: View["send"] = () => undefined;

  constructor() {
    this.element.hidden = true;
    this.#list.hidden = true;
    this.element.append(this.#head, this.#list);
  }

  update({ changes, send }: View): void {
    this.#send = send;
    if (changes === this.#drawn) return;
    this.#drawn = changes;
    this.element.hidden = !changes || changes.totals.files + changes.comments === 0;
    if (changes && !this.element.hidden) this.#draw(changes);
  }

  #draw(changes: ShownChanges): void {
    const focused = this.#focused();
    const { totals, files, notes, comments } = changes;
    const toggle = h(
      "button",
      {
        type: "button",
        class: "block-toggle changes-toggle",
        "aria-expanded": String(this.#isOpen),
        "data-key": "toggle",
        onClick: () => this.#toggle(),
      },
      icon(this.#isOpen ? "chevron-down" : "chevron-right"),
      h("span", {}, filesText(totals.files)),
      counts(totals),
    );
    fill(
      this.#head,
      toggle,
      h(
        "span",
        { class: "changes-actions" },
        comments > 0 && this.#button(`Send ${comments === 1 ? "comment" : `${comments} comments`}`, "sendComments"),
        this.#button("Review", "reviewAll"),
        this.#button("Keep", "keepAll", " all"),
        this.#button("Undo", "undoAll", " all"),
      ),
    );
    const more = totals.files - files.length;
    fill(
      this.#list,
      ...files.map((file) => this.#row(file)),
      more > 0 && h("p", { class: "muted" }, `${more} more files`),
      ...notes.map((note) => h("p", { class: "muted" }, icon("info"), ` ${note}`)),
    );
    this.#focus(focused);
  }

  /** A button; `rest` is left out where there is no room. */
  #button(text: string, type: "sendComments" | "reviewAll" | "keepAll" | "undoAll", rest = ""): HTMLElement {
    const style = type === "sendComments" ? "primary small" : "secondary small";
    const made = button(text, () => this.#send({ type }), { class: style, label: text + rest });
    if (rest) made.append(h("span", { class: "optional" }, rest));
    made.dataset["key"] = type;
    return made;
  }

  #row(file: ChangedFile): HTMLElement {
    const { uri, path, status } = file;
    const slash = path.lastIndexOf("/");
    const [folder, name] = [path.slice(0, Math.max(0, slash)), path.slice(slash + 1)];
    const act = (sign: string, label: string, type: "keepFile" | "undoFile"): HTMLElement => {
      const made = iconButton(sign, `${label} the changes of ${name}`, () => this.#send({ type, uri }));
      made.dataset["key"] = `${type}/${uri}`;
      return made;
    };
    return h(
      "div",
      { class: "change-row", "data-status": status },
      h("span", { class: `sign ${status}`, role: "img", "aria-label": STATUS[status].word }, icon(STATUS[status].icon)),
      h(
        "button",
        {
          type: "button",
          class: "change-name",
          title: `${path}, ${STATUS[status].word}: open the diff`,
          "data-key": `open/${uri}`,
          onClick: () => this.#send({ type: "openChange", uri }),
        },
        h("span", { class: "change-file" }, name),
        folder && h("span", { class: "change-folder muted" }, folder),
      ),
      counts(file),
      act("check", "Keep", "keepFile"),
      act("discard", "Undo", "undoFile"),
    );
  }

  #toggle(): void {
    this.#isOpen = !this.#isOpen;
    this.#list.hidden = !this.#isOpen;
    if (this.#drawn) this.#draw(this.#drawn);
  }

  /** What has the focus, so that it stays when the rows are drawn again. */
  #focused(): string | undefined {
    const { activeElement } = document;
    return this.element.contains(activeElement) ? (activeElement as HTMLElement).dataset["key"] : undefined;
  }

  #focus(key: string | undefined): void {
    if (key === undefined) return;
    const all = [...this.element.querySelectorAll<HTMLElement>("[data-key]")];
    (all.find(({ dataset }) => dataset["key"] === key) ?? all[0])?.focus();
  }
}

/** `+24 −7`, in two colours. */
export function counts(of: { readonly added: number; readonly removed: number }): HTMLElement {
  const [added = "", removed = ""] = countsText(of).split(" ");
  return h(
    "span",
    { class: "counts", title: `${of.added} lines added, ${of.removed} removed` },
    h("span", { class: "plus" }, added),
    " ",
    h("span", { class: "minus" }, removed),
  );
}
