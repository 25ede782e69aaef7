/** Text as it is shown where there is little room. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { brief, iconless, isOneSign, lines } from "../src/state/words.ts";

const BRIEF = [
  ["what fits", "improve the greeting", "improve the greeting"],
  ["a sentence", "read the callers of retry", "read the callers…"],
  ["a name of great length", "rewrite AbstractRetryFactory", "rewrite AbstractRet…"],
  ["hidden characters", "a\u202eb", "a\\u{202e}b"],
] as const;

for (const [what, text, expected] of BRIEF) {
  test(`${what} is cut between words, or where it has to be`, () => {
    assert.equal(brief(text, 20), expected);
  });
}

const SIGNS = ["✎", "⌕", "a", "漢", "🦊", "👨‍👩‍👧", "Z̸̢̛̗", "<"];
const OTHERS = ["", "ab", "./a.png", "<svg/>", "🦊🦊", "\u0001", "\ud83e"];

test("one sign is told from words, names of files, and what cannot be drawn", () => {
  assert.deepEqual(
    SIGNS.filter((text) => !isOneSign(text)),
    [],
  );
  assert.deepEqual(OTHERS.filter(isOneSign), []);
});

const RANGES = [
  ["whole lines", [4, 0, 9, 0], "5-9"],
  ["one line", [4, 0, 5, 0], "5"],
  ["a part of a line", [4, 2, 4, 7], "5"],
  ["a place", [4, 2, 4, 2], "5"],
  ["to the middle of a line", [4, 0, 5, 3], "5-6"],
] as const;

for (const [what, [line, character, endLine, endCharacter], expected] of RANGES) {
  test(`lines are counted from 1, of ${what}`, () => {
    const range = { start: { line, character }, end: { line: endLine, character: endCharacter } };
    assert.equal(lines(range), expected);
  });
}

test("words of a model do not become icons of the editor", () => {
  assert.equal(iconless("general: $(check) $(sync~spin)"), "general: $ (check) $ (sync~spin)");
});
