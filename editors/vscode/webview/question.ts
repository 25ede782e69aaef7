/** A question of an agent or an MCP server, as a form in the block of its agent. Only its buttons answer it. */
import type { InputField, InputOutcome, InputRequest } from "../src/protocol.ts";
import { exact, oneLine } from "../src/state/text.ts";
import { button, h, icon } from "./dom.ts";
import type { Part, View } from "./view.ts";

type Value = string | number | boolean | readonly string[];

/** A field on the page, and the value that the user has entered; undefined if there is none. */
interface Entry {
  readonly element: HTMLElement;
  readonly name: string;
  readonly value: () => Value | undefined;
}

export class QuestionCard implements Part {
  readonly element: HTMLElement;
  readonly #request: InputRequest;
  readonly #entries: readonly Entry[];
  #view: View | undefined;

  constructor(request: InputRequest) {
    this.#request = request;
    this.#entries = request.fields.map((field) => entryOf(request.requestId, field));
    const { title, message, server, url, requestId } = request;
    const text = oneLine(title, 160);
    this.element = h(
      "form",
      { class: "approval question", "aria-label": `Question: ${text}`, "data-request": requestId, tabindex: "-1" },
      h("header", { class: "approval-head" }, icon("comment"), h("span", { class: "approval-title" }, text)),
      h("p", { class: "question-text" }, exact(message)),
      server ? h("p", { class: "muted" }, `Asked by the MCP server ${oneLine(server, 60)}.`) : undefined,
      url === undefined ? undefined : h("pre", { class: "command", "aria-label": "Page" }, exact(url)),
      ...this.#entries.map(({ element }) => element),
      h(
        "div",
        { class: "answers" },
        button(url === undefined ? "Answer" : "Open page", () => this.#answer("accepted"), { class: "primary" }),
        button("Decline", () => this.#answer("declined"), { class: "secondary" }),
      ),
    );
    this.element.addEventListener("submit", (event) => event.preventDefault());
    this.element.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      this.#answer("accepted");
    });
  }

  update(view: View): void {
    this.#view = view;
  }

  #answer(outcome: InputOutcome): void {
    const entered = this.#entries.map(({ name, value }) => [name, value()] as const);
    const values = Object.fromEntries(entered.filter(([, value]) => value !== undefined));
    const { requestId } = this.#request;
    this.#view?.send({ type: "answer", requestId, outcome, ...(outcome === "accepted" && { values }) });
  }
}

function entryOf(requestId: string, field: InputField): Entry {
  const { name, title, description, required } = field;
  // The only field of a question of an agent needs no name beside the question.
  const label = title ?? (name === "answer" ? "" : name);
  const head = label && h("span", { class: "question-label" }, exact(label), required ? "" : " (optional)");
  const about = description ? h("span", { class: "muted" }, exact(description)) : undefined;
  const [control, value] = controlOf(requestId, field);
  return { name, value, element: h("div", { class: "question-field" }, head || undefined, about, ...control) };
}

function controlOf(requestId: string, field: InputField): [readonly HTMLElement[], () => Value | undefined] {
  const label = field.title ?? field.name;
  switch (field.type) {
    case "choice":
    case "choices":
      return options(requestId, field);
    case "boolean": {
      const box = h("input", { type: "checkbox", "aria-label": label });
      box.checked = field.default === true;
      return [[h("label", { class: "question-option" }, box, " Yes")], () => box.checked];
    }
    case "number": {
      const box = h("input", { type: "text", class: "question-input", "aria-label": label });
      box.value = field.default === undefined ? "" : String(field.default);
      // What is no number goes to the server as it is, which says so.
      return [[box], () => (box.value.trim() === "" ? undefined : numberOf(box.value))];
    }
    default: {
      const box = h("textarea", { rows: "2", "aria-label": label });
      box.value = typeof field.default === "string" ? field.default : "";
      return [[box], () => box.value || undefined];
    }
  }
}

function options(requestId: string, field: InputField): [readonly HTMLElement[], () => Value | undefined] {
  const isSingle = field.type === "choice";
  const chosen: readonly unknown[] = Array.isArray(field.default) ? field.default : [field.default];
  const boxes = (field.options ?? []).map(({ value, title }) => {
    const box = h("input", { type: isSingle ? "radio" : "checkbox" });
    box.name = `${requestId}/${field.name}`;
    box.checked = chosen.includes(value);
    return { box, value, row: h("label", { class: "question-option" }, box, ` ${exact(title)}`) };
  });
  const values = (): readonly string[] => boxes.filter(({ box }) => box.checked).map(({ value }) => value);
  return [boxes.map(({ row }) => row), () => (isSingle ? values()[0] : values())];
}

function numberOf(text: string): Value {
  const number = Number(text);
  return Number.isFinite(number) ? number : text;
}
