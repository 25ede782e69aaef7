/** The bar with what is to be reviewed, and going back to before a prompt. */
import assert from "node:assert/strict";
import { test } from "node:test";

import type { RewindPlan, ShownChanges } from "../../src/state/changes.ts";
import { after, log, open, type TestPage } from "./page.ts";

const LOOK = log("three_children");
const GREET = {
  uri: "file:///p/src/greet.py",
  path: "src/greet.py",
  status: "modified",
  added: 3,
  removed: 1,
} as const;
const PLAN = { uri: "file:///p/plan.md", path: "plan.md", status: "created", added: 2, removed: 0 } as const;
const CHANGES: ShownChanges = {
  totals: { files: 2, hunks: 3, added: 5, removed: 1 },
  files: [GREET, PLAN],
  notes: ["Git is missing."],
  comments: 0,
};
const BACK: RewindPlan = {
  checkpointId: "c1",
  title: "compare",
  notes: [],
  files: [{ ...GREET, added: 1, removed: 3 }],
};

function clickAll(page: TestPage, ...names: readonly string[]): unknown[] {
  for (const name of names) page.button(name).click();
  return page.newMessages();
}

test("the bar counts files and lines, and reviews, keeps or undoes everything", async () => {
  const page = await open();
  assert.ok(page.one(".changes").hidden);
  page.post({ type: "changes", changes: CHANGES });
  assert.equal(page.one(".changes-toggle").textContent, "2 files+5 −1");
  assert.deepEqual(clickAll(page, "Review", "Keep all", "Undo all"), [
    { type: "reviewAll" },
    { type: "keepAll" },
    { type: "undoAll" },
  ]);
  page.post({
    type: "changes",
    changes: { ...CHANGES, files: [], totals: { files: 0, hunks: 0, added: 0, removed: 0 } },
  });
  assert.ok(page.one(".changes").hidden);
});

test("a row of the bar opens a file, keeps it or undoes it, and the focus stays on its button", async () => {
  const page = await open();
  page.post({ type: "changes", changes: CHANGES });
  assert.ok(page.one(".changes-files").hidden);
  page.one(".changes-toggle").click();
  assert.deepEqual(
    page.all(".change-row").map(({ textContent }) => textContent),
    ["greet.pysrc+3 −1", "plan.md+2 −0"],
  );
  assert.equal(page.one(".changes-files p").textContent, " Git is missing.");
  const [name] = page.all(".change-name");
  name?.click();
  assert.deepEqual(
    [...page.newMessages(), ...clickAll(page, "Keep the changes of greet.py", "Undo the changes of plan.md")],
    [
      { type: "openChange", uri: GREET.uri },
      { type: "keepFile", uri: GREET.uri },
      { type: "undoFile", uri: PLAN.uri },
    ],
  );
  page.button("Undo the changes of plan.md").focus();
  page.post({ type: "changes", changes: { ...CHANGES, files: [PLAN] } });
  assert.equal(document.activeElement, page.button("Undo the changes of plan.md"));
});

test("collected comments are sent from the bar", async () => {
  const page = await open();
  page.post({ type: "changes", changes: { ...CHANGES, comments: 2 } });
  assert.deepEqual(clickAll(page, "Send 2 comments"), [{ type: "sendComments" }]);
});

test("the card of a prompt shows what goes back, and goes back once", async () => {
  const page = await open();
  page.show(after(LOOK));
  const seq = Number(
    Object.values(page.state.entries)
      .flat()
      .find((entry) => entry.type === "message")?.seq,
  );
  assert.deepEqual(clickAll(page, "Rewind to here, or fork…"), [{ type: "planRewind", seq }]);
  page.show(page.state);
  assert.match(page.one(".rewind").textContent, /Comparing files/);
  page.post({ type: "rewindPlan", seq, plan: BACK });
  assert.match(page.one(".rewind-row").textContent, /src\/greet.py\+1 −3/);
  const both = page.button("Files and conversation");
  assert.equal(document.activeElement, both);
  both.click();
  page.show(page.state);
  assert.deepEqual(page.newMessages(), [{ type: "rewind", checkpointId: "c1", files: true, conversation: true }]);
  assert.ok(page.one(".rewind").hidden);
});

test("where no file can go back, only the conversation can, and a fork continues from there", async () => {
  const page = await open();
  page.show(after(LOOK));
  page.button("Rewind to here, or fork…").click();
  const [asked] = page.newMessages();
  assert.ok(asked?.type === "planRewind");
  const conflict = "It has unsaved changes of yours.";
  page.post({ type: "rewindPlan", seq: asked.seq, plan: { ...BACK, files: [{ ...GREET, conflict }] } });
  assert.equal(page.one(".rewind-why").textContent, `stays: ${conflict}`);
  assert.deepEqual(
    page.all(".rewind .button").map(({ textContent }) => textContent),
    ["Conversation only", "Fork from here", "Cancel"],
  );
  const text = page.one(".message.user").textContent;
  assert.deepEqual(clickAll(page, "Fork from here"), [{ type: "fork", checkpointId: "c1", text }]);
});

test("nothing goes back while agents work, in a snapshot, or in a transcript", async () => {
  const page = await open();
  page.show(after(LOOK.slice(0, 5)));
  assert.ok(page.one(".rewind-button").hidden);
  page.show({ ...after(LOOK), snapshot: true });
  assert.ok(page.one(".rewind-button").hidden);
  page.show(after(LOOK), { can: { revert: true, message: true, rewind: false } });
  assert.ok(page.one(".rewind-button").hidden);
  page.show(after(LOOK));
  assert.ok(!page.one(".rewind-button").hidden);
});
