/** Code blocks of agents: highlighted, with buttons to copy one, insert it at the cursor, and apply it. */
import DOMPurify from "dompurify";
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import csharp from "highlight.js/lib/languages/csharp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import kotlin from "highlight.js/lib/languages/kotlin";
import lua from "highlight.js/lib/languages/lua";
import makefile from "highlight.js/lib/languages/makefile";
import markdown from "highlight.js/lib/languages/markdown";
import php from "highlight.js/lib/languages/php";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import shell from "highlight.js/lib/languages/shell";
import sql from "highlight.js/lib/languages/sql";
import swift from "highlight.js/lib/languages/swift";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

import { h, iconButton } from "./dom.ts";

const GRAMMARS = {
  bash,
  c,
  cpp,
  csharp,
  css,
  diff,
  dockerfile,
  go,
  ini,
  java,
  javascript,
  json,
  kotlin,
  lua,
  makefile,
  markdown,
  php,
  python,
  ruby,
  rust,
  shell,
  sql,
  swift,
  typescript,
  xml,
  yaml,
};
for (const [name, grammar] of Object.entries(GRAMMARS)) hljs.registerLanguage(name, grammar);

/** Languages of commands and plain text, which no file gets. */
const NOT_FOR_FILES = new Set(["", "bash", "sh", "shell", "zsh", "console", "text", "txt", "output"]);
/** Maximum characters that are highlighted; while a block grows, each frame highlights all of it. */
const MAX_HIGHLIGHTED = { whole: 50_000, growing: 4_000 };

export type CodeAction = "copy" | "insert" | "apply";

/**
 * A block with its language and its buttons.
 *
 * @param isGrowing Whether more text of it is expected.
 */
export function codeBlock(
  text: string,
  language: string,
  act: (action: CodeAction, text: string, language: string) => void,
  isGrowing: boolean,
): HTMLElement {
  const acting = (action: CodeAction) => (): void => act(action, text, language);
  const copy = iconButton("copy", "Copy code", () => {
    acting("copy")();
    copy.replaceChildren(h("span", { class: "codicon codicon-check", "aria-hidden": "true" }));
  });
  const apply = iconButton("wand", "Let Deputy apply this code", acting("apply"));
  apply.classList.add("apply");
  return h(
    "div",
    { class: "code" },
    h(
      "div",
      { class: "code-head" },
      h("span", { class: "code-language" }, language),
      NOT_FOR_FILES.has(language) ? undefined : apply,
      iconButton("insert", "Insert code at the cursor", acting("insert")),
      copy,
    ),
    h(
      "pre",
      { tabindex: "0", "aria-label": language ? `Code, ${language}` : "Code" },
      h("code", {}, highlighted(text, language, isGrowing ? MAX_HIGHLIGHTED.growing : MAX_HIGHLIGHTED.whole)),
    ),
  );
}

/** The text with a span around each token; plain if it is long or the language is not known. */
function highlighted(text: string, language: string, limit: number): Node | string {
  if (text.length > limit || !hljs.getLanguage(language)) return text;
  const { value } = hljs.highlight(text, { language, ignoreIllegals: true });
  return DOMPurify.sanitize(value, { ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], RETURN_DOM_FRAGMENT: true });
}
