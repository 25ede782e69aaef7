/** Questions in the chat, and the ways to answer them. */
import assert from "node:assert/strict";
import { test } from "node:test";

import type { EventParams, InputField } from "../../src/protocol.ts";
import { after, log, open, type TestPage } from "./page.ts";

const STARTED = log("permission_requests").slice(0, 1);

function asked(seq: number, fields: readonly InputField[], more: object = {}): EventParams {
  const envelope = { sessionId: "session-1", agentId: "agent-1", run: 1, time: "2026-01-01T00:00:05.000Z" };
  const agent = { agentId: "agent-1", label: "primary", definition: "primary", model: "m", depth: 0, ancestry: [] };
  const request = { requestId: "i1", agent, title: "ask_user(Which?)", message: "Which?", fields, source: "agent" };
  return { ...envelope, seq, agentSeq: seq, type: "input_requested", ...request, ...more } as EventParams;
}

async function asking(fields: readonly InputField[], more: object = {}): Promise<TestPage> {
  const page = await open();
  page.show(after(STARTED));
  page.events([asked(page.state.lastSeq + 1, fields, more)]);
  page.newMessages();
  return page;
}

const OPTIONS = ["a", "b"].map((value) => ({ value, title: value.toUpperCase() }));

test("a choice is answered by its button, and by no other key", async () => {
  const page = await asking([{ name: "answer", type: "choice", required: true, options: OPTIONS }]);
  const card = page.one(".question");
  const [, second] = [...card.querySelectorAll<HTMLInputElement>("input")];
  assert.ok(second);
  second.click();
  for (const key of ["Enter", " ", "y"]) page.key(card, key);
  assert.deepEqual(page.newMessages(), []);
  page.button("Answer", card).click();
  const answer = { type: "answer", requestId: "i1", outcome: "accepted", values: { answer: "b" } };
  assert.deepEqual(page.newMessages(), [answer]);
  page.button("Decline", card).click();
  assert.deepEqual(page.newMessages(), [{ type: "answer", requestId: "i1", outcome: "declined" }]);
});

test("all kinds of fields have their values", async () => {
  const page = await asking(
    [
      { name: "text", type: "string", default: "x" },
      { name: "count", type: "number", default: 2.5 },
      { name: "sure", type: "boolean", default: true },
      { name: "some", type: "choices", options: OPTIONS, default: ["a", "b"] },
      { name: "empty", type: "string" },
    ],
    { source: "mcp", server: "shop" },
  );
  assert.match(page.one(".question").textContent, /Asked by the MCP server shop/);
  page.key(page.one(".question"), "Enter", { ctrlKey: true });
  const values = { text: "x", count: 2.5, sure: true, some: ["a", "b"] };
  assert.deepEqual(page.newMessages(), [{ type: "answer", requestId: "i1", outcome: "accepted", values }]);
});

test("a page is shown whole before it is opened", async () => {
  const page = await asking([], { url: "https://example.com/login", server: "shop", source: "mcp" });
  assert.equal(page.one(".question pre").textContent, "https://example.com/login");
  page.button("Open page").click();
  const answer = { type: "answer", requestId: "i1", outcome: "accepted", values: {} };
  assert.deepEqual(page.newMessages(), [answer]);
});

test("a question that was answered elsewhere is removed", async () => {
  const page = await asking([{ name: "answer", type: "string", required: true }]);
  const { lastSeq } = page.state;
  const resolved = { ...asked(lastSeq + 1, []), type: "input_resolved", outcome: "accepted", by: "user" };
  page.events([resolved as EventParams]);
  assert.deepEqual(page.all(".question"), []);
});
