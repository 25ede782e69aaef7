import assert from "node:assert/strict";
import { test } from "node:test";

import "./page.ts";

const { codeBlock } = await import("../../webview/code.ts");
const { GrowingMarkdown, markdown } = await import("../../webview/markdown.ts");

function drawn(text: string, opened: [string, number | undefined][] = []): HTMLElement {
  const element = document.createElement("div");
  element.append(markdown(text, { open: (path, line) => opened.push([path, line]), code: () => undefined }));
  return element;
}

test("Markdown becomes elements", () => {
  const element = drawn("# Found\n\n- **one**\n- `two`\n\n```py\nx = 1\n```");
  assert.equal(element.querySelector("h1")?.textContent, "Found");
  assert.equal(element.querySelector("li strong")?.textContent, "one");
  assert.equal(element.querySelector("pre code")?.textContent, "x = 1\n");
});

test("HTML, scripts, styles and images of a model are removed", () => {
  const hostile =
    '<img src=x onerror=alert(1)> <script>alert(1)</script> ![p](https://x.test/p.png) <b style="x">b</b>';
  const element = drawn(hostile);
  assert.deepEqual(
    [...element.querySelectorAll("*")].map(({ tagName }) => tagName).filter((tag) => tag !== "P" && tag !== "A"),
    [],
  );
});

test("an image becomes a link", () => {
  const [link] = drawn("See ![the <plan>](https://a.test/p.png) and ![](https://a.test/q.png)").querySelectorAll("a");
  assert.equal(link?.textContent, "the <plan>");
  assert.equal(link.getAttribute("href"), "https://a.test/p.png");
  assert.equal(drawn("![x](javascript:alert(1))").textContent.trim(), "![x](javascript:alert(1))");
});

test("links open only web pages and show their target", () => {
  const element = drawn(
    "[a](https://a.test/) [b](javascript:alert(1)) [c](command:x) [d](data:text/html,x) [e](vscode://x)",
  );
  const links = [...element.querySelectorAll("a")];
  assert.deepEqual(links.map((link) => link.getAttribute("href")).filter(Boolean), ["https://a.test/"]);
  assert.equal(links[0]?.title, "https://a.test/");
});

test("a location in a file is a button that opens it", () => {
  const opened: [string, number | undefined][] = [];
  const element = drawn("See `src/retry.py:12-30`, [the loop](src/loop.py:7) and `not a path`.", opened);
  for (const button of element.querySelectorAll("button")) button.click();
  assert.deepEqual(opened, [
    ["src/retry.py", 12],
    ["src/loop.py", 7],
  ]);
});

test("characters that hide or reorder text are spelled out", () => {
  assert.equal(drawn("a\u202eb\u200bc").textContent.trim(), "a\\u{202e}b\\u{200b}c");
});

test("a wide table scrolls separately, also by keyboard", () => {
  const wrapper = drawn("| a | b |\n|---|---|\n| 1 | 2 |").querySelector<HTMLElement>(".table");
  assert.equal(wrapper?.tabIndex, 0);
  assert.equal(wrapper.querySelectorAll("td").length, 2);
});

test("a growing text renders like a complete one and keeps finished blocks", () => {
  const text =
    "# Found\n\nA *long*\nparagraph\n\n- one\n\n- two\n  - three\n\n> quoted\nlazily\n\n```py\nx = 1\n\n\ny = 2\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n---\n\n    code\n\nTitle\n=====\nthe end \u{1f600}";
  const growing = new GrowingMarkdown({ open: () => undefined, code: () => undefined });
  let heading: Element | null = null;
  for (let length = 1; length <= text.length; length++) {
    growing.update(text.slice(0, length));
    if (text[length - 1] === "A") heading = growing.element.querySelector("h1");
    else if (heading) assert.equal(growing.element.querySelector("h1"), heading);
  }
  const plain = (element: HTMLElement): string => element.innerHTML.replaceAll(/>\n+/g, ">");
  assert.ok(heading);
  assert.equal(plain(growing.element), plain(drawn(text)));
});

test("code is highlighted in the language of its fence, and its text stays the same", () => {
  const source = 'def f(x):\n    return "<b>" if x else 3  # why\n';
  const element = drawn(`\`\`\`Python title=a.py\n${source}\`\`\``);
  const words = (kind: string): (string | null)[] =>
    [...element.querySelectorAll(`.hljs-${kind}`)].map(({ textContent }) => textContent);
  assert.deepEqual(words("keyword"), ["def", "return", "if", "else"]);
  assert.deepEqual(words("string"), ['"<b>"']);
  assert.deepEqual(words("comment"), ["# why"]);
  assert.equal(element.querySelector("pre")?.textContent, source);
  assert.equal(element.querySelector(".code-language")?.textContent, "python");
});

test("code of an unknown language, or very long code, stays plain", () => {
  assert.equal(drawn("```klingon\nreturn 1\n```").querySelectorAll("pre span").length, 0);
  const code = codeBlock("x = 1\n".repeat(1000), "python", () => undefined, true);
  assert.equal(code.querySelectorAll("pre span").length, 0);
});

test("the buttons of a code block copy it, insert it and apply it", () => {
  const acted: unknown[] = [];
  const press = (language: string): void => {
    const block = codeBlock("a\n", language, (...act) => acted.push(act), false);
    for (const button of block.querySelectorAll("button")) button.click();
  };
  press("python");
  assert.deepEqual(acted.splice(0), [
    ["apply", "a\n", "python"],
    ["insert", "a\n", "python"],
    ["copy", "a\n", "python"],
  ]);
  press("sh");
  assert.deepEqual(acted, [
    ["insert", "a\n", "sh"],
    ["copy", "a\n", "sh"],
  ]);
});

test("tasks have a sign with a name", () => {
  const element = drawn("- [x] one\n- [ ] two\n- [three](a.py)\n\n1. [X] `four`\n\n   more");
  assert.deepEqual(
    [...element.querySelectorAll("li")].map((item) => [
      item.querySelector("[role=img]")?.getAttribute("aria-label"),
      item.textContent.trim().split("\n")[0],
    ]),
    [
      ["done", "one"],
      ["to do", "two"],
      [undefined, "three"],
      ["done", "four"],
    ],
  );
});

test("addresses are links, names of files are not", () => {
  const links = drawn("See https://a.test/x?y=1, setup.py, a.test and ftp://a.test/.").querySelectorAll("a[href]");
  assert.deepEqual(
    [...links].map((link) => link.getAttribute("href")),
    ["https://a.test/x?y=1"],
  );
});
