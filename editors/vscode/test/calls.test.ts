/** Tool calls in words, and runs of calls as groups. */
import assert from "node:assert/strict";
import { test } from "node:test";

import type { ToolCallEntry } from "../src/protocol.ts";
import { activityOf, grouped, outcomeOf, phraseOf, summaryOf } from "../src/state/calls.ts";
import type { Entry } from "../src/state/session.ts";

let seq = 0;

function call(tool: string, target: string, more: Partial<ToolCallEntry> = {}): ToolCallEntry {
  const at = { seq: ++seq, agentId: "a", run: 1, time: "2026-01-01T00:00:00Z", toolCallId: `c${seq}` };
  const title = `[fix (all) of it] ${tool}(${target})`;
  return {
    ...at,
    type: "tool_call",
    tool,
    title,
    kind: "other",
    status: "completed",
    input: {},
    locations: [],
    ...more,
  };
}

const PHRASES = [
  ["read_file", "a.py", "completed", "Read a.py"],
  ["read_file", "a (1).py", "in_progress", "Reading a (1).py"],
  ["edit_file", "a.py", "pending", "Editing a.py"],
  ["edit_file", "a.py", "failed", "Could not edit a.py"],
  ["shell", "make test", "failed", "Ran make test"],
  ["todo", "", "completed", "Updated the plan"],
  ["jira__create", "P-1", "completed", "Used jira__create P-1"],
] as const;

for (const [tool, target, status, expected] of PHRASES) {
  test(`a call of ${tool} that is ${status} reads: ${expected}`, () => {
    const phrase = phraseOf(call(tool, target, { status }));
    assert.equal(`${phrase.verb} ${phrase.target}`.trim(), expected);
  });
}

test("an activity has the words of its call; other text stays", () => {
  assert.equal(activityOf("read_file a.py 3-9"), "Reading a.py 3-9");
  assert.equal(activityOf("todo"), "Updating the plan");
  assert.equal(activityOf("waiting for the model"), "waiting for the model");
});

test("a command shows its exit code and a noticeable time", () => {
  const began = "2026-01-01T00:00:00.000Z";
  const ended = { began, ended: "2026-01-01T00:00:04.200Z" };
  const shell = (more: Partial<ToolCallEntry>): ToolCallEntry => call("shell", "make", more);
  assert.deepEqual(outcomeOf(shell({ content: "ok" }), ended, 0), ["exit 0", "4.2 s"]);
  assert.deepEqual(outcomeOf(shell({ status: "failed", content: "x\n[exit code 2]" }), undefined, 0), ["exit 2"]);
  assert.deepEqual(outcomeOf(shell({ status: "failed", content: "[timed out after 1 s and was ended]" }), ended, 0), [
    "4.2 s",
  ]);
  assert.deepEqual(outcomeOf(shell({ input: { background: true } }), undefined, 0), []);
  assert.deepEqual(outcomeOf(shell({ status: "in_progress" }), { began }, Date.parse(began) + 12_000), ["12 s"]);
  assert.deepEqual(outcomeOf(shell({ status: "in_progress" }), { began }, Date.parse(began) + 900), []);
});

test("three or more completed calls in a row that read become one group", () => {
  const reads = [1, 2, 3].map((number) => call("read_file", `${number}.py`));
  const [edit, more, running] = [
    call("edit_file", "a.py"),
    [call("grep", "x"), call("read_file", "1.py")],
    call("read_file", "2.py", { status: "in_progress" }),
  ];
  const entries: Entry[] = [...reads, edit, ...more, running];
  const items = grouped(entries);
  assert.deepEqual(items, [{ type: "calls", seq: reads[0]?.seq, calls: reads }, edit, ...more, running]);
  assert.deepEqual(grouped([...more, { ...running, status: "completed" }]).length, 1);
  const failed = call("read_file", "none.py", { status: "failed" });
  assert.ok(grouped([...reads, failed]).includes(failed));
});

test("a group counts each file once, by kind in the order of the calls", () => {
  const calls = [call("read_file", "a.py"), call("grep", "x"), call("read_file", "a.py"), call("read_file", "b.py")];
  assert.equal(summaryOf(calls), "Read 2 files, searched 1 pattern");
});
