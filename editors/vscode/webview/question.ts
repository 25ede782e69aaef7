/** A question inside the block of the agent that asks. Nothing in it answers by Enter unless it has the focus. */
import type { PermissionOption, PermissionRequest } from "../src/protocol.ts";
import { diffText, isDiff } from "../src/state/proposal.ts";
import { oneLine, visible } from "../src/state/words.ts";
import { button, fill, h, icon } from "./dom.ts";
import type { Part, View } from "./view.ts";

const MAX_LINES = 40;
const ORDER = ["allow_once", "allow_always", "reject_once", "reject_always"];

export class QuestionCard implements Part {
  readonly element: HTMLElement;
  readonly #request: PermissionRequest;
  readonly #body = h("div", { class: "question-body" });
  readonly #note = h("textarea", {
    class: "note",
    rows: "2",
    placeholder: "What should the agent do instead?",
    "aria-label": "Reason of the denial",
  });
  readonly #noteRow: HTMLElement;
  #drawn: string | undefined;
  #view: View | undefined;

  constructor(request: PermissionRequest) {
    this.#request = request;
    const title = h("span", { class: "question-title" }, oneLine(request.title, 160));
    const of = request.batch.size > 1 ? `${request.batch.index + 1} of ${request.batch.size}` : "";
    this.#noteRow = h(
      "div",
      { class: "note-row" },
      this.#note,
      button("Deny with this reason", () => this.#deny(this.#note.value), { class: "secondary" }),
    );
    this.#noteRow.hidden = true;
    this.element = h(
      "section",
      {
        class: "question",
        role: "group",
        "aria-label": `Question of ${oneLine(request.agent.label)}: ${oneLine(request.title, 160)}`,
        "data-request": request.requestId,
        tabindex: "-1",
      },
      h("header", { class: "question-head" }, icon("question"), title, of && h("span", { class: "muted" }, of)),
      this.#body,
      request.reason ? h("p", { class: "muted reason" }, oneLine(request.reason, 300)) : undefined,
      this.#answers(),
      this.#noteRow,
    );
  }

  update(view: View): void {
    this.#view = view;
    const edited = view.around.edits[this.#request.requestId];
    const key = edited ?? "";
    if (this.#drawn === key) return;
    this.#drawn = key;
    this.#draw(edited);
  }

  #draw(edited: string | undefined): void {
    const request = this.#request;
    if (isDiff(request)) {
      const preview = edited === undefined ? request.preview : { ...request.preview, newText: edited };
      const diff = diffText(preview, MAX_LINES);
      fill(
        this.#body,
        h(
          "pre",
          { class: "diff", tabindex: "0", "aria-label": "Proposed change" },
          ...diff.text.split("\n").map(diffLine),
        ),
        diff.more > 0 && h("p", { class: "muted" }, `${diff.more} more lines: open the diff.`),
        edited !== undefined && h("p", { class: "muted" }, icon("edit"), " Edited by you: this text is what runs."),
      );
    } else if (request.preview?.type === "command") {
      fill(
        this.#body,
        h("pre", { class: "command", tabindex: "0", "aria-label": "Command" }, visible(request.preview.command)),
        h("p", { class: "muted" }, `in ${visible(decodeURI(request.preview.cwd).replace(/^file:\/\//, ""))}`),
      );
    } else {
      const text = request.preview?.type === "text" ? request.preview.text : JSON.stringify(request.input, null, 2);
      fill(this.#body, h("pre", { class: "command", tabindex: "0" }, visible(text)));
    }
  }

  #answers(): HTMLElement {
    const request = this.#request;
    const options = [...request.options].sort((one, other) => ORDER.indexOf(one.kind) - ORDER.indexOf(other.kind));
    return h(
      "div",
      { class: "answers" },
      ...options.map((option) => this.#answer(option)),
      button("Deny with reason…", () => this.#askReason(), { class: "secondary" }),
      isDiff(request) &&
        button("Open diff", () => this.#view?.send({ type: "diff", requestId: request.requestId }), {
          class: "secondary",
          icon: "diff",
        }),
      isDiff(request) &&
        request.preview.oldText !== null &&
        button("Go to code", () => this.#view?.send({ type: "place", requestId: request.requestId }), {
          class: "secondary",
          icon: "go-to-file",
        }),
    );
  }

  #answer(option: PermissionOption): HTMLButtonElement {
    const style = option.kind === "allow_once" ? "primary" : "secondary";
    const choose = (): void => this.#view?.send({ type: "choose", requestId: this.#request.requestId, option });
    return button(oneLine(option.name, 80), choose, { class: style, title: oneLine(option.name, 200) });
  }

  #askReason(): void {
    this.#noteRow.hidden = !this.#noteRow.hidden;
    if (!this.#noteRow.hidden) this.#note.focus();
  }

  #deny(note: string): void {
    this.#view?.send({ type: "deny", requestId: this.#request.requestId, note });
  }
}

function diffLine(line: string): HTMLElement {
  const kind = line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : line.startsWith("@") ? "place" : "";
  return h("span", { class: `line ${kind}`.trim() }, `${line}\n`);
}
