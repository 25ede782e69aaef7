/** Text as it is shown where there is little room. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { brief } from "../src/state/words.ts";

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
