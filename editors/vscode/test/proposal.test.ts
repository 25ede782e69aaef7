/** Texts of proposals. */
import assert from "node:assert/strict";
import { test } from "node:test";

import type { PermissionRequest } from "../src/protocol.ts";
import {
  type DiffRequest,
  editedInput,
  firstLine,
  isDiff,
  isLargeDiff,
  isOpenNotebook,
  isSeenByTitle,
  plainPreview,
  textSuffix,
} from "../src/state/proposal.ts";

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

test("an edited line with an invisible character is rejected, and an edit elsewhere keeps the character", () => {
  const preview = { type: "diff", uri: "file:///w/a.py", oldText: "a\rb\none\n", newText: "a\rb\ntwo\n" } as const;
  const request = { tool: "edit_file", input: { path: "a.py" }, preview } as unknown as DiffRequest;
  assert.throws(() => editedInput(request, "a\\u{d}c\ntwo\n"), /invisible characters cannot be edited/);
  assert.deepEqual(editedInput(request, "a\rb\nthree\n"), { path: "a.py", old_string: "one\n", new_string: "three\n" });
  const whole = { ...request, tool: "write_file" } as DiffRequest;
  assert.throws(() => editedInput(whole, "a\\u{d}b\ntwo"), /invisible characters cannot be edited/);
  assert.deepEqual(editedInput(whole, "\\u{200b}\n"), { path: "a.py", content: "\\u{200b}\n" });
});

test("the first changed line is counted as an editor counts lines", () => {
  for (const [oldText, line] of [
    ["a\nb\none\n", 2],
    ["a\rb\none\n", 2],
    ["a\r\nb\r\none\r\n", 2],
    ["a\r\rb\none\n", 3],
  ] as const) {
    const preview = { type: "diff", uri: "file:///w/a.py", oldText, newText: oldText.replace("one", "two") } as const;
    assert.equal(firstLine({ preview } as unknown as DiffRequest), line);
  }
});

test("a change of a large file is shown as text, and as a diff only with its complete texts", () => {
  const hunks = [{ oldStart: 3, oldCount: 2, newStart: 3, newCount: 2, lines: [" a", "-b", "+c"] }];
  const preview = { type: "diff", uri: "file:///w/a.txt", oldText: null, hunks, truncated: true } as const;
  const title = { title: "edit_file(a.txt)", agent: { label: "" } };
  const large = { ...title, preview } as unknown as PermissionRequest;
  assert.equal(isDiff(large), false);
  assert.equal(isLargeDiff(large), true);
  assert.equal(isSeenByTitle(large), false);
  assert.match(plainPreview(large), /^@@ -3,2 \+3,2 @@\n a\n-b\n\+c\nThe change is too large/);
  const whole: PermissionRequest = {
    ...large,
    preview: { type: "diff", uri: preview.uri, oldText: "b", newText: "c" },
  };
  assert.equal(isDiff(whole), true);
  assert.equal(isLargeDiff(whole), false);
});
