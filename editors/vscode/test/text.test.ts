/** Text for limited space. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { brief, gauge, iconless, isOneSign, lines } from "../src/state/text.ts";

const BRIEF = [
  ["what fits", "improve the greeting", "improve the greeting"],
  ["a sentence", "read the callers of retry", "read the callers…"],
  ["a name of great length", "rewrite AbstractRetryFactory", "rewrite AbstractRet…"],
  ["hidden characters", "a\u202eb", "a\\u{202e}b"],
] as const;

for (const [what, text, expected] of BRIEF) {
  test(`${what} is cut between words, or at the limit`, () => {
    assert.equal(brief(text, 20), expected);
  });
}

const SIGNS = ["✎", "⌕", "a", "漢", "🦊", "👨‍👩‍👧", "Z̸̢̛̗", "<"];
const OTHERS = ["", "ab", "./a.png", "<svg/>", "🦊🦊", "\u0001", "\ud83e"];

test("a single character is distinguished from words, file names and invalid text", () => {
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
  ["a position", [4, 2, 4, 2], "5"],
  ["to the middle of a line", [4, 0, 5, 3], "5-6"],
] as const;

for (const [what, [line, character, endLine, endCharacter], expected] of RANGES) {
  test(`lines are counted from 1, of ${what}`, () => {
    const range = { start: { line, character }, end: { line: endLine, character: endCharacter } };
    assert.equal(lines(range), expected);
  });
}

test("text of a model does not become icons of the editor", () => {
  assert.equal(iconless("general: $(check) $(sync~spin)"), "general: $ (check) $ (sync~spin)");
});

test("a gauge shows how full the context window is", () => {
  assert.deepEqual(gauge({ used: 84_400, window: 200_000 }), { share: "42%", about: "84k of 200k tokens" });
  assert.deepEqual(gauge({ used: 999, window: 1000 }), { share: "99%", about: "999 of 1k tokens" });
  assert.deepEqual(gauge(undefined), { share: "", about: "" });
});
