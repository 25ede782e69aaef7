/** The card below a prompt: what going back to before it would change, and the ways to do so. */
import type { FromPage } from "../src/page/messages.ts";
import type { MessageEntry } from "../src/protocol.ts";
import type { RewindPlan, RewoundFile } from "../src/state/changes.ts";
import { counts } from "./changes.ts";
import { button, fill, h, icon, iconButton } from "./dom.ts";
import { isBusy } from "../src/state/session.ts";
import type { View } from "./view.ts";

const MAX_FILES = 12;

/** The button beside a prompt of the user that opens its card. Only the chat has it, and not while agents work. */
export class RewindButton {
  readonly element: HTMLButtonElement;
  readonly card: RewindCard;
  readonly #entry: MessageEntry;
  #view: View | undefined;

  constructor(entry: MessageEntry) {
    this.#entry = entry;
    this.card = new RewindCard(entry);
    this.element = iconButton("history", "Rewind to here, or fork…", () => this.#toggle());
    this.element.classList.add("rewind-button");
    this.element.hidden = true;
  }

  update(view: View): void {
    this.#view = view;
    const { state, around } = view;
    const isShown = around.can.rewind && around.agentId === undefined && this.#entry.agentId === state.primaryId;
    this.element.hidden = !isShown || state.snapshot || isBusy(state);
    this.element.setAttribute("aria-expanded", String(view.rewind?.seq === this.#entry.seq));
    this.card.update(view);
  }

  #toggle(): void {
    const isOpen = this.#view?.rewind?.seq === this.#entry.seq;
    this.#view?.setRewind(isOpen ? undefined : this.#entry.seq);
  }
}

export class RewindCard {
  readonly element = h("section", { class: "rewind", role: "group", "aria-label": "Go back to before this prompt" });
  readonly #entry: MessageEntry;
  #drawn: View["rewind"];

  constructor(entry: MessageEntry) {
    this.#entry = entry;
    this.element.hidden = true;
  }

  update(view: View): void {
    const own = view.rewind?.seq === this.#entry.seq ? view.rewind : undefined;
    if (own === this.#drawn) return;
    const isNew = own?.plan !== undefined && this.#drawn?.plan === undefined;
    this.#drawn = own;
    this.element.hidden = !own;
    if (!own) return;
    if (own.plan) fill(this.element, ...this.#content(own.plan, view));
    else fill(this.element, h("p", { class: "muted" }, icon("sync", true), " Comparing files"));
    this.element.scrollIntoView({ block: "nearest" });
    if (isNew) this.element.querySelector<HTMLElement>("button")?.focus({ preventScroll: true });
  }

  #content({ checkpointId, files, notes }: RewindPlan, view: View): readonly HTMLElement[] {
    const canRestore = files.some(({ conflict }) => !conflict);
    const more = files.length - MAX_FILES;
    const back = (text: string, style: string, parts: { files: boolean; conversation: boolean }): HTMLElement =>
      button(text, () => this.#close(view, { type: "rewind", checkpointId, ...parts }), { class: style });
    const [style, both] = ["secondary", { files: true, conversation: true }];
    return [
      h("p", { class: "rewind-title" }, "Go back to before this prompt"),
      ...files.slice(0, MAX_FILES).map(rowOf),
      ...(more > 0 ? [h("p", { class: "muted" }, `${more} more files`)] : []),
      h("p", { class: "muted" }, explanation(files)),
      ...notes.map((note) => h("p", { class: "muted" }, icon("info"), ` ${note}`)),
      h(
        "div",
        { class: "answers" },
        canRestore && back("Files and conversation", "primary", both),
        canRestore && back("Files only", style, { files: true, conversation: false }),
        back("Conversation only", canRestore ? style : "primary", { files: false, conversation: true }),
        button("Fork from here", () => this.#close(view, { type: "fork", checkpointId, text: this.#entry.text }), {
          class: style,
        }),
        button("Cancel", () => view.setRewind(undefined), { class: style }),
      ),
    ];
  }

  #close(view: View, message: FromPage): void {
    view.setRewind(undefined);
    view.send(message);
  }
}

function rowOf(file: RewoundFile): HTMLElement {
  const { path, status, conflict } = file;
  const what = status === "created" ? "comes back" : status === "deleted" ? "is removed" : "";
  return h(
    "div",
    { class: conflict ? "rewind-row conflict" : "rewind-row" },
    icon(conflict ? "warning" : "file"),
    h("span", { class: "rewind-path", title: path }, path),
    conflict ? h("span", { class: "rewind-why" }, `stays: ${conflict}`) : counts(file),
    what && !conflict ? h("span", { class: "muted" }, what) : undefined,
  );
}

function explanation(files: readonly RewoundFile[]): string {
  const start = files.length === 0 ? "No file has changed since. " : "Lines that you typed stay. ";
  return `${start}You can return to the present state with Deputy: Rewind.`;
}
