/** Approvals in the chat, and the ways to answer them. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { nameOfOption } from "../../src/state/proposal.ts";
import { after, log, open } from "./page.ts";

const ASKING = log("permission_requests");

test("an approval is in the block of its agent, which unfolds once for it", async () => {
  const page = await open();
  page.show(after(ASKING.slice(0, 1)));
  const card = page.one(".approval");
  const block = card.closest<HTMLElement>(".block");
  assert.equal(block?.dataset["state"], "waiting for you");
  assert.equal(block.querySelector<HTMLElement>(".block-body")?.hidden, false);
  block.querySelector<HTMLElement>(".block-toggle")?.click();
  page.show(page.state);
  assert.equal(block.querySelector<HTMLElement>(".block-body")?.hidden, true);
});

test("only a click on an answer sends it", async () => {
  const page = await open();
  page.show(after(ASKING.slice(0, 1)));
  page.newMessages();
  const card = page.one(".approval");
  for (const key of ["Enter", " ", "y"]) page.key(card, key);
  page.one(".block-toggle").click();
  assert.deepEqual(
    page.newMessages().filter(({ type }) => type === "choose" || type === "deny"),
    [],
  );
  const [request] = Object.values(page.state.requests);
  assert.ok(request);
  for (const option of request.options) {
    page.button(nameOfOption(request, option), card).click();
    assert.deepEqual(page.newMessages(), [{ type: "choose", requestId: request.requestId, option }]);
    page.show(page.state);
  }
});

test("two quick clicks answer one request, not the one that moves to the same place", async () => {
  const page = await open();
  const asking = after(ASKING.slice(0, 1));
  const [first] = Object.values(asking.requests);
  assert.ok(first);
  const approve = (): void => page.all(".approval .answers button")[0]?.click();
  const chosen = (): string[] => page.newMessages().flatMap((sent) => (sent.type === "choose" ? sent.requestId : []));
  page.show(asking);
  approve();
  approve();
  assert.deepEqual(chosen(), [first.requestId]);
  const second = { ...first, requestId: "another" };
  page.show({ ...asking, requests: { another: second } });
  page.show({ ...asking, requests: { another: second } });
  approve();
  assert.deepEqual(chosen(), ["another"]);
});

test("a request that has just appeared cannot be approved yet", async () => {
  const page = await open();
  page.quick(() => page.show(after(ASKING.slice(0, 1))));
  page.newMessages();
  page.all(".approval .answers button")[0]?.click();
  assert.deepEqual(page.newMessages(), []);
  assert.ok(document.body.classList.contains("settling"));
});

test("a denial with a reason is sent by its button, not by Enter", async () => {
  const page = await open();
  page.show(after(ASKING.slice(0, 1)));
  page.newMessages();
  page.button("Deny with reason…").click();
  const note = page.one(".approval textarea") as HTMLTextAreaElement;
  note.value = "Use the other file";
  page.key(note, "Enter");
  assert.deepEqual(page.newMessages(), []);
  page.button("Deny with this reason").click();
  const [requestId] = Object.keys(page.state.requests);
  assert.deepEqual(page.newMessages(), [{ type: "deny", requestId, note: "Use the other file" }]);
});

test("a settled approval is removed", async () => {
  const page = await open();
  for (const step of ASKING) page.events(step);
  assert.deepEqual(page.all(".approval"), []);
});

test("answering by keyboard focuses the next approval, then the prompt box", async () => {
  const page = await open();
  const asking = after(ASKING.slice(0, 1));
  const [first] = Object.values(asking.requests);
  assert.ok(first);
  const second = { ...first, requestId: "another" };
  page.show({ ...asking, requests: { [first.requestId]: first, another: second } });
  const cards = page.all(".approval");
  assert.equal(cards.length, 2);
  cards[0]?.querySelector<HTMLElement>(".answers button")?.focus();
  page.show({ ...asking, requests: { another: second } });
  assert.equal(document.activeElement, page.one(".approval"));
  page.one(".approval").querySelector<HTMLElement>(".answers button")?.focus();
  page.show({ ...asking, requests: {} });
  assert.equal(document.activeElement, page.one("textarea.prompt"));
});

test("the focus does not move to another field if an approval closes while a reason is written", async () => {
  const page = await open();
  const asking = after(ASKING.slice(0, 1));
  page.show(asking);
  page.button("Deny with reason…").click();
  assert.equal(document.activeElement, page.one(".approval textarea"));
  page.show({ ...asking, requests: {} });
  assert.equal(document.activeElement, document.body);
});

test("an approval shows that its file has changed or was deleted", async () => {
  const page = await open();
  const asking = after(ASKING.slice(0, 1));
  const [requestId = ""] = Object.keys(asking.requests);
  page.show(asking);
  assert.deepEqual(page.all(".stale"), []);
  page.show(asking, { stale: { [requestId]: "changed" } });
  assert.match(page.one(".approval .stale").textContent, /has changed since/);
  page.show(asking, { stale: { [requestId]: "gone" } });
  assert.match(page.one(".approval .stale").textContent, /no longer exists/);
});

test("invisible characters of a command are spelled out", async () => {
  const page = await open();
  const state = after(ASKING.slice(0, 1));
  const [request] = Object.values(state.requests);
  assert.ok(request);
  const preview = { type: "command", command: "echo a\u202eb\u001b[2K", cwd: "file:///w/a%20b" } as const;
  page.show({ ...state, requests: { [request.requestId]: { ...request, preview } } });
  assert.equal(page.one(".approval .command").textContent, "echo a\\u{202e}b\\u{1b}[2K");
  assert.ok(page.one(".approval-body").textContent.includes("in /w/a b"));
});

test("an edited proposal is shown as edited", async () => {
  const page = await open();
  const state = after(ASKING.slice(0, 1));
  const [request] = Object.values(state.requests);
  assert.ok(request);
  const preview = { type: "diff", uri: "file:///w/a.py", oldText: "one\n", newText: "two\n" } as const;
  page.show({ ...state, requests: { [request.requestId]: { ...request, preview } } });
  assert.deepEqual(
    page.all(".diff .added").map(({ textContent }) => textContent),
    ["+two\n"],
  );
  page.show(
    { ...state, requests: { [request.requestId]: { ...request, preview } } },
    { edits: { [request.requestId]: "three\n" } },
  );
  assert.deepEqual(
    page.all(".diff .added").map(({ textContent }) => textContent),
    ["+three\n"],
  );
  assert.ok(page.one(".approval .notes").textContent.includes("Edited by you"));
  page.show(
    { ...state, requests: { [request.requestId]: { ...request, preview } } },
    { edits: { [request.requestId]: "one\n" } },
  );
  assert.equal(page.one(".approval-body").textContent, "No proposed change is left: deny it instead.");
});

test("new approvals and finished agents are announced to screen readers", async () => {
  const page = await open();
  const announced: string[] = [];
  for (const event of ASKING.flat()) {
    page.events([event]);
    const text = page.one("[aria-live=polite]").textContent;
    if (text && text !== announced.at(-1)) announced.push(text);
  }
  assert.ok(announced[0]?.endsWith("needs your approval"), announced.join("; "));
  assert.ok(announced.at(-2)?.endsWith("completed"), announced.join("; "));
  assert.equal(announced.at(-1), "Deputy has answered");
});

test("a long command shows that it must be scrolled", async () => {
  const page = await open();
  const state = after(ASKING.slice(0, 1));
  const [request] = Object.values(state.requests);
  assert.ok(request);
  const shown = (command: string): string => {
    const preview = { type: "command", command, cwd: "file:///w" } as const;
    const requestId = `with ${String(command.length)}`;
    page.show({ ...state, requests: { [requestId]: { ...request, requestId, preview } } });
    return page.one(".approval-body").textContent;
  };
  assert.ok(!shown("make test").includes("scroll"));
  assert.match(shown(`make test #${"x".repeat(2990)}; rm -rf ~`), /3.011 characters: scroll to see all of it/);
  assert.match(shown(`make test${"\n".repeat(50)}rm`), /61 characters: scroll to see all of it/);
});

test("Escape closes the reason box, Ctrl+Enter denies, and no key approves", async () => {
  const page = await open();
  page.show(after(ASKING.slice(0, 1)));
  const [card] = page.all(".approval");
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
  assert.deepEqual(page.newMessages(), []);
  page.key(note, "Enter", { ctrlKey: true });
  assert.deepEqual(page.newMessages(), [{ type: "deny", requestId: card.dataset["request"], note: "not now" }]);
});

test("Approve is not the primary button of a stale approval", async () => {
  const page = await open();
  const asking = after(ASKING.slice(0, 1));
  page.show(asking);
  const [requestId = ""] = Object.keys(asking.requests);
  const approve = (): string => page.all(".approval")[0]?.querySelector(".answers button")?.className ?? "";
  assert.match(approve(), /primary/);
  page.show(asking, { stale: { [requestId]: "changed" } });
  assert.match(approve(), /secondary/);
  page.show(asking);
  assert.match(approve(), /primary/);
});
