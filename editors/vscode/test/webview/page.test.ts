import assert from "node:assert/strict";
import { test } from "node:test";

import { nameOfOption } from "../../src/state/proposal.ts";
import { after, begin, log, open, type TestPage } from "./page.ts";

const LOOK = log("three_children");
const ASKING = log("questions");

const FILES = [
  { text: "@src/backoff.py", kind: "file" },
  { text: "@src/base/", kind: "folder" },
] as const;

function states(page: TestPage): (string | undefined)[] {
  return page.all(".block").map((block) => block.dataset["state"]);
}

/** Writes a prompt as keys do. */
function write(page: TestPage, text: string): HTMLTextAreaElement {
  const prompt = page.one("textarea.prompt") as HTMLTextAreaElement;
  prompt.value = text;
  prompt.setSelectionRange(text.length, text.length);
  page.input(prompt);
  return prompt;
}

// -- sub-agents ------------------------------------------------------------------------------------------------------

test("each sub-agent has a block, in the order of the calls, from its start to its end", async () => {
  const page = await open();
  for (const step of LOOK) page.hear(step);
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

test("a block keeps its element while its agent works, so that focus and fold stay", async () => {
  const page = await open();
  page.hear(LOOK.slice(0, 5).flat());
  const before = page.all(".block");
  before[0]?.querySelector<HTMLElement>(".block-toggle")?.click();
  page.hear(LOOK.slice(5).flat());
  assert.deepEqual(page.all(".block"), before);
  assert.equal(before[0]?.querySelector(".block-toggle")?.getAttribute("aria-expanded"), "true");
});

test("Cancel is on each block that runs, names its agent, and is gone when that has ended", async () => {
  const page = await open();
  page.show(after(LOOK.slice(0, 5)));
  const running = page.all(".block").filter((block) => block.dataset["state"] === "running");
  assert.ok(running.length > 0);
  for (const block of running) {
    const label = block.querySelector(".label")?.textContent ?? "";
    page.button(`Cancel ${label}`, block).click();
    assert.deepEqual(page.news(), [{ type: "cancelAgent", agentId: block.dataset["agent"] }]);
  }
  page.show(after(LOOK));
  assert.ok(page.all(".block button").every((button) => !button.getAttribute("aria-label")?.startsWith("Cancel")));
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

test("what a running call puts out is shown while it runs, and its result can be seen whole", async () => {
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
  page.hear([started, put("one\n"), put("two\u001b[2K")]);
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
  page.hear([{ ...ended, content: "one\n[cut]", truncated: true }]);
  assert.equal(live.hidden, true);
  page.button("Show the result", live.parentElement ?? undefined).click();
  page.news();
  page.button("Show all", live.parentElement ?? undefined).click();
  assert.deepEqual(page.news(), [{ type: "output", agentId, toolCallId: "c1" }]);
});

test("the line of counts says how many agents run", async () => {
  const page = await open();
  page.show(after(LOOK));
  assert.ok(page.one(".status").textContent.endsWith("Agents: 1 primary, 0 running, 3 finished"));
});

test("what waits for the user stands first, where a narrow side bar does not cut it", async () => {
  const page = await open();
  page.show(after(ASKING.slice(0, 1)));
  assert.ok(page.one(".status").textContent.startsWith("1 waiting for you · "));
});

test("a page can be drawn whatever the settings say", async () => {
  const page = await open();
  page.show(after(LOOK), { mode: "careless" as "default" });
  assert.equal(page.all(".pick")[0]?.textContent, "Ask");
});

// -- questions -------------------------------------------------------------------------------------------------------

test("a question stands in the block of its agent, which unfolds once for it", async () => {
  const page = await open();
  page.show(after(ASKING.slice(0, 1)));
  const question = page.one(".question");
  const block = question.closest<HTMLElement>(".block");
  assert.equal(block?.dataset["state"], "waiting for you");
  assert.equal(block.querySelector<HTMLElement>(".block-body")?.hidden, false);
  block.querySelector<HTMLElement>(".block-toggle")?.click();
  page.show(page.state);
  assert.equal(block.querySelector<HTMLElement>(".block-body")?.hidden, true);
});

test("a click on an answer sends that answer, and nothing else does", async () => {
  const page = await open();
  page.show(after(ASKING.slice(0, 1)));
  page.news();
  const question = page.one(".question");
  for (const key of ["Enter", " ", "y"]) page.key(question, key);
  page.one(".block-toggle").click();
  assert.deepEqual(
    page.news().filter(({ type }) => type === "choose" || type === "deny"),
    [],
  );
  const [request] = Object.values(page.state.questions);
  assert.ok(request);
  for (const option of request.options) {
    page.button(nameOfOption(request, option), question).click();
    assert.deepEqual(page.news(), [{ type: "choose", requestId: request.requestId, option }]);
  }
});

test("a denial with a reason is sent by its own button, not by Enter", async () => {
  const page = await open();
  page.show(after(ASKING.slice(0, 1)));
  page.news();
  page.button("Deny with reason…").click();
  const note = page.one(".question textarea") as HTMLTextAreaElement;
  note.value = "Use the other file";
  page.key(note, "Enter");
  assert.deepEqual(page.news(), []);
  page.button("Deny with this reason").click();
  const [requestId] = Object.keys(page.state.questions);
  assert.deepEqual(page.news(), [{ type: "deny", requestId, note: "Use the other file" }]);
});

test("a question that is settled is gone", async () => {
  const page = await open();
  for (const step of ASKING) page.hear(step);
  assert.deepEqual(page.all(".question"), []);
});

test("what a command hides is spelled out before it is approved", async () => {
  const page = await open();
  const state = after(ASKING.slice(0, 1));
  const [request] = Object.values(state.questions);
  assert.ok(request);
  const preview = { type: "command", command: "echo a\u202eb\u001b[2K", cwd: "file:///w/a%20b" } as const;
  page.show({ ...state, questions: { [request.requestId]: { ...request, preview } } });
  assert.equal(page.one(".question .command").textContent, "echo a\\u{202e}b\\u{1b}[2K");
  assert.ok(page.one(".question-body").textContent.includes("in /w/a b"));
});

test("a proposal that the user has changed is shown as changed", async () => {
  const page = await open();
  const state = after(ASKING.slice(0, 1));
  const [request] = Object.values(state.questions);
  assert.ok(request);
  const preview = { type: "diff", uri: "file:///w/a.py", oldText: "one\n", newText: "two\n" } as const;
  page.show({ ...state, questions: { [request.requestId]: { ...request, preview } } });
  assert.deepEqual(
    page.all(".diff .added").map(({ textContent }) => textContent),
    ["+two\n"],
  );
  page.show(
    { ...state, questions: { [request.requestId]: { ...request, preview } } },
    { edits: { [request.requestId]: "three\n" } },
  );
  assert.deepEqual(
    page.all(".diff .added").map(({ textContent }) => textContent),
    ["+three\n"],
  );
  assert.ok(page.one(".question-body").textContent.includes("Edited by you"));
});

test("who asks and who has ended is told to those who listen", async () => {
  const page = await open();
  const said: string[] = [];
  for (const event of ASKING.flat()) {
    page.hear([event]);
    const words = page.one("[aria-live=polite]").textContent;
    if (words && words !== said.at(-1)) said.push(words);
  }
  assert.ok(said[0]?.endsWith("waits for you"), said.join("; "));
  assert.ok(said.at(-1)?.endsWith("completed"), said.join("; "));
});

// -- messages --------------------------------------------------------------------------------------------------------

test("an answer in the making grows, and is replaced by the whole", async () => {
  const page = await open();
  page.hear(log("plan_and_queue").slice(0, 3).flat());
  assert.equal(page.all(".streaming").length, 1);
  page.hear(log("plan_and_queue").slice(3).flat());
  assert.deepEqual(page.all(".streaming"), []);
  const entries = page.state.entries[page.state.primaryId ?? ""]?.filter(({ type }) => type === "message");
  assert.equal(page.all(".message").length, entries?.length);
});

test("a message of great length is cut, also while it grows, and can be seen whole", async () => {
  const page = await open();
  const { primaryId: agentId = "", lastSeq } = after(LOOK);
  page.show(after(LOOK));
  const at = { sessionId: "session-1", agentId, run: 1, time: "2026-01-01T00:00:00Z", messageId: "long" } as const;
  const piece = `${"x".repeat(79)}\n`.repeat(1000);
  page.hear([{ ...at, type: "message_delta", afterSeq: lastSeq, text: `\`\`\`\n${piece}` }]);
  page.hear([{ ...at, type: "message_delta", afterSeq: lastSeq, text: piece }]);
  const before = page.one(".streaming pre");
  page.hear([{ ...at, type: "message_delta", afterSeq: lastSeq, text: piece }]);
  assert.equal(page.one(".streaming pre"), before, "what is not shown is not drawn");
  assert.match(page.one(".streaming").textContent, /240.004 characters so far$/);
  const text = `\`\`\`\n${piece.repeat(3)}`;
  page.hear([{ ...at, type: "message", role: "assistant", text, seq: lastSeq + 1, agentSeq: 90 }]);
  const [shown] = page.all(".message").slice(-1);
  assert.ok((shown?.textContent.length ?? 0) < 101_000);
  page.news();
  const [all] = [...(shown?.querySelectorAll<HTMLElement>("button") ?? [])].slice(-1);
  assert.match(all?.textContent ?? "", /Show all 240.004 characters/);
  all?.click();
  assert.deepEqual(page.news(), [{ type: "message", agentId, messageId: "long" }]);
});

test("the words of the user are text, whatever they look like", async () => {
  const page = await open();
  page.show(after(LOOK));
  const user = page.all(".message.user")[0];
  assert.equal(user?.querySelectorAll(".markdown *").length, 0);
});

test("the plan shows its steps and how many are done", async () => {
  const page = await open();
  page.hear(log("plan_and_queue").slice(0, 2).flat());
  const plan = Object.values(page.state.plans)[0] ?? [];
  assert.equal(page.all(".plan li").length, plan.length);
  const done = plan.filter(({ status }) => status === "completed").length;
  assert.ok(page.one(".plan-box summary").textContent.includes(`${String(done)} of ${String(plan.length)} done`));
});

// -- prompts ---------------------------------------------------------------------------------------------------------

test("Enter sends the prompt, Shift+Enter and the Enter of an input method do not", async () => {
  const page = await open();
  const prompt = page.one("textarea.prompt") as HTMLTextAreaElement;
  prompt.value = "Why?";
  page.key(prompt, "Enter", { shiftKey: true });
  page.key(prompt, "Enter", { isComposing: true });
  assert.deepEqual(page.news(), []);
  page.key(prompt, "Enter");
  assert.deepEqual(page.news(), [{ type: "prompt", text: "Why?", mentions: [], pictures: [] }]);
  assert.equal(prompt.value, "");
});

test("what is sent before the page knows its session goes out at once", async () => {
  const page = await begin();
  const prompt = write(page, "Why @b");
  assert.deepEqual(page.news(), [{ type: "complete", text: "Why @b" }]);
  page.key(prompt, "Enter");
  assert.deepEqual(page.news(), [{ type: "prompt", text: "Why @b", mentions: [], pictures: [] }]);
  assert.equal(prompt.value, "");
});

test("a file is completed by the keys, and Enter sends only when no list is open", async () => {
  const page = await open();
  const prompt = write(page, "Explain @b");
  assert.deepEqual(page.news(), [{ type: "complete", text: "Explain @b" }]);
  page.tell({ type: "completions", text: "Explain @", answer: { replace: "@", items: [FILES[0]] } });
  assert.equal(page.one(".completions").hidden, true, "an answer that comes too late");
  page.tell({ type: "completions", text: "Explain @b", answer: { replace: "@b", items: FILES } });
  const chosen = () => page.one('[role="option"][aria-selected="true"]');
  assert.equal(chosen().textContent, "backoff.pysrc");
  page.key(prompt, "ArrowDown");
  assert.equal(chosen().title, "@src/base/");
  assert.equal(prompt.getAttribute("aria-activedescendant"), chosen().id);
  page.key(prompt, "ArrowUp");
  page.key(prompt, "Enter");
  assert.equal(prompt.value, "Explain @src/backoff.py ");
  assert.equal(page.one(".completions").hidden, true);
  assert.deepEqual(page.news(), []);
  page.key(prompt, "Enter");
  assert.equal(page.news()[0]?.type, "prompt");
});

test("after a folder the list goes on with what is in it, in front of a closing quote", async () => {
  const page = await open();
  const prompt = write(page, "@my");
  const answer = { replace: "@my", items: [{ text: '@"my dir/"', kind: "folder" as const }] };
  page.tell({ type: "completions", text: "@my", answer });
  page.news();
  page.key(prompt, "Tab");
  assert.equal(prompt.value, '@"my dir/"');
  assert.deepEqual(page.news(), [{ type: "complete", text: '@"my dir/' }]);
});

test("a list that was closed stays closed until the next word", async () => {
  const page = await open();
  const prompt = write(page, "/b");
  page.tell({ type: "completions", text: "/b", answer: { replace: "/b", items: FILES } });
  page.key(prompt, "Escape");
  assert.equal(page.one(".completions").hidden, true);
  page.news();
  write(page, "/ba");
  assert.deepEqual(page.news(), []);
  write(page, "/ba @b");
  assert.deepEqual(page.news(), [{ type: "complete", text: "/ba @b" }]);
});

test("what is written whole already is not offered, and Enter sends it", async () => {
  const page = await open();
  const prompt = write(page, "/tidy");
  const item = { text: "/tidy", kind: "command" as const };
  page.tell({ type: "completions", text: "/tidy", answer: { replace: "/tidy", items: [item] } });
  page.news();
  page.key(prompt, "Enter");
  assert.equal(page.news()[0]?.type, "prompt");
});

test("a prompt that waits is shown, and can be taken back", async () => {
  const page = await open();
  page.hear(log("plan_and_queue").slice(0, 4).flat());
  const [waiting] = page.state.queue;
  assert.ok(waiting);
  assert.equal(page.one(".queued-text").textContent, waiting.text);
  page.button("Take this prompt back").click();
  assert.deepEqual(page.news(), [{ type: "unqueue", promptId: waiting.promptId }]);
  page.tell({ type: "unsent", text: waiting.text });
  assert.equal((page.one("textarea.prompt") as HTMLTextAreaElement).value, waiting.text);
});

test("what is written survives that the page is hidden", async () => {
  const mention = { uri: "file:///w/a.py", label: "a.py" };
  const page = await open({ text: "half a thought", mentions: [mention] });
  assert.equal((page.one("textarea.prompt") as HTMLTextAreaElement).value, "half a thought");
  page.button("Remove a.py").click();
  assert.deepEqual(page.draft, { text: "half a thought", mentions: [] });
});

test("files that are added go with the prompt, each once", async () => {
  const page = await open();
  const mention = { uri: "file:///w/a.py", label: "a.py" };
  page.tell({ type: "mention", mentions: [mention] });
  page.tell({ type: "mention", mentions: [mention] });
  const prompt = page.one("textarea.prompt") as HTMLTextAreaElement;
  prompt.value = "Explain";
  page.news();
  page.button("Send (Enter)").click();
  assert.deepEqual(page.news(), [{ type: "prompt", text: "Explain", mentions: [mention], pictures: [] }]);
});

// -- what stands in the way ------------------------------------------------------------------------------------------

const NOTICES = [
  [{ server: "stopped" }, "Deputy's server is not running.", "Start", "start"],
  [{ trusted: false }, "This folder is not trusted: agents read and plan, and change nothing.", "Trust…", "trust"],
] as const;

for (const [around, text, action, type] of NOTICES) {
  test(`"${text}" has one thing to do about it`, async () => {
    const page = await open();
    page.show(after(LOOK), around);
    assert.ok(page.one(".notice").textContent.startsWith(text));
    page.news();
    page.button(action).click();
    assert.deepEqual(page.news(), [{ type }]);
  });
}

test("a key that is refused can be set, and the log be seen", async () => {
  const page = await open();
  const error = { kind: "authentication", message: "The key was refused.", retryable: false, action: "Set another." };
  page.show({ ...after(LOOK), ended: { turnId: "t1", stopReason: "error", error } });
  assert.ok(page.one(".notice").textContent.startsWith("The key was refused. Set another."));
  page.news();
  page.button("Set API Key…").click();
  page.button("Show Log").click();
  assert.deepEqual(page.news(), [{ type: "setApiKey" }, { type: "showLog" }]);
});

test("what an agent was doing in the background when the server ended is continued by one click", async () => {
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
  page.news();
  page.button("Continue").click();
  assert.deepEqual(page.news(), [{ type: "continue" }]);
});

test("a turn that the server's end cut off is continued by one click, one that the user stopped is not", async () => {
  const page = await open();
  const ended = { turnId: "t1", stopReason: "cancelled" } as const;
  page.show({ ...after(LOOK), ended: { ...ended, interrupted: true } });
  assert.equal(page.one(".notice span:nth-child(2)").textContent, "The last turn was interrupted: the server ended.");
  page.news();
  page.button("Continue").click();
  assert.deepEqual(page.news(), [{ type: "continue" }]);
  page.show({ ...after(LOOK), ended });
  assert.equal(page.one(".notice").textContent, "Cancelled.");
});

test("the thread of a sub-agent has its banner and no prompt", async () => {
  const page = await open();
  const state = after(LOOK);
  const child = Object.values(state.agents).find(({ parentAgentId }) => parentAgentId !== undefined);
  page.show(state, { agentId: child?.agentId });
  assert.equal(page.one(".composer").hidden, true);
  assert.ok(page.one(".banner").textContent.includes("Read-only thread of ["));
  page.news();
  page.button("Next").click();
  const [next] = page.news();
  assert.ok(next?.type === "thread" && next.agentId !== child?.agentId);
});
