/** Markdown of agents as elements: without HTML from agents; links open files and web pages only when clicked. */
import DOMPurify from "dompurify";
import MarkdownIt, { type Token } from "markdown-it";

import { visible } from "../src/state/text.ts";
import { type CodeAction, codeBlock } from "./code.ts";
import { h, icon } from "./dom.ts";

const PATH = /^(?:\.{0,2}\/)?[\w@.+-]+(?:\/[\w@.+-]+)*\.\w+(?::(\d+)(?:-\d+)?)?$/;
const ALLOWED = {
  ALLOWED_TAGS: [
    "p",
    "br",
    "hr",
    "strong",
    "em",
    "s",
    "code",
    "pre",
    "blockquote",
    "ul",
    "ol",
    "li",
    "a",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
  ],
  ALLOWED_ATTR: ["href", "start"],
  ALLOWED_URI_REGEXP: /^(?:https?:|[^:]*$|[^:]*:\d)/,
  RETURN_DOM_FRAGMENT: true as const,
};

const parser = new MarkdownIt({ html: false, linkify: true, breaks: false });
// Only addresses with a protocol: `setup.py` is not one.
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });
/** Nothing is loaded from the network: an image becomes a link to it. */
parser.renderer.rules.image = (tokens, index) => {
  const [token, { escapeHtml }] = [tokens[index], parser.utils];
  return `<a href="${escapeHtml(String(token?.attrGet("src") ?? ""))}">${escapeHtml(token?.content || "image")}</a>`;
};

/** The language of a block is the first word after its fence. */
parser.renderer.rules.fence = (tokens, index) => {
  const [token, { escapeHtml }] = [tokens[index], parser.utils];
  const [language = ""] = (token?.info ?? "")
    .trim()
    .toLowerCase()
    .split(/[\s,{]/);
  return `<pre data-language="${escapeHtml(language)}"><code>${escapeHtml(token?.content ?? "")}</code></pre>`;
};

/** What the parts of a text do when they are clicked. */
export interface Acts {
  readonly open: (path: string, line: number | undefined) => void;
  readonly code: (action: CodeAction, text: string, language: string) => void;
}
type OpenPath = Acts["open"];

export function markdown(text: string, acts: Acts): DocumentFragment {
  return fragmentOf(parser.parse(visible(text), {}), acts);
}

/** A growing text: finished blocks are kept, only the last one is rendered again. */
export class GrowingMarkdown {
  readonly element = h("div", { class: "markdown" });
  readonly #acts: Acts;
  #text = "";
  /** Characters whose blocks are finished. */
  #finished = 0;
  #last: readonly Node[] = [];

  constructor(acts: Acts) {
    this.#acts = acts;
  }

  /** Shows `text`, which starts with the previous text. */
  update(text: string): void {
    if (text === this.#text) return;
    this.#text = text;
    const rest = text.slice(this.#finished);
    const tokens = parser.parse(visible(rest), {});
    const last = tokens.findLastIndex((token) => token.level === 0 && token.nesting >= 0 && token.map);
    const finished = fragmentOf(tokens.slice(0, Math.max(0, last)), this.#acts);
    const growing = fragmentOf(tokens.slice(Math.max(0, last)), this.#acts, true);
    for (const node of this.#last) (node as ChildNode).remove();
    this.#last = [...growing.childNodes];
    this.element.append(finished, growing);
    this.#finished += offsetOf(rest, tokens[last]?.map?.[0] ?? 0);
  }
}

/** The offset of a line; lines count from 0. */
function offsetOf(text: string, line: number): number {
  let offset = 0;
  for (let count = 0; count < line; count++) offset = text.indexOf("\n", offset) + 1;
  return offset;
}

function fragmentOf(tokens: Token[], { open, code: act }: Acts, isGrowing = false): DocumentFragment {
  const fragment = DOMPurify.sanitize(parser.renderer.render(tokens, parser.options, {}), ALLOWED);
  for (const pre of fragment.querySelectorAll("pre"))
    pre.replaceWith(codeBlock(pre.textContent, pre.dataset["language"] ?? "", act, isGrowing));
  for (const item of fragment.querySelectorAll("li")) becomeTask(item);
  for (const link of fragment.querySelectorAll("a")) becomeLink(link, open);
  for (const code of fragment.querySelectorAll(":not(pre) > code")) becomePath(code, open);
  for (const table of fragment.querySelectorAll("table")) wrapTable(table);
  return fragment;
}

/** Shows `[ ]` and `[x]` at the start of an item as a sign. */
function becomeTask(item: HTMLLIElement): void {
  const [text] = item.querySelector(":scope > p:first-child")?.childNodes ?? item.childNodes;
  const box = text instanceof Text ? /^\[([ xX])\]\s/.exec(text.data) : null;
  if (!(text instanceof Text) || !box) return;
  const isDone = box[1] !== " ";
  text.data = text.data.slice(box[0].length);
  item.className = "task";
  const sign = {
    class: `sign ${isDone ? "completed" : ""}`.trim(),
    role: "img",
    "aria-label": isDone ? "done" : "to do",
  };
  text.before(h("span", sign, icon(isDone ? "check" : "circle-large-outline")), " ");
}

function becomeLink(link: HTMLAnchorElement, open: OpenPath): void {
  const target = link.getAttribute("href") ?? "";
  if (/^https?:/.test(target)) {
    // The text of a link can differ from its target.
    link.title = target;
    return;
  }
  link.removeAttribute("href");
  const path = decodeURIComponentSafely(target);
  link.replaceWith(PATH.test(path) ? pathButton(link.textContent || path, path, open) : link.textContent);
}

function becomePath(code: Element, open: OpenPath): void {
  const text = code.textContent;
  if (PATH.test(text) && (text.includes("/") || text.includes(":"))) code.replaceWith(pathButton(text, text, open));
}

function pathButton(text: string, path: string, open: OpenPath): HTMLButtonElement {
  const line = PATH.exec(path)?.[1];
  const made = document.createElement("button");
  made.type = "button";
  made.className = "path";
  made.textContent = text;
  made.title = `Open ${path}`;
  made.addEventListener("click", () =>
    open(path.replace(/:\d+(-\d+)?$/, ""), line === undefined ? undefined : Number(line)),
  );
  return made;
}

/** Makes wide tables scrollable, also by keyboard. */
function wrapTable(table: HTMLTableElement): void {
  const wrapper = document.createElement("div");
  wrapper.className = "table";
  wrapper.tabIndex = 0;
  table.replaceWith(wrapper);
  wrapper.append(table);
}

function decodeURIComponentSafely(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
