/** An approval in the block of its agent. Enter answers only if a button has the focus. */
import type { OptionKind, PermissionOption, PermissionRequest } from "../src/protocol.ts";
import {
  type DiffText,
  diffText,
  isDiff,
  isLargeDiff,
  nameOfOption,
  plainPreview,
  rulesToList,
  type Stale,
  STALE,
  titleOfRules,
} from "../src/state/proposal.ts";
import { exact, oneLine, pathOf } from "../src/state/text.ts";
import { diffBox } from "./diff.ts";
import { button, fill, h, icon, iconButton } from "./dom.ts";
import { isSettled, unsettle } from "./settling.ts";
import type { Part, View } from "./view.ts";

const MAX_LINES = 40;
/** Maximum characters of a command that is shown without a scroll box. */
const MAX_IN_SIGHT = 2000;

export class ApprovalCard implements Part {
  readonly element: HTMLElement;
  readonly #request: PermissionRequest;
  readonly #body = h("div", { class: "approval-body" });
  readonly #note = h("textarea", {
    class: "note",
    rows: "2",
    placeholder: "What should the agent do instead?",
    "aria-label": "Reason for the denial",
  });
  readonly #noteRow: HTMLElement;
  /** Warnings beside the answers. */
  readonly #notes = h("div", { class: "notes" });
  readonly #approveButtons: HTMLElement[] = [];
  #drawn: string | undefined;
  #view: View | undefined;

  constructor(request: PermissionRequest) {
    this.#request = request;
    this.#note.addEventListener("keydown", (event) => this.#key(event));
    // Below it is all of a command.
    const text = oneLine(request.title, request.preview?.type === "command" ? 60 : 160);
    const title = h("span", { class: "approval-title", title: text }, text);
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
        class: "approval",
        role: "group",
        "aria-label": `Approval for ${oneLine(request.agent.label)}: ${oneLine(request.title, 160)}`,
        "data-request": request.requestId,
        tabindex: "-1",
      },
      h(
        "header",
        { class: "approval-head" },
        icon("question"),
        title,
        of && h("span", { class: "muted" }, of),
        ...this.#places(),
      ),
      this.#body,
      request.reason ? h("p", { class: "muted reason" }, exact(request.reason)) : undefined,
      ...this.#answers(),
      this.#noteRow,
    );
  }

  update(view: View): void {
    this.#view = view;
    const { requestId } = this.#request;
    const [edited, stale] = [view.around.edits[requestId], view.around.stale[requestId]];
    const key = JSON.stringify([edited, stale]);
    if (this.#drawn === key) return;
    this.#drawn = key;
    this.#draw(edited, stale);
  }

  #draw(edited: string | undefined, stale: Stale | undefined): void {
    const request = this.#request;
    if (isDiff(request)) {
      const preview = edited === undefined ? request.preview : { ...request.preview, newText: edited };
      fill(this.#body, ...changeOf(diffText(preview, MAX_LINES)));
      fill(
        this.#notes,
        edited !== undefined &&
          edited !== request.preview.oldText &&
          h("p", { class: "muted" }, icon("edit"), " Edited by you: this text will be used."),
        stale && h("p", { class: "stale" }, icon("warning"), ` ${STALE[stale]}`),
      );
      for (const approve of this.#approveButtons) {
        approve.classList.toggle("primary", !stale);
        approve.classList.toggle("secondary", stale !== undefined);
      }
    } else if (request.preview?.type === "command") {
      fill(
        this.#body,
        ...commandBox(request.preview.command),
        h("p", { class: "muted" }, `in ${pathOf(request.preview.cwd)}`),
      );
    } else {
      fill(this.#body, ...commandBox(plainPreview(request)));
    }
  }

  /** Buttons that open the change in an editor. */
  #places(): readonly HTMLElement[] {
    const { requestId } = this.#request;
    const diff = iconButton("diff", "Open diff", () => this.#view?.send({ type: "diff", requestId }));
    if (!isDiff(this.#request)) return isLargeDiff(this.#request) ? [diff] : [];
    const place = iconButton("go-to-file", "Go to code", () => this.#view?.send({ type: "place", requestId }));
    return this.#request.preview.oldText === null ? [diff] : [diff, place];
  }

  /** Single answers as buttons; lasting ones as lines below them. */
  #answers(): readonly HTMLElement[] {
    const of = (...kinds: readonly OptionKind[]): readonly PermissionOption[] =>
      kinds.flatMap((kind) => this.#request.options.filter((option) => option.kind === kind));
    const once = of("allow_once", "reject_once").map((option) => {
      const isApproval = option.kind === "allow_once";
      const name = nameOfOption(this.#request, option);
      const answer = button(name, this.#choosing(option), {
        class: isApproval ? "primary" : "secondary",
        title: `${name} (${keyName(isApproval ? "Y" : "N")})`,
      });
      if (isApproval) this.#approveButtons.push(answer);
      return answer;
    });
    const lasting = of("allow_always", "reject_always").map((option) => this.#lasting(option));
    const title = `Deny with reason (${keyName("Shift+N")})`;
    const reason = button("Deny with reason…", () => this.#askReason(), { class: "secondary", title });
    return [h("div", { class: "answers" }, this.#notes, ...once, reason), h("div", { class: "lasting" }, ...lasting)];
  }

  /** A lasting answer with its rule; or a fold with all of its rules, and the answer below them. */
  #lasting(option: PermissionOption): HTMLElement {
    const rules = rulesToList(this.#request, option);
    const style = { type: "button", class: "link", title: exact(option.name, ""), onClick: this.#choosing(option) };
    const answer = h("button", style, nameOfOption(this.#request, option));
    if (rules.length === 0) return answer;
    const list = rules.map((rule) => h("li", {}, rule));
    return h("details", {}, h("summary", {}, titleOfRules(option)), h("ul", { class: "rules" }, ...list), answer);
  }

  #choosing(option: PermissionOption): () => void {
    return () => {
      if (!isSettled()) return;
      unsettle();
      this.#view?.send({ type: "choose", requestId: this.#request.requestId, option });
    };
  }

  #askReason(): void {
    this.#noteRow.hidden = !this.#noteRow.hidden;
    if (this.#noteRow.hidden) return;
    this.#noteRow.scrollIntoView({ block: "nearest" });
    this.#note.focus({ preventScroll: true });
  }

  /** Keys in the reason box: Escape closes it, Ctrl+Enter denies. None of them approves. */
  #key(event: KeyboardEvent): void {
    if (event.key === "Escape") {
      this.#noteRow.hidden = true;
      this.element.focus();
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.#deny(this.#note.value);
    else return;
    event.preventDefault();
  }

  #deny(note: string): void {
    this.#view?.send({ type: "deny", requestId: this.#request.requestId, note });
  }
}

/** The key of an answer, for its tooltip. It works after Next Approval has gone to the request. */
function keyName(last: string): string {
  return `${navigator.userAgent.includes("Mac") ? "Cmd" : "Ctrl"}+Alt+${last}`;
}

function changeOf({ text, more }: DiffText): readonly (HTMLElement | false)[] {
  if (!text) return [h("p", { class: "muted" }, "No proposed change is left: deny it instead.")];
  return [
    diffBox(text.split("\n"), "Proposed change"),
    more > 0 && h("p", { class: "muted" }, `${more} more lines: open the diff.`),
  ];
}

/** A command in full; a long one is in a scroll box with a warning. */
function commandBox(text: string): readonly (HTMLElement | false)[] {
  const isLong = text.length > MAX_IN_SIGHT || text.split("\n").length > MAX_LINES;
  return [
    h("pre", { class: isLong ? "command long" : "command", tabindex: "0", "aria-label": "Command" }, exact(text)),
    isLong && h("p", {}, icon("warning"), ` ${text.length.toLocaleString()} characters: scroll to see all of it.`),
  ];
}
