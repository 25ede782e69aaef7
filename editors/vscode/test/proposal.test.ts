/** Texts of proposals. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { type DiffRequest, editedInput, isOpenNotebook, textSuffix, withEndsOf } from "../src/state/proposal.ts";

const MIXED = "one\r\ntwo\nthree\r\nfour\n";

for (const [shown, whole, what] of [
  ["one\ntwo\nthree\nfour\n", MIXED, "nothing was edited"],
  ["one\ntwo!\nthree\nfour\n", "one\r\ntwo!\nthree\r\nfour\n", "a line was changed"],
  ["one\r\ntwo\r\nthree\r\nfive\r\nfour\r\n", "one\r\ntwo\nthree\r\nfive\r\nfour\n", "a line was added"],
  ["two\nfour\n", "two\nfour\n", "lines were removed"],
  ["", "", "all lines were removed"],
] as const) {
  test(`mixed line endings are kept when ${what}`, () => {
    assert.equal(withEndsOf(MIXED, shown), whole);
  });
}

test("uniform line endings are not changed", () => {
  assert.equal(withEndsOf("one\ntwo\n", "one\r\ntwo\r\n"), "one\r\ntwo\r\n");
  assert.equal(withEndsOf("one", "two\r\n"), "two\r\n");
});

test("a notebook change applies to cells or to the file", () => {
  const preview = { type: "diff", uri: "file:///w/a.ipynb", newText: "" } as const;
  for (const [oldText, isOpen, suffix] of [
    ["# %%\nx\n", true, ".py"],
    ['{"cells": []}', false, ".json"],
    [null, false, ".json"],
  ] as const) {
    assert.equal(isOpenNotebook({ ...preview, oldText }), isOpen);
    assert.equal(textSuffix({ ...preview, oldText }), suffix);
  }
  assert.equal(textSuffix({ ...preview, uri: "file:///w/a.py", oldText: "# %%\n" }), "");
});

test("a line with invalid bytes cannot be edited", () => {
  const oldText = "# caf\uFFFD\none\n";
  const preview = { type: "diff", uri: "file:///w/a.py", oldText, newText: "# caf\uFFFD\ntwo\n" } as const;
  const request = { tool: "edit_file", input: { path: "a.py" }, preview } as unknown as DiffRequest;
  assert.throws(() => editedInput(request, "# cafe\ntwo\n"), /Restore them, or deny/);
  assert.deepEqual(editedInput(request, "# caf\uFFFD\nthree\n"), {
    path: "a.py",
    old_string: "one\n",
    new_string: "three\n",
  });
});
