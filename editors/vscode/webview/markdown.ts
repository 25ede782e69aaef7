/** Markdown of agents as elements: no HTML of theirs passes, links lead to files and web pages only when clicked. */
import DOMPurify from "dompurify";
import MarkdownIt from "markdown-it";

import { visible } from "../src/state/words.ts";

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

const parser = new MarkdownIt({ html: false, linkify: false, breaks: false });
parser.disable("image");

export type OpenPath = (path: string, line: number | undefined) => void;

export function markdown(text: string, open: OpenPath): DocumentFragment {
  const fragment = DOMPurify.sanitize(parser.render(visible(text)), ALLOWED);
  for (const link of fragment.querySelectorAll("a")) becomeLink(link, open);
  for (const code of fragment.querySelectorAll(":not(pre) > code")) becomePath(code, open);
  for (const table of fragment.querySelectorAll("table")) wrapTable(table);
  return fragment;
}

function becomeLink(link: HTMLAnchorElement, open: OpenPath): void {
  const target = link.getAttribute("href") ?? "";
  if (/^https?:/.test(target)) {
    // What a link shows need not be where it leads.
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

/** Wide tables scroll by themselves, by keyboard too. */
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
