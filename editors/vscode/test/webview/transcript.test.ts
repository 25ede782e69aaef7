/** The blocks of sub-agents and the messages in the chat. */
import assert from "node:assert/strict";
import { test } from "node:test";

import type { Reference, SessionInfo } from "../../src/protocol.ts";
import type { AgentView } from "../../src/state/session.ts";
import { after, log, open, type TestPage } from "./page.ts";

const LOOK = log("three_children");
const ASKING = log("permission_requests");

function states(page: TestPage): (string | undefined)[] {
  return page.all(".block").map((block) => block.dataset["state"]);
}

// -- sub-agents ------------------------------------------------------------------------------------------------------

test("each sub-agent has a block, in the order of the calls", async () => {
  const page = await open();
  for (const step of LOOK) page.events(step);
  const labels = page.all(".block .label").map(({ textContent }) => textContent);
  const children = Object.values(page.state.agents).filter(({ parentAgentId }) => parentAgentId !== undefined);
  assert.deepEqual(
    labels,
    children.map(({ label }) => label),
  );
  assert.deepEqual(
    states(page),
    children.map(({ status }) => status),
  );
  assert.ok(page.all(".block .figures").every(({ textContent }) => textContent.startsWith("general · ")));
});

test("a block keeps its element, focus and fold while its agent works", async () => {
  const page = await open();
  page.events(LOOK.slice(0, 5).flat());
  const before = page.all(".block");
  before[0]?.querySelector<HTMLElement>(".block-toggle")?.click();
  page.events(LOOK.slice(5).flat());
  assert.deepEqual(page.all(".block"), before);
  assert.equal(before[0]?.querySelector(".block-toggle")?.getAttribute("aria-expanded"), "true");
});

test("each running block has a Cancel button with the agent's name until it ends", async () => {
  const page = await open();
  page.show(after(LOOK.slice(0, 5)));
  const running = page.all(".block").filter((block) => block.dataset["state"] === "running");
  assert.ok(running.length > 0);
  for (const block of running) {
    const label = block.querySelector(".label")?.textContent ?? "";
    page.button(`Cancel ${label}`, block).click();
    assert.deepEqual(page.newMessages(), [{ type: "cancelAgent", agentId: block.dataset["agent"] }]);
  }
  page.show(after(LOOK));
  assert.ok(page.all(".block button").every((button) => !button.getAttribute("aria-label")?.startsWith("Cancel")));
});

test("a block shows the limit that ended its agent", async () => {
  const page = await open();
  const state = after(LOOK);
  const [id = "", agent] = Object.entries(state.agents).find(([, { parentAgentId }]) => parentAgentId) ?? [];
  assert.ok(agent);
  const error = "it ran past its time limit of 5 s";
  const late = { ...agent, status: "failed", failureReason: "timed_out", error } as const;
  page.show({ ...state, agents: { ...state.agents, [id]: late } });
  const [block] = page.all(".block").filter(({ dataset }) => dataset["agent"] === id);
  assert.equal(block?.querySelector(".activity")?.textContent, `timed out: ${error}`);
});

test("cancelling by keyboard focuses the block", async () => {
  const page = await open();
  page.show(after(LOOK.slice(0, 5)));
  const block = page.all(".block").find(({ dataset }) => dataset["state"] === "running");
  assert.ok(block);
  [...block.querySelectorAll<HTMLElement>("button")].at(-1)?.focus();
  page.show(after(LOOK));
  assert.equal(document.activeElement, block.querySelector(".block-toggle"));
});

test("earlier messages are asked for with the button at the top", async () => {
  const page = await open();
  const state = after(LOOK);
  const agentId = state.primaryId ?? "";
  page.show({ ...state, earlier: { [agentId]: true } });
  const button = page.button("Show earlier messages");
  assert.equal(button, page.all(".transcript")[0]?.firstElementChild);
  button.click();
  assert.deepEqual(page.newMessages(), [{ type: "earlier", agentId }]);
  page.show(state);
  assert.ok(!page.all("button").some(({ textContent }) => textContent === "Show earlier messages"));
});

test("a snapshot of another window's session is read-only and can be reloaded", async () => {
  const page = await open();
  page.show({ ...after(LOOK.slice(0, 5)), snapshot: true });
  assert.ok((page.one("textarea.prompt") as HTMLTextAreaElement).disabled);
  assert.ok(
    page.all(".figures").every(({ textContent }) => !/\d (h|min) /.test(textContent)),
    "no clock is running",
  );
  assert.ok(states(page).includes("running"));
  const names = page.all("button:not([hidden])").map((button) => button.getAttribute("aria-label") ?? "");
  assert.deepEqual(
    names.filter((name) => /^(Cancel|Send \S+ a|Revert|Stop)/.test(name)),
    [],
  );
  page.newMessages();
  page.button("Read Again").click();
  assert.deepEqual(page.newMessages(), [{ type: "refresh" }]);
});

test("an unfolded block shows the calls of its agent and its result", async () => {
  const page = await open();
  page.show(after(LOOK));
  const block = page.all(".block").find((one) => one.dataset["state"] === "completed");
  assert.ok(block);
  block.querySelector<HTMLElement>(".block-toggle")?.click();
  page.show(after(LOOK));
  const agent = page.state.agents[block.dataset["agent"] ?? ""];
  assert.equal(block.querySelectorAll(".call").length, agent?.toolCallCount);
  assert.equal(block.querySelector(".result")?.textContent.trim(), agent?.summary?.replaceAll("`", ""));
});

test("output of a running call is shown live, and its full result can be opened", async () => {
  const page = await open();
  page.show(after(LOOK));
  const agentId = page.state.primaryId ?? "";
  const at = { sessionId: "session-1", agentId, run: 1, time: "2026-01-01T00:00:00Z" };
  const call = {
    toolCallId: "c1",
    tool: "shell",
    title: "shell(make)",
    kind: "execute",
    input: {},
    locations: [],
  } as const;
  const { lastSeq } = page.state;
  const started = { ...at, ...call, type: "tool_call", status: "in_progress", seq: lastSeq + 1, agentSeq: 90 } as const;
  const put = (text: string) =>
    ({ ...at, type: "tool_output_delta", afterSeq: lastSeq + 1, toolCallId: "c1", text }) as const;
  page.events([started, put("one\n"), put("two\u001b[2K")]);
  const live = page.all(".call .live").find((output) => !output.hidden);
  assert.equal(live?.textContent, "one\ntwo\\u{1b}[2K");
  const ended = {
    ...at,
    type: "tool_call_update",
    toolCallId: "c1",
    status: "completed",
    seq: lastSeq + 2,
    agentSeq: 91,
  } as const;
  page.events([{ ...ended, content: "one\n[cut]", truncated: true }]);
  assert.equal(live.hidden, true);
  page.button("Show the result", live.parentElement ?? undefined).click();
  page.newMessages();
  page.button("Show all", live.parentElement ?? undefined).click();
  assert.deepEqual(page.newMessages(), [{ type: "output", agentId, toolCallId: "c1" }]);
});

test("an edit shows its counts, and unfolds to its change", async () => {
  const page = await open();
  page.show(after(ASKING));
  for (const toggle of page.all(".block-toggle")) toggle.click();
  page.show(after(ASKING));
  const edit = page.all(".call").find((call) => call.querySelector(".counts"));
  assert.ok(edit);
  assert.equal(edit.querySelector(".counts")?.textContent, "+1 −1");
  assert.ok(edit.querySelector<HTMLElement>(".edit")?.hidden);
  page.button("Show the change", edit).click();
  assert.equal(edit.querySelector<HTMLElement>(".edit")?.hidden, false);
  assert.equal(edit.querySelector(".diff .removed")?.textContent, "-limit = 2\n");
  assert.equal(edit.querySelector(".diff .added")?.textContent, "+limit = 3\n");
  assert.ok(edit.querySelector<HTMLElement>(".output")?.hidden, "its lines say more than their numbers");
});

test("a run of reads is one row, which unfolds to its calls and stays unfolded as it grows", async () => {
  const page = await open();
  page.show(after(LOOK));
  const { primaryId: agentId = "", lastSeq } = page.state;
  const at = { sessionId: "session-1", agentId, run: 1, time: "2026-01-01T00:00:00Z" };
  let seq = lastSeq;
  const read = (name: string): void => {
    const call = { toolCallId: name, tool: "read_file", title: `read_file(${name})`, kind: "read", input: {} } as const;
    page.events([
      { ...at, ...call, type: "tool_call", locations: [], status: "pending", seq: ++seq, agentSeq: seq },
      { ...at, type: "tool_call_update", toolCallId: name, status: "completed", seq: ++seq, agentSeq: seq },
    ]);
  };
  for (const name of ["a.py", "b.py"]) read(name);
  assert.equal(page.all(".call").length, 2);
  read("c.py");
  const toggle = page.one(".call-group-toggle");
  assert.equal(toggle.textContent, "Read 3 files");
  assert.equal(page.all(".call").length, 0);
  toggle.click();
  read("d.py");
  assert.equal(page.one(".call-group-toggle"), toggle);
  assert.deepEqual(
    page.all(".call-title").map(({ textContent }) => textContent),
    ["Read 4 files", "Read a.py", "Read b.py", "Read c.py", "Read d.py"],
  );
});

test("the status line shows what works, and the cost also afterwards", async () => {
  const page = await open();
  const working = after(LOOK.slice(0, 5));
  const usage = { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0, cost: 0.365 };
  const agents = Object.fromEntries(Object.entries(working.agents).map(([id, agent]) => [id, { ...agent, usage }]));
  page.show(working);
  const running = Object.values(working.agents).filter(
    ({ parentAgentId, status }) => parentAgentId && status === "running",
  );
  assert.match(page.one(".status").textContent, new RegExp(`^Working… .+ · ${running.length} agents?$`));
  page.show({ ...working, agents });
  const cost = (0.365 * Object.keys(agents).length).toFixed(2);
  assert.ok(page.one(".status").textContent.endsWith(` · $${cost}`));
  const ended = after(LOOK);
  const only = ([id, agent]: [string, AgentView]): [string, AgentView] => [
    id,
    id === ended.primaryId ? { ...agent, usage } : agent,
  ];
  const priced = Object.entries(ended.agents).map(only);
  page.show({ ...ended, agents: Object.fromEntries(priced) });
  assert.equal(page.one(".status").textContent, "$0.36 in this session");
  page.show(ended);
  assert.ok(page.one(".status").hidden);
});

test("a row shows that the agent works until its first token, and between its steps", async () => {
  const page = await open();
  const shown: [string, boolean][] = [];
  for (const event of log("plan_and_queue").flat()) {
    page.events([event]);
    shown.push([event.type, page.all(".working").length > 0]);
  }
  const of = (type: string): boolean[] =>
    shown.filter(([shownType]) => shownType === type).map(([, isShown]) => isShown);
  assert.equal(of("turn_started")[0], true);
  assert.ok(of("message_delta").every((isShown) => !isShown));
  assert.equal(of("turn_finished").at(-1), false);
  page.show({ ...after(LOOK.slice(0, 1)), snapshot: true });
  assert.deepEqual(page.all(".working"), []);
});

test("the status line starts with open approvals", async () => {
  const page = await open();
  page.show(after(ASKING.slice(0, 1)));
  assert.ok(page.one(".status").textContent.startsWith("1 waiting for you · "));
});

test("an invalid mode setting does not break the page", async () => {
  const page = await open();
  page.show(after(LOOK), { mode: "careless" as "default" });
  assert.equal(page.all(".pick")[0]?.textContent, "Ask");
});

test("the transcript of a sub-agent has a banner and no prompt box", async () => {
  const page = await open();
  const state = after(LOOK);
  const child = Object.values(state.agents).find(({ parentAgentId }) => parentAgentId !== undefined);
  page.show(state, { agentId: child?.agentId });
  assert.equal(page.one(".composer").hidden, true);
  assert.match(page.one(".banner").textContent, /Read-only transcript of \[.+\], parent: Deputy/);
  page.newMessages();
  page.button("Next").click();
  const [next] = page.newMessages();
  assert.ok(next?.type === "openTranscript" && next.agentId !== child?.agentId);
});

// -- messages --------------------------------------------------------------------------------------------------------

test("a streaming answer grows and is replaced by the complete message", async () => {
  const page = await open();
  page.events(log("plan_and_queue").slice(0, 3).flat());
  assert.equal(page.all(".streaming").length, 1);
  page.events(log("plan_and_queue").slice(3).flat());
  assert.deepEqual(page.all(".streaming"), []);
  const entries = page.state.entries[page.state.primaryId ?? ""]?.filter(({ type }) => type === "message");
  assert.equal(page.all(".message").length, entries?.length);
});

test("a very long message is cut, also while streaming, and can be opened in full", async () => {
  const page = await open();
  const { primaryId: agentId = "", lastSeq } = after(LOOK);
  page.show(after(LOOK));
  const at = { sessionId: "session-1", agentId, run: 1, time: "2026-01-01T00:00:00Z", messageId: "long" } as const;
  const piece = `${"x".repeat(79)}\n`.repeat(1000);
  page.events([{ ...at, type: "message_delta", afterSeq: lastSeq, text: `\`\`\`\n${piece}` }]);
  page.events([{ ...at, type: "message_delta", afterSeq: lastSeq, text: piece }]);
  const before = page.one(".streaming pre");
  page.events([{ ...at, type: "message_delta", afterSeq: lastSeq, text: piece }]);
  assert.equal(page.one(".streaming pre"), before, "hidden text is not rendered");
  assert.match(page.one(".streaming").textContent, /240.004 characters so far$/);
  const text = `\`\`\`\n${piece.repeat(3)}`;
  page.events([{ ...at, type: "message", role: "assistant", text, seq: lastSeq + 1, agentSeq: 90 }]);
  const [shown] = page.all(".message").slice(-1);
  assert.ok((shown?.textContent.length ?? 0) < 101_000);
  page.newMessages();
  const [all] = [...(shown?.querySelectorAll<HTMLElement>("button") ?? [])].slice(-1);
  assert.match(all?.textContent ?? "", /Show all 240.004 characters/);
  all?.click();
  assert.deepEqual(page.newMessages(), [{ type: "message", agentId, messageId: "long" }]);
});

test("user messages are shown as plain text", async () => {
  const page = await open();
  page.show(after(LOOK));
  const user = page.all(".message.user")[0];
  assert.equal(user?.querySelectorAll(".markdown *").length, 0);
});

test("a turn without an answer shows a notice and keeps the thoughts", async () => {
  const page = await open();
  page.show(after(LOOK));
  const { primaryId: agentId = "", lastSeq } = page.state;
  const at = { sessionId: "session-1", agentId, run: 1, time: "2026-01-01T00:00:00Z" };
  const turn = { ...at, turnId: "t9", agentSeq: 90 } as const;
  page.events([
    { ...turn, type: "turn_started", origin: "user", seq: lastSeq + 1 },
    { ...at, type: "message", messageId: "u9", role: "user", text: "Well?", seq: lastSeq + 2, agentSeq: 91 },
    { ...at, type: "thought_delta", messageId: "a9", text: "Hm.", afterSeq: lastSeq + 2 },
    { ...turn, type: "turn_finished", stopReason: "end_turn", seq: lastSeq + 3 },
  ]);
  assert.equal(page.one(".notice").textContent, "The turn ended without an answer from the model.");
  assert.equal(page.one(".thought-text").textContent, "Hm.");
});

test("a plan is shown only in its turn", async () => {
  const page = await open();
  page.events(log("plan_and_queue").slice(0, 2).flat());
  assert.equal(page.one(".plan-box").hidden, false);
  const { primaryId: agentId = "", lastSeq } = page.state;
  const at = { sessionId: "session-1", agentId, run: 1, time: "2026-01-01T00:00:00Z", turnId: "t9" };
  page.events([{ ...at, type: "turn_started", origin: "user", seq: lastSeq + 1, agentSeq: 90 }]);
  assert.equal(page.one(".plan-box").hidden, true);
});

test("the plan shows its steps and how many are done", async () => {
  const page = await open();
  page.events(log("plan_and_queue").slice(0, 2).flat());
  const plan = Object.values(page.state.plans)[0] ?? [];
  assert.equal(page.all(".plan li").length, plan.length);
  const done = plan.filter(({ status }) => status === "completed").length;
  assert.ok(page.one(".plan-box summary").textContent.includes(`${String(done)} of ${String(plan.length)} done`));
});

test("references are shown relative to the session's folder, with lines", async () => {
  const page = await open();
  const passage = (uri: string, line: number, end: number): Reference => ({
    uri,
    range: { start: { line, character: 0 }, end: { line: end, character: 0 } },
  });
  const references = [passage("file:///my%20work/src/a%20b.py", 4, 9), passage("file:///else/where/c.py", 0, 1)];
  const state = after(LOOK);
  const id = state.primaryId ?? "";
  const entries = (state.entries[id] ?? []).map((entry) =>
    entry.type === "message" && entry.role === "assistant" ? { ...entry, references } : entry,
  );
  const info = { cwd: "file:///my%20work" } as SessionInfo;
  page.show({ ...state, info, entries: { ...state.entries, [id]: entries } });
  const named = page.all(".references").at(-1)?.querySelectorAll(".path") ?? [];
  assert.deepEqual(
    [...named].map(({ textContent }) => textContent),
    ["src/a b.py:5-9", "where/c.py:1"],
  );
});

test("references that the text itself links are not listed again", async () => {
  const page = await open();
  const range = { start: { line: 4, character: 0 }, end: { line: 9, character: 0 } };
  const references = ["src/a.py", "other/a.py", "src/b.py"].map((path) => ({ uri: `file:///w/${path}`, range }));
  const state = after(LOOK);
  const id = state.primaryId ?? "";
  const entries = (state.entries[id] ?? []).map((entry) =>
    entry.type === "message" && entry.role === "assistant"
      ? { ...entry, references, text: "See `src/a.py:5-9` and src/b.py:5." }
      : entry,
  );
  page.show({ ...state, entries: { ...state.entries, [id]: entries } });
  const named = page.all(".references").at(-1)?.querySelectorAll(".path") ?? [];
  assert.deepEqual(
    [...named].map(({ textContent }) => textContent),
    ["other/a.py:5-9", "src/b.py:5-9"],
  );
});
