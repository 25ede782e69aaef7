/** Questions in the chat, and what answers them. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { nameOfOption } from "../../src/state/proposal.ts";
import { after, log, open } from "./page.ts";

const ASKING = log("permission_requests");

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

test("who answers by keys comes to the next question, then to the prompt", async () => {
  const page = await open();
  const asking = after(ASKING.slice(0, 1));
  const [first] = Object.values(asking.questions);
  assert.ok(first);
  const second = { ...first, requestId: "another" };
  page.show({ ...asking, questions: { [first.requestId]: first, another: second } });
  const cards = page.all(".question");
  assert.equal(cards.length, 2);
  cards[0]?.querySelector<HTMLElement>(".answers button")?.focus();
  page.show({ ...asking, questions: { another: second } });
  assert.equal(document.activeElement, page.one(".question"));
  page.one(".question").querySelector<HTMLElement>(".answers button")?.focus();
  page.show({ ...asking, questions: {} });
  assert.equal(document.activeElement, page.one("textarea.prompt"));
});

test("whoever writes a reason when the question goes does not go on writing elsewhere", async () => {
  const page = await open();
  const asking = after(ASKING.slice(0, 1));
  page.show(asking);
  page.button("Deny with reason…").click();
  assert.equal(document.activeElement, page.one(".question textarea"));
  page.show({ ...asking, questions: {} });
  assert.equal(document.activeElement, document.body);
});

test("a question whose file is another one by now says so", async () => {
  const page = await open();
  const asking = after(ASKING.slice(0, 1));
  const [requestId = ""] = Object.keys(asking.questions);
  page.show(asking);
  assert.deepEqual(page.all(".stale"), []);
  page.show(asking, { stale: { [requestId]: "changed" } });
  assert.match(page.one(".question .stale").textContent, /has changed since/);
  page.show(asking, { stale: { [requestId]: "gone" } });
  assert.match(page.one(".question .stale").textContent, /not there any more/);
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
  assert.ok(page.one(".question .notes").textContent.includes("Edited by you"));
  page.show(
    { ...state, questions: { [request.requestId]: { ...request, preview } } },
    { edits: { [request.requestId]: "one\n" } },
  );
  assert.equal(page.one(".question-body").textContent, "Nothing of the proposal is left: deny it instead.");
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
  assert.ok(said.at(-2)?.endsWith("completed"), said.join("; "));
  assert.equal(said.at(-1), "Deputy has answered");
});

test("a command that is too long to be in sight as a whole says so", async () => {
  const page = await open();
  const state = after(ASKING.slice(0, 1));
  const [request] = Object.values(state.questions);
  assert.ok(request);
  const shown = (command: string): string => {
    const preview = { type: "command", command, cwd: "file:///w" } as const;
    const requestId = `with ${String(command.length)}`;
    page.show({ ...state, questions: { [requestId]: { ...request, requestId, preview } } });
    return page.one(".question-body").textContent;
  };
  assert.ok(!shown("make test").includes("scroll"));
  assert.match(shown(`make test #${"x".repeat(2990)}; rm -rf ~`), /3.011 characters: scroll to see all of it/);
  assert.match(shown(`make test${"\n".repeat(50)}rm`), /61 characters: scroll to see all of it/);
});

test("a reason is left by Escape, and sent by Ctrl+Enter; no key in it says yes", async () => {
  const page = await open();
  page.show(after(ASKING.slice(0, 1)));
  const [card] = page.all(".question");
  assert.ok(card);
  page.button("Deny with reason…", card).click();
  const note = card.querySelector<HTMLTextAreaElement>(".note");
  assert.ok(note);
  const row = note.parentElement;
  page.key(note, "Escape");
  assert.ok(row?.hidden);
  assert.equal(document.activeElement, card);
  page.button("Deny with reason…", card).click();
  note.value = "not now";
  page.key(note, "Enter");
  assert.deepEqual(page.news(), []);
  page.key(note, "Enter", { ctrlKey: true });
  assert.deepEqual(page.news(), [{ type: "deny", requestId: card.dataset["request"], note: "not now" }]);
});

test("yes stands out no more where it would come to nothing", async () => {
  const page = await open();
  const asking = after(ASKING.slice(0, 1));
  page.show(asking);
  const [requestId = ""] = Object.keys(asking.questions);
  const yes = (): string => page.all(".question")[0]?.querySelector(".answers button")?.className ?? "";
  assert.match(yes(), /primary/);
  page.show(asking, { stale: { [requestId]: "changed" } });
  assert.match(yes(), /secondary/);
  page.show(asking);
  assert.match(yes(), /primary/);
});
