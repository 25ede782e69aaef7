/** The prompt box. Enter sends, Shift+Enter adds a line; no key here answers a permission request. */
import type { Mention, PastedImage } from "../src/page/messages.ts";
import type { CompleteResult, PromptQueueEntry } from "../src/protocol.ts";
import { isBusy, type SessionState } from "../src/state/session.ts";
import { PromptHistory } from "../src/state/history.ts";
import { gauge, modeOf, oneLine } from "../src/state/text.ts";
import { Completions } from "./completions.ts";
import { button, fill, h, icon, iconButton, setText } from "./dom.ts";
import type { Part, View } from "./view.ts";

const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"] as const;
const PLACEHOLDER = "Ask, or describe a task";
const MAX_IMAGE = 5 * 1024 * 1024;

/** The state that is kept while the page is hidden. */
export interface Draft {
  readonly text: string;
  readonly mentions: readonly Mention[];
}

/** A queued prompt, as its row shows it. */
type Queued = Pick<PromptQueueEntry, "text" | "pictures">;

export class Composer implements Part {
  readonly element: HTMLElement;
  readonly #text = h("textarea", {
    class: "prompt",
    rows: "1",
    placeholder: PLACEHOLDER,
    "aria-label": "Prompt",
  });
  readonly #completions = new Completions(
    this.#text,
    (text) => this.#send({ type: "complete", text }),
    () => this.#changed(),
  );
  readonly #chips = h("div", { class: "chips" });
  readonly #queue = h("div", { class: "queue" });
  readonly #mode = h("button", {
    type: "button",
    class: "pick always",
    onClick: () => this.#send({ type: "pickMode" }),
  });
  readonly #model = h("button", {
    type: "button",
    class: "pick",
    onClick: () => this.#send({ type: "pickModel" }),
  });
  readonly #context = h("button", {
    type: "button",
    class: "pick",
    onClick: () => this.#send({ type: "prompt", text: "/context", mentions: [], images: [] }),
  });
  readonly #folder = h("span", { class: "folder muted" });
  readonly #attach = iconButton("add", "Add files to the prompt", () => this.#send({ type: "attach" }));
  readonly #submitter = iconButton("send", "Send (Enter)", () => this.#submit());
  readonly #stop = button("Stop", () => this.#send({ type: "cancelTurn" }), {
    class: "secondary small always",
    icon: "debug-stop",
    label: "Stop all agents of this session",
    title: "Stop all agents of this session (Esc)",
  });
  readonly #remember: (draft: Draft) => void;
  readonly #send: View["send"];
  readonly #history = new PromptHistory();
  #mentions: readonly Mention[] = [];
  #images: readonly PastedImage[] = [];
  #queued: SessionState["queue"] | undefined;
  #isServed = false;
  /** Prompts sent while the server was not running. */
  #early: readonly Queued[] = [];

  /** Prompts are passed to `send` immediately, also before there is a session. */
  constructor(draft: Draft | undefined, remember: (draft: Draft) => void, send: View["send"]) {
    this.#remember = remember;
    this.#send = send;
    this.#submitter.classList.add("send", "always");
    const box = h(
      "div",
      { class: "box" },
      this.#chips,
      this.#text,
      h(
        "div",
        { class: "tools" },
        this.#attach,
        this.#mode,
        this.#model,
        this.#context,
        this.#folder,
        h("span", { class: "space" }),
        this.#stop,
        this.#submitter,
      ),
    );
    this.element = h("form", { class: "composer" }, this.#queue, this.#completions.element, box);
    this.element.addEventListener("submit", (event) => event.preventDefault());
    this.#text.addEventListener("keydown", (event) => this.#key(event));
    this.#text.addEventListener("input", () => this.#changed());
    this.#text.addEventListener("paste", (event) => this.#paste(event));
    if (draft) {
      this.#text.value = draft.text;
      this.#mentions = draft.mentions;
    }
    this.#drawChips();
  }

  update(view: View): void {
    const { snapshot, entries, primaryId } = view.state;
    this.#history.update(entries[primaryId ?? ""]);
    this.#text.disabled = snapshot;
    this.#text.placeholder = snapshot ? "Read-only: the session is open in another window" : PLACEHOLDER;
    for (const one of [this.#attach, this.#mode, this.#model, this.#context, this.#submitter]) one.disabled = snapshot;
    const busy = isBusy(view.state);
    if (!busy && document.activeElement === this.#stop) this.focus();
    this.#stop.hidden = !busy;
    this.#submitter.title = busy ? "Queue (Enter): runs after this turn" : "Send (Enter)";
    const { mode, model, folder } = view.around;
    this.#folder.hidden = folder === "";
    this.#folder.title = `Agents of this session work in ${folder}`;
    setText(this.#folder, folder);
    draw(this.#mode, modeOf(mode).name, `Permission mode: ${modeOf(mode).about}`);
    draw(this.#model, model || "Model", "Model of this session");
    const { share, about } = gauge(view.state.agents[view.state.primaryId ?? ""]?.context);
    this.#context.hidden = share === "";
    draw(this.#context, share, `Context window: ${about}. Show what fills it`);
    this.#isServed = view.around.server === "running";
    if (this.#early.length && view.around.server !== "starting") this.#early = [];
    else if (this.#queued === view.state.queue) return;
    this.#drawQueue(view.state.queue);
  }

  /** Adds files and images, and text before the current text. */
  add(mentions: readonly Mention[], text = "", images: readonly PastedImage[] = []): void {
    const known = new Set(this.#mentions.map(key));
    this.#mentions = [...this.#mentions, ...mentions.filter((mention) => !known.has(key(mention)))];
    this.#images = [...this.#images, ...images];
    if (text) this.#text.value = this.#text.value ? `${text}\n\n${this.#text.value}` : text;
    this.#changed();
    this.#drawChips();
    this.focus();
  }

  focus(): void {
    this.#text.focus();
  }

  complete(text: string, answer: CompleteResult): void {
    this.#completions.show(text, answer);
  }

  #key(event: KeyboardEvent): void {
    if (this.#completions.key(event)) return;
    if (event.key === "Escape" && !event.isComposing && !this.#stop.hidden) {
      event.preventDefault();
      this.#send({ type: "cancelTurn" });
      return;
    }
    if (this.#recall(event)) return event.preventDefault();
    // Safari ends a composition before the event of the key that ended it, which has this code.
    // eslint-disable-next-line @typescript-eslint/no-deprecated
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    this.#submit();
  }

  /** Shows the earlier or later prompt, if the key moves out of the text; whether it does. */
  #recall(event: KeyboardEvent): boolean {
    const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    const { value, selectionStart, selectionEnd } = this.#text;
    if (step === undefined || event.shiftKey || event.altKey || event.isComposing) return false;
    const beyond = step > 0 ? value.slice(0, selectionStart) : value.slice(selectionEnd);
    const recalled = beyond.includes("\n") ? undefined : this.#history.move(step, value);
    if (recalled === undefined) return false;
    this.#text.value = recalled;
    this.#changed();
    const end = step > 0 ? 0 : recalled.length;
    this.#text.setSelectionRange(end, end);
    return true;
  }

  #submit(): void {
    const text = this.#text.value.trim();
    if (!text && this.#images.length === 0) return;
    this.#send({ type: "prompt", text, mentions: this.#mentions, images: this.#images });
    if (!this.#isServed) {
      this.#early = [...this.#early, { text, pictures: this.#images.length }];
      this.#drawQueue(this.#queued ?? []);
    }
    this.#text.value = "";
    this.#history.reset();
    this.#mentions = this.#images = [];
    this.#changed();
    this.#drawChips();
  }

  #changed(): void {
    this.#remember({ text: this.#text.value, mentions: this.#mentions });
    this.#text.style.height = "auto";
    this.#text.style.height = `${this.#text.scrollHeight}px`;
  }

  #paste(event: ClipboardEvent): void {
    for (const file of event.clipboardData?.files ?? []) {
      const mimeType = IMAGE_TYPES.find((type) => type === file.type);
      if (!mimeType) continue;
      event.preventDefault();
      if (file.size > MAX_IMAGE) {
        this.#send({ type: "tooLarge", limit: MAX_IMAGE });
        continue;
      }
      const reader = new FileReader();
      reader.addEventListener("load", () => {
        const data = typeof reader.result === "string" ? reader.result.split(",")[1] : undefined;
        if (!data) return;
        this.#images = [...this.#images, { mimeType, data }];
        this.#drawChips();
      });
      reader.readAsDataURL(file);
    }
  }

  #drawChips(): void {
    this.#chips.hidden = this.#mentions.length + this.#images.length === 0;
    const chip = (content: Node | string, label: string, remove: () => void): HTMLElement =>
      h("span", { class: "chip" }, content, iconButton("close", `Remove ${label}`, remove));
    fill(
      this.#chips,
      ...this.#mentions.map((mention) =>
        chip(oneLine(mention.label, 60), mention.label, () => {
          this.#mentions = this.#mentions.filter((one) => one !== mention);
          this.#changed();
          this.#drawChips();
        }),
      ),
      ...this.#images.map((image) =>
        chip(h("img", { src: `data:${image.mimeType};base64,${image.data}`, alt: "Pasted image" }), "image", () => {
          this.#images = this.#images.filter((one) => one !== image);
          this.#drawChips();
        }),
      ),
    );
  }

  #drawQueue(queue: SessionState["queue"]): void {
    this.#queued = queue;
    this.#queue.hidden = queue.length + this.#early.length === 0;
    const row = ({ text, pictures = 0 }: Queued, status: string, ...more: readonly Node[]): HTMLElement => {
      const images = pictures === 0 ? "" : pictures === 1 ? "1 image" : `${pictures} images`;
      return h(
        "div",
        { class: "queued", title: [`${status}: ${oneLine(text, 500)}`, images].filter(Boolean).join(" · ") },
        icon("clock"),
        h("span", { class: "queued-text" }, oneLine(text, 120)),
        images && h("span", { class: "muted" }, icon("device-camera"), ` ${images}`),
        ...more,
      );
    };
    const remove = (promptId: string): HTMLElement =>
      iconButton("close", "Remove from queue", () => this.#send({ type: "unqueue", promptId }));
    fill(
      this.#queue,
      ...this.#early.map((prompt) => row(prompt, "Sent when Deputy has started")),
      ...queue.map((prompt) => row(prompt, "Runs after this turn", remove(prompt.promptId))),
    );
  }
}

function draw(element: HTMLElement, text: string, title: string): void {
  if (element.textContent === text && element.title === title) return;
  fill(element, text);
  element.title = title;
  element.setAttribute("aria-label", `${text}: ${title}`);
}

function key(mention: Mention): string {
  return JSON.stringify([mention.uri, mention.range]);
}
