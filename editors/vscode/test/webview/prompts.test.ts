/** The prompt box and the notices above it. */
import assert from "node:assert/strict";
import { test } from "node:test";

import type { Card } from "../../src/install/card.ts";
import { emptySession } from "../../src/state/session.ts";
import { after, AROUND, begin, log, open, type TestPage } from "./page.ts";

const LOOK = log("three_children");

const FILES = [
  { text: "@src/backoff.py", kind: "file" },
  { text: "@src/base/", kind: "folder" },
] as const;

/** Types a prompt. */
function write(page: TestPage, text: string): HTMLTextAreaElement {
  const prompt = page.one("textarea.prompt") as HTMLTextAreaElement;
  prompt.value = text;
  prompt.setSelectionRange(text.length, text.length);
  page.input(prompt);
  return prompt;
}

// -- prompts ---------------------------------------------------------------------------------------------------------

test("Enter sends the prompt, Shift+Enter and the Enter of an input method do not", async () => {
  const page = await open();
  const prompt = page.one("textarea.prompt") as HTMLTextAreaElement;
  prompt.value = "Why?";
  page.key(prompt, "Enter", { shiftKey: true });
  page.key(prompt, "Enter", { isComposing: true });
  page.key(prompt, "Enter", Object.fromEntries([["keyCode", 229]]));
  assert.deepEqual(page.newMessages(), []);
  page.key(prompt, "Enter");
  assert.deepEqual(page.newMessages(), [{ type: "prompt", text: "Why?", mentions: [], images: [] }]);
  assert.equal(prompt.value, "");
});

test("a prompt sent before the session is known is sent immediately", async () => {
  const page = await begin();
  const prompt = write(page, "Why @b");
  assert.deepEqual(page.newMessages(), [{ type: "complete", text: "Why @b" }]);
  page.key(prompt, "Enter");
  assert.deepEqual(page.newMessages(), [{ type: "prompt", text: "Why @b", mentions: [], images: [] }]);
  assert.equal(prompt.value, "");
});

test("a prompt sent while the server starts is shown as queued until it has started", async () => {
  const page = await open();
  const waiting = () => page.all(".queued-text").map(({ textContent }) => textContent);
  page.show(page.state, { server: "starting" });
  page.key(write(page, "Why?"), "Enter");
  assert.deepEqual(waiting(), ["Why?"]);
  assert.equal(page.one(".status").textContent, "Deputy is starting");
  page.post({ type: "around", around: { ...AROUND, server: "starting" } });
  assert.deepEqual(waiting(), ["Why?"]);
  page.post({ type: "around", around: AROUND });
  assert.deepEqual(waiting(), []);
  page.key(write(page, "And now?"), "Enter");
  assert.deepEqual(waiting(), []);
});

test("keys complete a file, and Enter sends only if no list is open", async () => {
  const page = await open();
  const prompt = write(page, "Explain @b");
  assert.deepEqual(page.newMessages(), [{ type: "complete", text: "Explain @b" }]);
  page.post({ type: "completions", text: "Explain @", answer: { replace: "@", items: [FILES[0]] } });
  assert.equal(page.one(".completions").hidden, true, "a late response is ignored");
  page.post({ type: "completions", text: "Explain @b", answer: { replace: "@b", items: FILES } });
  const chosen = () => page.one('[role="option"][aria-selected="true"]');
  assert.equal(chosen().textContent, "backoff.pysrc");
  page.key(prompt, "ArrowDown");
  assert.equal(chosen().title, "@src/base/");
  assert.equal(prompt.getAttribute("aria-activedescendant"), chosen().id);
  page.key(prompt, "ArrowUp");
  page.key(prompt, "Enter");
  assert.equal(prompt.value, "Explain @src/backoff.py ");
  assert.equal(page.one(".completions").hidden, true);
  assert.deepEqual(page.newMessages(), []);
  page.key(prompt, "Enter");
  assert.equal(page.newMessages()[0]?.type, "prompt");
});

test("after a folder the list shows its content, before the closing quote", async () => {
  const page = await open();
  const prompt = write(page, "@my");
  const answer = { replace: "@my", items: [{ text: '@"my dir/"', kind: "folder" as const }] };
  page.post({ type: "completions", text: "@my", answer });
  page.newMessages();
  page.key(prompt, "Tab");
  assert.equal(prompt.value, '@"my dir/"');
  assert.deepEqual(page.newMessages(), [{ type: "complete", text: '@"my dir/' }]);
});

test("a closed list stays closed until the next word", async () => {
  const page = await open();
  const prompt = write(page, "/b");
  page.post({ type: "completions", text: "/b", answer: { replace: "/b", items: FILES } });
  page.key(prompt, "Escape");
  assert.equal(page.one(".completions").hidden, true);
  page.newMessages();
  write(page, "/ba");
  assert.deepEqual(page.newMessages(), []);
  write(page, "/ba @b");
  assert.deepEqual(page.newMessages(), [{ type: "complete", text: "/ba @b" }]);
});

test("a complete command is not offered, and Enter sends it", async () => {
  const page = await open();
  const prompt = write(page, "/tidy");
  const item = { text: "/tidy", kind: "command" as const };
  page.post({ type: "completions", text: "/tidy", answer: { replace: "/tidy", items: [item] } });
  page.newMessages();
  page.key(prompt, "Enter");
  assert.equal(page.newMessages()[0]?.type, "prompt");
});

test("stopping by keyboard focuses the prompt box", async () => {
  const page = await open();
  page.events(log("plan_and_queue").slice(0, 1).flat());
  page.button("Stop all agents of this session").focus();
  page.show({ ...page.state, turn: undefined, agents: {} });
  assert.equal(document.activeElement, page.one("textarea.prompt"));
});

test("a queued prompt is shown and can be removed", async () => {
  const page = await open();
  page.events(log("plan_and_queue").slice(0, 4).flat());
  const [waiting] = page.state.queue;
  assert.ok(waiting);
  assert.equal(page.one(".queued-text").textContent, waiting.text);
  page.button("Remove from queue").click();
  assert.deepEqual(page.newMessages(), [{ type: "unqueue", promptId: waiting.promptId }]);
  page.show({ ...page.state, queue: [{ promptId: "2", text: "", pictures: 2 }] });
  assert.equal(page.one(".queued").textContent.trim(), "2 images");
  page.post({ type: "unsent", text: waiting.text });
  assert.equal((page.one("textarea.prompt") as HTMLTextAreaElement).value, waiting.text);
});

test("a draft is kept while the page is hidden", async () => {
  const mention = { uri: "file:///w/a.py", label: "a.py" };
  const page = await open({ text: "half a thought", mentions: [mention] });
  assert.equal((page.one("textarea.prompt") as HTMLTextAreaElement).value, "half a thought");
  page.button("Remove a.py").click();
  assert.deepEqual(page.draft, { text: "half a thought", mentions: [] });
});

test("each added file is sent once with the prompt", async () => {
  const page = await open();
  const mention = { uri: "file:///w/a.py", label: "a.py" };
  page.post({ type: "mention", mentions: [mention] });
  page.post({ type: "mention", mentions: [mention] });
  const prompt = page.one("textarea.prompt") as HTMLTextAreaElement;
  prompt.value = "Explain";
  page.newMessages();
  page.button("Send (Enter)").click();
  assert.deepEqual(page.newMessages(), [{ type: "prompt", text: "Explain", mentions: [mention], images: [] }]);
});

// -- notices ---------------------------------------------------------------------------------------------------------

const NOTICES = [
  [{ server: "stopped" }, "Deputy's server is not running.", "Start", "start"],
  [{ trusted: false }, "This folder is not trusted. Agents can read and plan, but change nothing.", "Trust…", "trust"],
] as const;

for (const [around, text, action, type] of NOTICES) {
  test(`the notice "${text}" has one action`, async () => {
    const page = await open();
    page.show(after(LOOK), around);
    assert.ok(page.one(".notice").textContent.startsWith(text));
    page.newMessages();
    page.button(action).click();
    assert.deepEqual(page.newMessages(), [{ type }]);
  });
}

test("a failed start shows the cause, and the settings if they are the cause", async () => {
  const page = await open();
  page.show(after(LOOK), { server: "stopped", problem: { message: "deputy.model: unknown.", isSetting: true } });
  assert.ok(page.one(".notice").textContent.startsWith("deputy.model: unknown."));
  page.newMessages();
  for (const name of ["Open Settings", "Try Again", "Show Log"]) page.button(name).click();
  assert.deepEqual(
    page.newMessages().map(({ type }) => type),
    ["serverSettings", "start", "showLog"],
  );
});

test("a card shows what to do without a server, and a step of the installation keeps the focus", async () => {
  const page = await open();
  const step = (done: number): Card => ({
    icon: "sync",
    title: "Installing",
    text: `Step ${done + 1} of 4`,
    progress: { done, of: 4 },
    buttons: [{ text: "Cancel", act: "cancelInstall" }],
  });
  page.show(emptySession("session-1"), { server: "stopped", card: step(0) });
  assert.equal(page.all(".notice").length, 0);
  assert.equal(page.one(".welcome").hidden, true);
  page.button("Cancel").focus();
  page.show(emptySession("session-1"), { server: "stopped", card: step(1) });
  assert.equal(page.one(".setup p").textContent, "Step 2 of 4");
  assert.equal((page.one("progress") as HTMLProgressElement).value, 1);
  assert.equal(document.activeElement, page.button("Cancel"));
  page.newMessages();
  page.button("Cancel").click();
  assert.deepEqual(page.newMessages(), [{ type: "cancelInstall" }]);
  page.show(emptySession("session-1"), { server: "running" });
  assert.equal(page.one(".setup").hidden, true);
});

test("a rejected key offers to set a key and to show the log", async () => {
  const page = await open();
  const error = {
    kind: "authentication",
    message: "The key was rejected.",
    retryable: false,
    action: "Check X_API_KEY.",
  };
  page.show({ ...after(LOOK), ended: { turnId: "t1", stopReason: "error", error } });
  assert.equal(page.one(".notice span:nth-child(2)").textContent, "The key was rejected.");
  page.newMessages();
  page.button("Set API Key…").click();
  page.button("Show Log").click();
  assert.deepEqual(page.newMessages(), [{ type: "setApiKey" }, { type: "showLog" }]);
});

const LIMITS = [
  [
    "the session's budget of 9 tokens is used up",
    "budgets.tree.tokens",
    "Raise that setting and continue here, or start a new session.",
  ],
  [
    "it reached its limit of 9 model requests for one prompt",
    "limits.turnIterations",
    "Send a prompt to continue, or raise that setting.",
  ],
] as const;

for (const [limit, setting, advice] of LIMITS) {
  test(`a turn that ended because ${limit} shows it and opens ${setting}`, async () => {
    const page = await open();
    const detail = `${limit} (${setting})`;
    page.show({ ...after(LOOK), ended: { turnId: "t1", stopReason: "max_turn_requests", detail, setting } });
    assert.equal(page.one(".notice span:nth-child(2)").textContent, `Stopped: ${detail}. ${advice}`);
    page.newMessages();
    page.button("Open Settings").click();
    page.button("New Session").click();
    assert.deepEqual(page.newMessages(), [{ type: "setting", name: setting }, { type: "newSession" }]);
  });
}

test("an interrupted background agent can be continued", async () => {
  const page = await open();
  const state = after(LOOK);
  page.show({
    ...state,
    agents: Object.fromEntries(
      Object.entries(state.agents).map(([id, agent]) => [
        id,
        agent.parentAgentId === undefined
          ? agent
          : { ...agent, status: "failed" as const, failureReason: "interrupted_by_restart" as const },
      ]),
    ),
  });
  page.newMessages();
  page.button("Continue").click();
  assert.deepEqual(page.newMessages(), [{ type: "continue" }]);
});

test("an interrupted turn can be continued, a stopped one cannot", async () => {
  const page = await open();
  const ended = { turnId: "t1", stopReason: "cancelled" } as const;
  page.show({ ...after(LOOK), ended: { ...ended, interrupted: true } });
  assert.equal(page.one(".notice span:nth-child(2)").textContent, "The last turn was interrupted: the server ended.");
  page.newMessages();
  page.button("Continue").click();
  assert.deepEqual(page.newMessages(), [{ type: "continue" }]);
  page.show({ ...after(LOOK), ended });
  assert.equal(page.one(".notice").textContent, "Cancelled.");
});

test("the arrow keys recall earlier prompts, and what was written stays", async () => {
  const page = await open();
  const state = after(log("three_children"));
  const agentId = state.primaryId ?? "";
  const [prompt] = (state.entries[agentId] ?? []).filter(({ type }) => type === "message");
  assert.ok(prompt?.type === "message");
  const other = { ...prompt, seq: 900, messageId: "m900", text: "first line\nsecond line" };
  page.show({ ...state, entries: { ...state.entries, [agentId]: [prompt, other, { ...other, seq: 901 }] } });
  const box = write(page, "new");
  const recalled = (key: string, at?: number): string => {
    if (at !== undefined) box.setSelectionRange(at, at);
    page.key(box, key);
    return box.value;
  };
  assert.equal(recalled("ArrowUp"), other.text);
  assert.equal(recalled("ArrowUp", other.text.length), other.text, "the key moves within the text");
  assert.equal(recalled("ArrowUp", 0), prompt.text);
  assert.equal(recalled("ArrowUp"), prompt.text);
  assert.equal(recalled("ArrowDown"), other.text);
  assert.equal(recalled("ArrowDown"), "new");
  assert.equal(recalled("ArrowDown"), "new");
});

const FAILURES = [
  ["Check ANTHROPIC_API_KEY.", ["Set API Key…", "Retry", "Show Log"]],
  ["Log in to your cloud provider again.", ["Retry", "Show Log"]],
  ["Check the setting `model` (or DEPUTY_MODEL).", ["Choose Model…", "Retry", "Show Log"]],
  ["Check the setting `baseUrl` (or ANTHROPIC_BASE_URL).", ["Open Settings", "Retry", "Show Log"]],
  ["Try again later.", ["Retry", "Show Log"]],
] as const;

for (const [action, buttons] of FAILURES) {
  test(`a failure whose advice is "${action}" offers what fits, and to retry`, async () => {
    const page = await open();
    const error = { kind: "unknown", message: "It failed", action, retryable: false };
    page.show({ ...after(log("three_children")), ended: { turnId: "t", stopReason: "error", error } });
    const notice = page.one(".notice");
    assert.deepEqual(
      [...notice.querySelectorAll("button")].map(({ textContent }) => textContent),
      buttons,
    );
    page.button("Retry").click();
    assert.deepEqual(page.newMessages(), [{ type: "continue" }]);
  });
}
