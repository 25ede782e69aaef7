/** Proposals as editors show them, and the texts of files from shown texts. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { diffText } from "../src/state/proposal.ts";
import { fileText, hasEditedEscapes, shownSides } from "../src/state/shown.ts";

const SIDES = [
  ["a carriage return in a line", "a b\n", "a\rb\n", "a b\n", "a\\u{d}b\n"],
  ["a carriage return instead of a line feed", "a\nb\n", "a\rb\n", "a\nb\n", "a\\u{d}b\n"],
  ["other line endings", "a\nb\n", "a\r\nb\r\n", "a\nb\n", "a\\u{d}\nb\\u{d}\n"],
  ["mixed line endings", "a\r\nb\n", "a\r\nc\n", "a\\u{d}\nb\n", "a\\u{d}\nc\n"],
  ["a carriage return at the end", "a\r\n", "a\r\nb\r", "a\\u{d}\n", "a\\u{d}\nb\\u{d}"],
  ["reordering characters", "a\n", "a\u202eb\u2066\n", "a\n", "a\\u{202e}b\\u{2066}\n"],
  ["an escape sequence", "", "\u001b[2K\u0000\n", "", "\\u{1b}[2K\\u{0}\n"],
  ["line separators", "", "a\u2028b\u2029\u0085", "", "a\\u{2028}b\\u{2029}\\u{85}"],
  ["a space that is none", "a b\n", "a\u00a0b\n", "a b\n", "a\\u{a0}b\n"],
  ["invisible letters", "", "\u3164\u17b4\u180b\u{e0101}", "", "\\u{3164}\\u{17b4}\\u{180b}\\u{e0101}"],
] as const;

for (const [what, oldText, newText, before, after] of SIDES) {
  test(`${what} is visible on both sides and in the diff`, () => {
    const preview = { type: "diff", uri: "file:///w/a", oldText, newText } as const;
    assert.deepEqual(shownSides(preview), { before, after });
    assert.equal(fileText(preview, after), newText);
    const { text } = diffText(preview);
    assert.ok(text.includes("+"), text);
    for (const escape of after.match(/\\u\{[0-9a-f]+\}/g) ?? [])
      if (!before.includes(escape)) assert.ok(text.includes(escape));
    assert.doesNotMatch(text, /[^\P{C}\n]/u);
  });
}

test("uniform line endings are not spelled out", () => {
  const texts = { oldText: "a\r\nb\r\n", newText: "a\r\nc\r\n" };
  assert.deepEqual(shownSides(texts), { before: texts.oldText, after: texts.newText });
  assert.equal(fileText(texts, "a\r\nd\r\n"), "a\r\nd\r\n");
  assert.equal(diffText({ type: "diff", uri: "file:///w/a", ...texts }).text, "@@ -1,2 +1,2 @@\n a\n-b\n+c");
  assert.equal(fileText({ oldText: "one", newText: "two" }, "two\r\n"), "two\r\n");
});

const MIXED = { oldText: "zero\r\ntwo\n", newText: "one\r\ntwo\nthree\r\nfour\n" };

for (const [what, shown, whole] of [
  ["nothing was edited", "one\\u{d}\ntwo\nthree\\u{d}\nfour\n", MIXED.newText],
  ["a line was changed", "one\\u{d}\ntwo!\nthree\\u{d}\nfour\n", "one\r\ntwo!\nthree\r\nfour\n"],
  ["a line was added", "one\\u{d}\ntwo\nthree\\u{d}\nfive\nfour\n", "one\r\ntwo\nthree\r\nfive\nfour\n"],
  ["an old line was restored", "zero\\u{d}\ntwo\nthree\\u{d}\nfour\n", "zero\r\ntwo\nthree\r\nfour\n"],
  ["the last line end was removed", "one\\u{d}\ntwo\nthree\\u{d}\nfour", "one\r\ntwo\nthree\r\nfour"],
  ["lines were removed", "two\nfour\n", "two\nfour\n"],
  ["all lines were removed", "", ""],
] as const) {
  test(`lines that were not edited keep their characters when ${what}`, () => {
    assert.equal(fileText(MIXED, shown), whole);
    assert.ok(!hasEditedEscapes(MIXED, whole));
  });
}

test("an edited line that contains a spelled out character is found", () => {
  assert.ok(hasEditedEscapes(MIXED, fileText(MIXED, "one!\\u{d}\ntwo\n")));
  // The spelling of a character that the file does not contain is text of the user.
  assert.ok(!hasEditedEscapes(MIXED, "x = '\\u{200b}\\u{a}\\u{ffffff}'\n"));
  const windows = { oldText: "a\r\n", newText: "b\r\n" };
  assert.ok(!hasEditedEscapes(windows, "'\\u{d}'\r\n"));
});
