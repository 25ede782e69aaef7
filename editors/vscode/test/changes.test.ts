/** Texts about unreviewed changes, and the way from one hunk to the next. */
import assert from "node:assert/strict";
import { test } from "node:test";

import type { Hunk, ReviewFile } from "../src/protocol.ts";
import { commentsPrompt, hunkAt, hunkDiff, hunkTitle, nextHunk, shownChanges } from "../src/state/changes.ts";

function hunk(start: number, end: number, more: Partial<Hunk> = {}): Hunk {
  const at = (line: number): { line: number; character: number } => ({ line, character: 0 });
  const lines = Array.from({ length: end - start }, (_, index) => `new ${String(index)}`);
  const range = { start: at(start), end: at(end) };
  return { hunkId: `h${String(start)}`, range, baseLines: ["old"], lines, changes: [], mixed: false, ...more };
}

function file(name: string, ...hunks: Hunk[]): ReviewFile {
  return { uri: `file:///p/${name}`, status: "modified", added: 1, removed: 1, hunks };
}

const FILES = [file("a.py", hunk(2, 4), hunk(9, 9)), file("b.py", hunk(0, 1))];

function following(uri: string, line: number, by: 1 | -1): string | undefined {
  const place = nextHunk(FILES, { uri: `file:///p/${uri}`, line }, by);
  return place && `${place.file.uri.slice(-4)} ${place.hunk.hunkId}`;
}

test("the next hunk is in the same file, then in the next one, then the first", () => {
  assert.deepEqual(
    [following("a.py", 0, 1), following("a.py", 2, 1), following("a.py", 9, 1), following("b.py", 5, 1)],
    ["a.py h2", "a.py h9", "b.py h0", "a.py h2"],
  );
});

test("the previous hunk goes the other way", () => {
  assert.deepEqual(
    [following("b.py", 0, -1), following("a.py", 9, -1), following("a.py", 2, -1)],
    ["a.py h9", "a.py h2", "b.py h0"],
  );
});

test("in a file without changes, the next hunk is the first of all", () => {
  assert.equal(following("c.py", 7, 1), "a.py h2");
  assert.equal(nextHunk([], undefined, 1), undefined);
});

test("a hunk is found by its lines, and removed lines by those beside them", () => {
  const hunks = FILES[0]?.hunks ?? [];
  assert.deepEqual(
    [1, 2, 3, 4, 8, 9, 10].map((line) => hunkAt(hunks, line)?.hunkId),
    [undefined, "h2", "h2", undefined, "h9", "h9", undefined],
  );
});

test("the title of a hunk names the agents once, its lines, and whether the user edited it", () => {
  const change = { agentId: "c", label: "fix $(x)", turnId: "t", toolCallId: "u", time: "" };
  const own = { ...change, label: "primary" };
  assert.equal(hunkTitle(hunk(0, 2, { changes: [change, change, own] })), "fix $(x) · Deputy · +2 −1");
  assert.equal(hunkTitle(hunk(0, 2, { mixed: true })), "+2 −1 · edited by you");
  assert.equal(hunkTitle(hunk(0, 0, { note: "binary file" })), "binary file");
});

test("the diff of a hunk spells out invisible characters and is cut", () => {
  assert.equal(hunkDiff({ baseLines: ["a\r"], lines: ["\u202eb"] }), "-a\\u{d}\n+\\u{202e}b");
  const long = hunkDiff({ baseLines: [], lines: Array.from({ length: 50 }, () => "x") }).split("\n");
  assert.deepEqual([long.length, long.at(-1)], [41, "… 10 more lines"]);
});

test("all comments are in one prompt, each with its file, lines and change", () => {
  const one = { path: "a.py", first: 3, last: 4, diff: "-old\n+```", texts: ["Why?", "Keep the old name."] };
  const two = { path: "b.py", first: 1, last: 1, diff: "", texts: ["Test this."] };
  assert.equal(
    commentsPrompt([one, two]),
    "Comments on your changes:\n\na.py:3-4\n````diff\n-old\n+```\n````\nWhy?\nKeep the old name.\n\nb.py:1\nTest this.",
  );
});

test("a long list shows its first files, and the totals of all", () => {
  const files = Array.from({ length: 205 }, (_, index) => file(`f${String(index)}.py`, hunk(0, 1)));
  const totals = { files: 205, hunks: 205, added: 205, removed: 205 };
  const shown = shownChanges({ files, totals, notes: [] }, (uri) => uri.slice(10), 0);
  assert.deepEqual([shown.files.length, shown.totals.files, shown.files[0]?.path], [200, 205, "f0.py"]);
});
