/** Messages of a transcript, complete or streaming, and thoughts. */
import type { PastedImage } from "../src/page/messages.ts";
import type { MessageEntry, Range, ThoughtEntry } from "../src/protocol.ts";
import type { Stream } from "../src/state/session.ts";
import { lines, visible } from "../src/state/text.ts";
import { fill, h, icon, setText } from "./dom.ts";
import { EntryPart } from "./entry.ts";
import { type Acts, GrowingMarkdown, markdown } from "./markdown.ts";
import { RewindButton } from "./rewind.ts";
import type { Part, View } from "./view.ts";

/** Maximum characters of a message shown here; a longer one opens in an editor. */
const MAX_SHOWN = 100_000;

export class MessagePart extends EntryPart<MessageEntry> {
  readonly element: HTMLElement;
  readonly #article: HTMLElement;
  readonly #images = h("div", { class: "images" });
  readonly #rewind: RewindButton | undefined;
  #shownImages: unknown;

  constructor(entry: MessageEntry) {
    super(entry);
    const isPrompt = entry.role === "user";
    this.#article = h("article", {
      class: `message ${entry.role}`,
      "aria-label": isPrompt ? "You" : "Deputy",
    });
    this.#rewind = isPrompt ? new RewindButton(entry) : undefined;
    this.element = this.#rewind ? h("div", { class: "prompted" }) : this.#article;
    if (this.#rewind) this.element.append(this.#rewind.element, this.#article, this.#rewind.card.element);
  }

  override update(view: View): void {
    super.update(view);
    this.#rewind?.update(view);
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
    else body.append(markdown(shown, actsOf(view)));
    const { agentId, messageId } = this.entry;
    const locations = (references ?? []).filter(({ uri, range }) => !isLinked(text, uri, range));
    fill(
      this.#article,
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

/** Opens the paths in an agent's text, and uses its code blocks. */
export function actsOf({ send }: View): Acts {
  return {
    open: (path, line) => send({ type: "path", path, ...(line && { line }) }),
    code: (action, code, language) => {
      if (action !== "apply") return send({ type: action, text: code });
      const text = `Apply this code to the file it belongs to:\n\n${fenced(code, language)}`;
      send({ type: "prompt", text, mentions: [], images: [] });
    },
  };
}

/** Code in a fence that is longer than any in it. */
function fenced(code: string, language: string): string {
  const longest = Math.max(2, ...[...code.matchAll(/`+/g)].map(([marks]) => marks.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${code.replace(/\n?$/, "\n")}${fence}`;
}

function imageOf({ mimeType, data }: PastedImage, index: number): HTMLElement {
  return h("img", { src: `data:${mimeType};base64,${data}`, alt: `Image ${String(index + 1)} of the prompt` });
}

export class StreamPart implements Part {
  readonly element: HTMLElement;
  readonly #agentId: string;
  readonly #thought = h("details", { class: "thought" });
  readonly #thoughtText = h("div", { class: "thought-text" });
  readonly #text: GrowingMarkdown;
  readonly #more = h("p", { class: "muted" });
  #drawn: Stream | undefined;

  constructor(agentId: string, view: View) {
    this.#agentId = agentId;
    this.#text = new GrowingMarkdown(actsOf(view));
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

/** What the model thought, folded until the user opens it. */
export class ThoughtPart extends EntryPart<ThoughtEntry> {
  readonly element = h("details", { class: "thought" });
  readonly #text = h("div", { class: "thought-text" });

  constructor(entry: ThoughtEntry) {
    super(entry);
    this.element.append(h("summary", {}, "Thinking"), this.#text);
  }

  protected draw(): void {
    this.#text.textContent = visible(this.entry.text.slice(0, MAX_SHOWN));
  }
}

/** Whether the text itself has a link to the place: the end of its path, and its lines. */
function isLinked(text: string, uri: string, range: Range): boolean {
  const path = decodeURIComponent(new URL(uri).pathname);
  const links = text.match(/[\w@.+/-]+:\d+(?:-\d+)?/g) ?? [];
  return links.some((link) => `${path}:${lines(range)}`.endsWith(`/${link}`));
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
