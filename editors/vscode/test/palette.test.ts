/** The colours of code from the rules of a theme file. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { paletteFrom, type TokenRule } from "../src/state/palette.ts";

function rule(scope: string | readonly string[], foreground: string): TokenRule {
  return { scope, settings: { foreground } };
}

test("a token has the colour of the longest scope that the theme has", () => {
  const palette = paletteFrom([rule("keyword", "#111111"), rule(["keyword.control", "storage"], "#222222")]);
  assert.deepEqual(palette, { keyword: "#222222" });
});

test("a later rule wins, and one scope text can name several", () => {
  assert.deepEqual(paletteFrom([rule("comment", "#111"), rule("string, comment", "#222")]), {
    comment: "#222",
    string: "#222",
  });
});

test("rules without a scope, and what is not a colour, are ignored", () => {
  assert.deepEqual(paletteFrom([{ settings: { foreground: "#111" } }, rule("comment", "red; x: y"), {}]), {});
});
