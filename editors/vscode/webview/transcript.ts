/** A transcript: messages, tool calls and blocks of sub-agents, in order. */
import type { PastedImage } from "../src/page/messages.ts";
import type { MessageEntry, Range, ToolCallEntry } from "../src/protocol.ts";
import type { Entry, Stream } from "../src/state/session.ts";
import { lines, oneLine, signOfCall, visible } from "../src/state/text.ts";
import { AgentBlock } from "./block.ts";
import { arrange, fill, h, icon, setText } from "./dom.ts";
import { GrowingMarkdown, markdown, type OpenPath } from "./markdown.ts";
import { ApprovalCard } from "./approval.ts";
import type { Part, View } from "./view.ts";

/** The shown part of a transcript: all of it, or only the calls in a sub-agent's block. */
export type Detail = "whole" | "calls";

const RECENT_CALLS = 6;
/** Maximum characters of a message shown here; a longer one opens in an editor. */
const MAX_SHOWN = 100_000;

export class Transcript implements Part {
  readonly element = h("div", { class: "transcript" });
  readonly #agentId: string;
  readonly #detail: Detail;
  readonly #parts = new Map<string, Part>();
  #showsAll = false;
  #view: View | undefined;

  constructor(agentId: string, detail: Detail) {
    this.#agentId = agentId;
    this.#detail = detail;
  }

  update(view: View): void {
    this.#view = view;
    const { entries, streams, requests } = view.state;
    const own = this.#shown(entries[this.#agentId] ?? []);
    const wanted = new Map<string, Part>();
    const hidden = this.#hidden(own);
    if (hidden > 0) this.#want(wanted, "more", () => new Earlier(() => this.#showAll()));
    for (const entry of own.slice(hidden)) this.#want(wanted, keyOf(entry), () => partOf(entry));
    const stream = streams[this.#agentId];
    if (stream && this.#detail === "whole")
      this.#want(wanted, `stream/${stream.messageId}`, () => new StreamPart(this.#agentId, view));
    for (const request of Object.values(requests)) {
      if (request.agent.agentId === this.#agentId)
        this.#want(wanted, `approval/${request.requestId}`, () => new ApprovalCard(request));
    }
    this.#replace(wanted);
    const latest = new Map(own.map((entry) => [keyOf(entry), entry]));
    for (const [key, part] of wanted) {
      if (part instanceof Earlier) part.count = hidden;
      const entry = latest.get(key);
      if (entry && "entry" in part) part.entry = entry;
      part.update(view);
    }
  }

  #want(wanted: Map<string, Part>, key: string, make: () => Part): void {
    wanted.set(key, this.#parts.get(key) ?? make());
  }

  #replace(wanted: Map<string, Part>): void {
    // Only for a pressed button: a user writing a reason must not continue typing elsewhere.
    const pressed = document.activeElement?.closest("button") ?? null;
    const answered = [...this.#parts].some(
      ([key, { element }]) => !wanted.has(key) && pressed && element.contains(pressed),
    );
    this.#parts.clear();
    for (const [key, part] of wanted) this.#parts.set(key, part);
    arrange(
      this.element,
      [...wanted.values()].map((part) => part.element),
    );
    if (answered) focusNext();
  }

  /** The shown entries: without calls that started an agent, and in a block without messages. */
  #shown(entries: readonly Entry[]): readonly Entry[] {
    const delegations = new Set(entries.map((entry) => (entry.type === "agent" ? entry.toolCallId : undefined)));
    return entries.filter((entry) => {
      if (entry.type === "tool_call") return !delegations.has(entry.toolCallId);
      return entry.type === "agent" || this.#detail === "whole";
    });
  }

  #hidden(entries: readonly Entry[]): number {
    const first = entries.findIndex((entry) => entry.type !== "tool_call");
    const calls = first < 0 ? entries.length : first;
    return this.#detail === "calls" && !this.#showsAll ? Math.max(0, calls - RECENT_CALLS) : 0;
  }

  #showAll(): void {
    this.#showsAll = true;
    if (this.#view) this.update(this.#view);
  }
}

/** An entry keeps its element; its content is redrawn only when the entry object changes. */
abstract class EntryPart<E extends Entry = Entry> implements Part {
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

class MessagePart extends EntryPart<MessageEntry> {
  readonly element: HTMLElement;
  readonly #images = h("div", { class: "images" });
  #shownImages: unknown;

  constructor(entry: MessageEntry) {
    super(entry);
    this.element = h("article", {
      class: `message ${entry.role}`,
      "aria-label": entry.role === "user" ? "You" : "Deputy",
    });
  }

  override update(view: View): void {
    super.update(view);
    const images = view.images[this.entry.messageId];
    if (this.#shownImages !== images) fill(this.#images, ...(images ?? []).map(imageOf));
    this.#shownImages = images;
  }

  protected draw(view: View): void {
    const { role, text, references, pictures = 0 } = this.entry;
    const body = h("div", { class: "markdown" });
    body.hidden = text.trim() === "";
    if (pictures && !this.#shownImages) {
      fill(this.#images, icon("file-media"), pictures === 1 ? " 1 image" : ` ${String(pictures)} images`);
    }
    const shown = text.slice(0, MAX_SHOWN);
    if (role === "user") body.textContent = visible(shown);
    else body.append(markdown(shown, opening(view)));
    const { agentId, messageId } = this.entry;
    const locations = references ?? [];
    fill(
      this.element,
      pictures > 0 && this.#images,
      body,
      shown !== text &&
        h(
          "button",
          { type: "button", class: "link", onClick: () => view.send({ type: "message", agentId, messageId }) },
          `Show all ${text.length.toLocaleString()} characters`,
        ),
      locations.length > 0 &&
        h("p", { class: "references" }, ...locations.map((one) => reference(view, one.uri, one.range))),
    );
  }
}

/** Opens the paths in a text. */
function opening(view: View): OpenPath {
  return (path, line) => view.send({ type: "path", path, ...(line && { line }) });
}

function imageOf({ mimeType, data }: PastedImage, index: number): HTMLElement {
  return h("img", { src: `data:${mimeType};base64,${data}`, alt: `Image ${String(index + 1)} of the prompt` });
}

class StreamPart implements Part {
  readonly element: HTMLElement;
  readonly #agentId: string;
  readonly #thought = h("details", { class: "thought" });
  readonly #thoughtText = h("div", { class: "thought-text" });
  readonly #text: GrowingMarkdown;
  readonly #more = h("p", { class: "muted" });
  #drawn: Stream | undefined;

  constructor(agentId: string, view: View) {
    this.#agentId = agentId;
    this.#text = new GrowingMarkdown(opening(view));
    this.#thought.append(h("summary", {}, "Thinking"), this.#thoughtText);
    this.element = h(
      "article",
      { class: "message assistant streaming", "aria-label": "Deputy", "aria-busy": "true" },
      this.#thought,
      this.#text.element,
      this.#more,
    );
  }

  update(view: View): void {
    const stream = view.state.streams[this.#agentId];
    if (!stream || stream === this.#drawn) return;
    const before = this.#drawn;
    this.#drawn = stream;
    this.#thought.hidden = !stream.thought;
    if (stream.thought !== before?.thought) this.#thoughtText.textContent = visible(stream.thought);
    this.#text.update(stream.text.slice(0, MAX_SHOWN));
    this.#more.hidden = stream.text.length <= MAX_SHOWN;
    setText(this.#more, `… ${stream.text.length.toLocaleString()} characters so far`);
  }
}

class CallPart extends EntryPart<ToolCallEntry> {
  readonly element = h("div", { class: "call" });
  readonly #row = h("div", { class: "call-row" });
  readonly #output = h("pre", { class: "output", tabindex: "0", "aria-label": "Result" });
  /** Output of a running call; removed when the call ends and its result can be unfolded. */
  readonly #live = h("pre", { class: "output live", tabindex: "0", "aria-label": "Output so far" });
  readonly #whole = h("button", { type: "button", class: "link whole", onClick: () => this.#openWhole() }, "Show all");
  #view: View | undefined;
  #liveText: string | undefined;

  constructor(entry: ToolCallEntry) {
    super(entry);
    this.#output.hidden = this.#live.hidden = this.#whole.hidden = true;
    this.element.append(this.#row, this.#live, this.#output, this.#whole);
  }

  override update(view: View): void {
    this.#view = view;
    super.update(view);
    const text = view.state.outputs[this.entry.toolCallId];
    if (this.#liveText === text) return;
    this.#liveText = text;
    this.#live.hidden = text === undefined;
    this.#live.textContent = visible(text ?? "");
    this.#live.scrollTop = this.#live.scrollHeight;
  }

  protected draw(view: View): void {
    const { status, title, content, locations } = this.entry;
    const sign = signOfCall(status);
    const text = oneLine(title.replace(/^\[[^\]]*\] /, ""), 160);
    const place = locations[0];
    const name = place
      ? h(
          "button",
          {
            type: "button",
            class: "call-title link",
            title: text,
            onClick: () => view.send({ type: "open", uri: place.uri, ...(place.range && { range: place.range }) }),
          },
          text,
        )
      : h("span", { class: "call-title", title: text }, text);
    const toggle = h(
      "button",
      {
        type: "button",
        class: "icon-button",
        title: "Result",
        "aria-label": "Show the result",
        "aria-expanded": String(!this.#output.hidden),
        onClick: () => this.#toggle(toggle),
      },
      icon("chevron-right"),
    );
    this.element.dataset["status"] = status;
    fill(
      this.#row,
      h("span", { class: `sign ${status}`, role: "img", "aria-label": sign.word }, icon(sign.icon, sign.spin)),
      name,
      content !== undefined && toggle,
    );
    this.#output.textContent = visible(content ?? "");
  }

  #openWhole(): void {
    const { agentId, toolCallId } = this.entry;
    this.#view?.send({ type: "output", agentId, toolCallId });
  }

  #toggle(button: HTMLElement): void {
    this.#output.hidden = !this.#output.hidden;
    this.#whole.hidden = this.#output.hidden || !this.entry.truncated;
    button.setAttribute("aria-expanded", String(!this.#output.hidden));
  }
}

/** The link `+ 12 earlier calls`, which shows them. */
class Earlier implements Part {
  readonly element: HTMLElement;
  count = 0;

  constructor(show: () => void) {
    this.element = h("button", { type: "button", class: "link earlier", onClick: show });
  }

  update(): void {
    this.element.textContent = `+ ${this.count} earlier ${this.count === 1 ? "call" : "calls"}`;
  }
}

/** After an answer by keyboard, focuses the next approval or the prompt box, so that the focus stays in the page. */
function focusNext(): void {
  const next = document.querySelector<HTMLElement>(".approval") ?? document.querySelector<HTMLElement>(".prompt");
  next?.focus();
}

function partOf(entry: Entry): Part {
  switch (entry.type) {
    case "message":
      return new MessagePart(entry);
    case "tool_call":
      return new CallPart(entry);
    case "agent":
      return new AgentBlock(entry);
  }
}

function keyOf(entry: Entry): string {
  return `${entry.type}/${entry.seq}`;
}

function reference(view: View, uri: string, range: Range): HTMLElement {
  const below = `${view.state.info?.cwd ?? ""}/`;
  const name = uri.startsWith(below) ? uri.slice(below.length) : uri.split("/").slice(-2).join("/");
  return h(
    "button",
    { type: "button", class: "path", onClick: () => view.send({ type: "open", uri, range }) },
    visible(`${decodeURIComponent(name)}:${lines(range)}`),
  );
}
