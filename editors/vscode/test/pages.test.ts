/** Transcripts that are fetched in pages, from the end. */
import assert from "node:assert/strict";
import { test } from "node:test";

import type { AgentNode, AgentTranscriptResult, MessageEntry, SessionLoadResult } from "../src/protocol.ts";
import { loadedSession, reduce, type SessionState, withTranscript } from "../src/state/session.ts";

const TIME = "2026-01-31T09:30:00.000Z";

function message(seq: number, agentId = "p"): MessageEntry {
  const messageId = `m${String(seq)}`;
  return { type: "message", seq, agentId, run: 1, time: TIME, messageId, role: "assistant", text: messageId };
}

function answer(numbers: readonly number[], earlier: boolean, lastSeq = 9): AgentTranscriptResult {
  return { entries: numbers.map((seq) => message(seq)), lastSeq, ...(earlier && { earlier }) };
}

function loaded(numbers: readonly number[], earlier: boolean): SessionState {
  const agent = { agentId: "p", label: "primary", run: 1, status: "idle", startedAt: TIME } as unknown as AgentNode;
  return loadedSession({
    session: { sessionId: "s" } as SessionLoadResult["session"],
    agents: [agent],
    transcript: numbers.map((seq) => message(seq)),
    permissions: [],
    inputs: [],
    plans: [],
    promptQueue: [],
    lastSeq: 9,
    ...(earlier && { earlier }),
  });
}

function numbers(state: SessionState): readonly number[] {
  return (state.entries["p"] ?? []).map(({ seq }) => seq);
}

test("a loaded session knows that there are earlier entries", () => {
  assert.deepEqual(loaded([8, 9], true).earlier, { p: true });
  assert.deepEqual(loaded([8, 9], false).earlier, {});
});

test("earlier entries stand before those that are known, until there are none", () => {
  const more = withTranscript(loaded([8, 9], true), "p", answer([5, 6], true));
  assert.deepEqual([numbers(more), more.earlier], [[5, 6, 8, 9], { p: true }]);
  const all = withTranscript(more, "p", answer([1, 2], false));
  assert.deepEqual([numbers(all), all.earlier], [[1, 2, 5, 6, 8, 9], {}]);
});

test("the same page twice is shown once", () => {
  const once = withTranscript(loaded([8, 9], true), "p", answer([5, 6], true));
  assert.deepEqual(numbers(withTranscript(once, "p", answer([5, 6], true))), [5, 6, 8, 9]);
});

test("events that arrive before a page stay after it", () => {
  const entry = message(10);
  const event = { ...entry, sessionId: "s", agentSeq: 10 } as unknown as Parameters<typeof reduce>[1];
  const state = reduce(loaded([8, 9], true), event);
  assert.deepEqual(numbers(withTranscript(state, "p", answer([6, 7], true))), [6, 7, 8, 9, 10]);
  assert.deepEqual(numbers(withTranscript(state, "p", answer([8, 9, 10], true, 10))), [8, 9, 10]);
});
