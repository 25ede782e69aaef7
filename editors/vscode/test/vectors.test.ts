/** The fold reaches the same states as the server's, for the event logs that all front ends share. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import type { EventParams } from "../src/protocol.ts";
import { type AgentView, emptySession, nodeOf, reduce, transcriptOf } from "../src/state/session.ts";

interface Log {
  readonly steps: readonly { readonly events: readonly EventParams[]; readonly expected: Expected }[];
}

interface Expected {
  readonly lastSeq: number;
  readonly agents: unknown;
  readonly transcripts: Readonly<Record<string, unknown>>;
  readonly permissions: readonly (string | { readonly requestId: string })[];
}

const folder = new URL("../../../tests/vectors/", import.meta.url);
const logs = readdirSync(folder).filter((name) => name.endsWith(".json"));

function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

function byStart(a: AgentView, b: AgentView): number {
  const key = (one: AgentView): string => `${one.startedAt} ${one.agentId}`;
  return key(a) < key(b) ? -1 : 1;
}

for (const name of logs) {
  const log = JSON.parse(readFileSync(new URL(name, folder), "utf-8")) as Log;
  for (const [title, repeat] of [
    ["once", 1],
    ["twice", 2],
  ] as const) {
    test(`${name}, every event applied ${title}`, () => {
      let state = emptySession("session-1");
      for (const [index, { events, expected }] of log.steps.entries()) {
        for (const event of events) {
          const times = "seq" in event ? repeat : 1;
          for (let n = 0; n < times; n++) state = reduce(state, event);
        }
        const at = `step ${index}`;
        assert.equal(state.lastSeq, expected.lastSeq, at);
        assert.deepEqual(plain(Object.values(state.agents).sort(byStart).map(nodeOf)), expected.agents, at);
        for (const [agentId, entries] of Object.entries(expected.transcripts)) {
          assert.deepEqual(plain(transcriptOf(state, agentId)), entries, `${at}, transcript of ${agentId}`);
        }
        const open = expected.permissions.map((one) => (typeof one === "string" ? one : one.requestId));
        assert.deepEqual(Object.keys(state.requests), open, at);
      }
    });
  }
  test(`${name}, unknown events change nothing`, () => {
    const state = emptySession("session-1");
    const unknown = { type: "invented_later", sessionId: "session-1", seq: 1, agentSeq: 1, agentId: "a", run: 1 };
    assert.deepEqual(reduce(state, unknown as never).agents, state.agents);
  });
}
