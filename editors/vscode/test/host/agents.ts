/** Turns of the chat, and sub-agents: their tree, their transcripts, and stopping one of them. */
import assert from "node:assert/strict";
import * as vscode from "vscode";

import type { Deputy } from "../../src/commands/deputy.ts";
import { fork, rewind } from "../../src/commands/rewind.ts";
import type { Unsent } from "../../src/page/messages.ts";
import { childrenOf, transcriptOf } from "../../src/state/session.ts";
import {
  agent,
  answer,
  ask,
  click,
  ended,
  file,
  capture,
  lenses,
  onDisk,
  openRequest,
  results,
  run,
  test,
  until,
  whileAnswering,
} from "./support.ts";

export { run };

const LOOK = ["read the callers of retry", "read the tests about retries", "read the history of backoff"] as const;

test("every command of the manifest is registered", async () => {
  const manifest = vscode.extensions.getExtension("deputy.deputy")?.packageJSON as {
    contributes: { commands: { command: string }[] };
  };
  const known = new Set(await vscode.commands.getCommands(true));
  assert.deepEqual(
    manifest.contributes.commands.map(({ command }) => command).filter((command) => !known.has(command)),
    [],
  );
});

test("a prompt is answered", async (deputy) => {
  ask("hello");
  const state = await ended(deputy);
  assert.equal(answer(state), "Hello! I am the **scripted** model.");
  assert.equal(deputy.server.state, "running");
});

test("cancelling one of three sub-agents leaves the others running", async (deputy) => {
  ask("why does the retry loop give up");
  await agent(deputy, LOOK[0], "running");
  const item = await agent(deputy, LOOK[1], "running");
  await agent(deputy, LOOK[2], "completed");
  const sessionId = deputy.sessions.current?.sessionId;
  await vscode.commands.executeCommand("deputy.agent.cancel", { sessionId, agentId: item.agentId });
  await agent(deputy, LOOK[1], "cancelled");
  assert.equal((await agent(deputy, LOOK[0], "running")).status, "running");
  await until("the counts", () => deputy.agents.view.description === "1 running, 2 finished");
});

test("the tree lists agents by start, below the primary, with their actions", async (deputy) => {
  ask("why does the retry loop give up");
  for (const label of LOOK.slice(0, 2)) await agent(deputy, label, "running");
  await agent(deputy, LOOK[2], "completed");
  const [primary, ...more] = deputy.agents.getChildren();
  assert.ok(primary);
  assert.deepEqual(more, []);
  const items = deputy.agents.getChildren(primary);
  const rows = items.map((item) => deputy.agents.getTreeItem(item));
  assert.deepEqual(
    rows.map(({ label, contextValue }) => [label, contextValue]),
    [
      ["read the callers…", "child.running"],
      ["read the tests…", "child.running"],
      ["read the history…", "child.ended"], // it could only read
    ],
  );
  // Screen readers and tooltips get the full text; the time is first, so that it is never cut.
  rows.forEach((row, index) => {
    const spoken = row.accessibilityInformation?.label ?? "";
    assert.match(spoken, new RegExp(`^${LOOK[index] ?? ""}, general, (running|completed), `));
    assert.match(String(row.description), /^\d+(\.\d)? s · /);
    const item = items[index];
    const { tooltip } = item ? deputy.agents.resolveTreeItem(row, item) : row;
    assert.ok((tooltip as vscode.MarkdownString).value.replaceAll("&nbsp;", " ").startsWith(LOOK[index] ?? ""));
  });
});

test("a sub-agent's transcript opens read-only beside the code", async (deputy) => {
  ask("why does the retry loop give up");
  const child = await agent(deputy, LOOK[2], "completed");
  const sessionId = deputy.sessions.current?.sessionId ?? "";
  await vscode.commands.executeCommand("deputy.agent.open", { sessionId, agentId: child.agentId });
  await until("the tab", () => vscode.window.tabGroups.activeTabGroup.activeTab?.label === LOOK[2]);
  const state = deputy.sessions.get(sessionId);
  assert.ok(state?.whole[child.agentId]);
  const [first] = transcriptOf(state, child.agentId);
  assert.ok(first?.type === "message" && first.role === "user" && first.text.includes(LOOK[2]));
});

test("a running sub-agent gets a message", async (deputy) => {
  ask("have the greeting improved");
  const child = await agent(deputy, "improve the greeting", "running");
  const { requestId } = await openRequest(deputy, "edit_file");
  const sessionId = deputy.sessions.current?.sessionId ?? "";
  const messages: unknown[][] = [];
  const restore = capture("setStatusBarMessage", messages);
  await whileAnswering("showInputBox", "Check the tests", () =>
    Promise.resolve(vscode.commands.executeCommand("deputy.agent.steer", { sessionId, agentId: child.agentId })),
  );
  restore();
  assert.equal(messages[0]?.[0], "$(check) improve the greeting reads it after its next tool results.");
  await vscode.commands.executeCommand("deputy.question.deny", requestId);
  const state = await ended(deputy);
  const isRead = transcriptOf(state, child.agentId).some(
    (one) => one.type === "message" && one.text === "Check the tests",
  );
  assert.ok(isRead);
});

test("the edits of one sub-agent are reverted", async (deputy) => {
  const greet = await file("greet.py");
  const before = await onDisk(greet);
  ask("have the greeting improved");
  await vscode.commands.executeCommand("deputy.question.approve", (await openRequest(deputy, "edit_file")).requestId);
  const state = await ended(deputy);
  assert.notEqual(await onDisk(greet), before);
  const [child] = childrenOf(state, state.primaryId);
  assert.ok(child);
  await whileAnswering("showWarningMessage", "Revert", () =>
    Promise.resolve(
      vscode.commands.executeCommand("deputy.agent.revert", { sessionId: state.sessionId, agentId: child.agentId }),
    ),
  );
  assert.equal(await onDisk(greet), before);
});

test("revert leaves a file that was changed since alone and lists it", async (deputy) => {
  const greet = await file("greet.py");
  ask("have the greeting improved");
  await vscode.commands.executeCommand("deputy.question.approve", (await openRequest(deputy, "edit_file")).requestId);
  const state = await ended(deputy);
  const mine = (await onDisk(greet)).replace("Good morning", "Good evening");
  await vscode.workspace.fs.writeFile(greet, Buffer.from(mine));
  const [child] = childrenOf(state, state.primaryId);
  const messages: unknown[][] = [];
  const restore = capture("showWarningMessage", messages, "Revert");
  await vscode.commands.executeCommand("deputy.agent.revert", {
    sessionId: state.sessionId,
    agentId: child?.agentId,
  });
  restore();
  assert.equal(await onDisk(greet), mine);
  assert.equal(
    messages[1]?.[0],
    "There was nothing to revert. Not reverted, because they were changed since: greet.py.",
  );
});

test("the revert dialog shows the agent's name", async (deputy) => {
  ask("hello");
  const { sessionId, primaryId: agentId } = await ended(deputy);
  const messages: unknown[][] = [];
  const restore = capture("showWarningMessage", messages);
  await vscode.commands.executeCommand("deputy.agent.revert", { sessionId, agentId });
  restore();
  const [message, { modal, detail }, ...buttons] = messages[0] as [string, vscode.MessageOptions, string];
  assert.equal(message, "Revert all edits of Deputy?");
  assert.ok(modal);
  assert.equal(detail, "Lines that were changed since are left alone, and their files are listed.");
  assert.deepEqual(buttons, ["Revert"]); // the editor adds Cancel
});

test("a plan is shown live", async (deputy) => {
  ask("make a plan");
  const state = await ended(deputy);
  assert.deepEqual(
    state.plans[state.primaryId ?? ""]?.map(({ content, status }) => [content, status]),
    [
      ["Read the loop", "completed"],
      ["Fix the limit", "in_progress"],
      ["Add a test", "pending"],
    ],
  );
});

test("of two prompts sent together the second is queued", async (deputy) => {
  ask("hello");
  ask("make a plan");
  await until("the second answer", () => {
    const state = deputy.sessions.current;
    return state && answer(state) === "That is the plan.";
  });
});

test("a queued prompt can be removed", async (deputy) => {
  ask("take your time");
  await until("the turn", () => deputy.sessions.current?.turn);
  ask("hello");
  const [waiting] = await until("the queue", () => {
    const queue = deputy.sessions.current?.queue;
    return queue?.length ? queue : undefined;
  });
  const sessionId = deputy.sessions.current?.sessionId ?? "";
  assert.equal(waiting?.text, "hello");
  await deputy.server.request("deputy/session/unqueue", { sessionId, promptId: waiting.promptId });
  await until("the queue is empty", () => deputy.sessions.current?.queue.length === 0);
});

test("Stop restores queued prompts with their files", async (deputy) => {
  const restored: Unsent[] = [];
  const restore = deputy.chat.restore.bind(deputy.chat);
  deputy.chat.restore = (prompt) => void restored.push(prompt);
  try {
    ask("take your time");
    await until("the turn", () => deputy.sessions.current?.turn);
    ask("hello");
    const uri = await file("greet.py");
    const problem = { message: "no greeting", line: 1 };
    const range = { start: { line: 0, character: 0 }, end: { line: 1, character: 0 } };
    void vscode.commands.executeCommand("deputy.fix", uri, range, [problem]);
    await until("the queue", () => deputy.sessions.current?.queue.length === 2);
    await vscode.commands.executeCommand("deputy.cancel");
  } finally {
    deputy.chat.restore = restore;
  }
  const [{ text, mentions } = { text: "" }] = restored;
  assert.equal(text, "hello\n\nFix in greet.py:\n- line 1: no greeting");
  assert.equal(mentions?.length, 1);
  assert.equal(deputy.sessions.current?.queue.length, 0);
});

test("prompts beyond the queue limit are rejected without useless actions", async (deputy) => {
  const messages: unknown[][] = [];
  const restore = capture("showErrorMessage", messages);
  ask("take your time");
  await until("the turn", () => deputy.sessions.current?.turn);
  for (let count = 0; count <= 32; count++) ask("hello");
  await until("the message", () => messages.length);
  restore();
  assert.deepEqual(messages, [["32 prompts are queued already. Withdraw one or wait."]]);
});

test("a prompt about an unsaved document contains its text", async (deputy) => {
  const document = await vscode.workspace.openTextDocument({ content: "one\ntwo\nthree\n" });
  const range = { start: { line: 1, character: 0 }, end: { line: 2, character: 0 } };
  void vscode.commands.executeCommand("deputy.fix", document.uri, range, [{ message: "no number", line: 2 }]);
  const state = await ended(deputy);
  const [prompt] = transcriptOf(state, state.primaryId ?? "");
  assert.ok(prompt?.type === "message");
  const name = vscode.workspace.asRelativePath(document.uri);
  assert.equal(prompt.text, `Fix in ${name}:\n- line 2: no number\n[${name}, as the editor has it]\ntwo\n`);
});

test("agents can query the diagnostics of all languages", async (deputy) => {
  const greet = await file("greet.py");
  await vscode.workspace.openTextDocument(greet);
  const collection = vscode.languages.createDiagnosticCollection("a linter");
  const problem = new vscode.Diagnostic(
    new vscode.Range(3, 4, 3, 9),
    "greet is vague",
    vscode.DiagnosticSeverity.Warning,
  );
  problem.source = "a linter";
  collection.set(greet, [problem]);
  const fixes = await vscode.commands.executeCommand<vscode.CodeAction[]>(
    "vscode.executeCodeActionProvider",
    greet,
    new vscode.Range(3, 4, 3, 9),
  );
  const fix = fixes.find(({ title }) => title === "Ask Deputy to fix");
  assert.ok(fix?.command);
  await click(fix.command);
  const state = await ended(deputy);
  const [prompt] = transcriptOf(state, state.primaryId ?? "");
  assert.ok(prompt?.type === "message" && prompt.text.includes("greet is vague"), JSON.stringify(prompt));
  assert.deepEqual(results(state, state.primaryId ?? "", "edit_file"), []);
  collection.dispose();
});

// -- review ----------------------------------------------------------------------------------------------------------

/** The changes of "improve both", approved, once they are listed. */
async function improved(deputy: Deputy): Promise<readonly vscode.Uri[]> {
  const files = [await file("greet.py"), await file("backoff.py")];
  ask("improve both");
  for (const name of ["greet.py", "backoff.py"]) {
    const { requestId } = await openRequest(deputy, `edit_file(${name})`);
    await vscode.commands.executeCommand("deputy.question.approve", requestId);
  }
  await ended(deputy);
  await until("the changes", () => deputy.changes.list.totals.files === 2);
  return files;
}

test("changes are listed, and kept or undone one by one with keys, lenses and rows", async (deputy) => {
  const [greet, backoff] = await improved(deputy);
  assert.ok(greet && backoff);
  const [editor, before] = [await vscode.window.showTextDocument(greet), "Hello"];
  const titles = (await lenses(greet)).map(({ title }) => title);
  assert.deepEqual(titles, ["$(check) Keep", "$(discard) Undo", "$(comment) Comment", "$(diff) Deputy · +1 −1"]);
  await vscode.commands.executeCommand("deputy.changes.next");
  await until("the cursor at the change", () => editor.selection.active.line === 4);
  await vscode.commands.executeCommand("deputy.changes.undo");
  await until("one file left", () => deputy.changes.list.totals.files === 1);
  assert.ok(editor.document.getText().includes(before));
  assert.ok((await onDisk(greet)).includes(before));
  await vscode.commands.executeCommand("deputy.changes.open", backoff.toString());
  await until("the diff", () => tabs().some((tab) => tab.input instanceof vscode.TabInputTextDiff));
  const [left] = vscode.workspace.textDocuments.filter(({ uri }) => uri.scheme === "deputy-base");
  assert.ok(left?.getText().includes("limit - 1"));
  await vscode.commands.executeCommand("deputy.changes.keepFile", backoff.toString());
  await until("nothing left", () => deputy.changes.list.totals.hunks === 0);
  assert.ok(!(await onDisk(backoff)).includes("limit - 1"));
  await until("the diff is closed", () => !tabs().some((tab) => tab.input instanceof vscode.TabInputTextDiff));
});

test("all changes open in one editor, and are undone after a question", async (deputy) => {
  const [greet, backoff] = await improved(deputy);
  assert.ok(greet && backoff);
  await vscode.commands.executeCommand("deputy.changes.review");
  await until("the editor", () => tabs().some(({ label }) => label.startsWith("Deputy's changes")));
  const undo = (): Promise<unknown> => Promise.resolve(vscode.commands.executeCommand("deputy.changes.undoAll"));
  await whileAnswering("showWarningMessage", undefined, undo);
  assert.equal(deputy.changes.list.totals.files, 2);
  await whileAnswering("showWarningMessage", "Undo All", undo);
  assert.equal(deputy.changes.list.totals.files, 0);
  assert.ok((await onDisk(greet)).includes("Hello") && (await onDisk(backoff)).includes("limit - 1"));
  await until("the editor is closed", () => !tabs().some(({ label }) => label.startsWith("Deputy's changes")));
});

test("comments on changes are sent as one prompt", async (deputy) => {
  const [greet] = await improved(deputy);
  assert.ok(greet);
  const controller = vscode.comments.createCommentController("test", "test");
  const add = (line: number, text: string): void => {
    const thread = controller.createCommentThread(greet, new vscode.Range(line, 0, line, 0), []);
    deputy.comments.add({ thread, text });
  };
  add(4, "Say good day.");
  add(0, "Say more.");
  assert.equal(deputy.comments.count, 2);
  const sent = vscode.commands.executeCommand("deputy.comments.send");
  const state = await until("the prompt", () => {
    const found = deputy.sessions.current;
    const entries = found ? transcriptOf(found, found.primaryId ?? "") : [];
    return entries.find((one) => one.type === "message" && one.role === "user" && one.text.startsWith("Comments"));
  });
  assert.ok(state.type === "message");
  assert.match(
    state.text,
    /greet\.py:5\n```diff\n-.*Hello.*\n\+.*Good morning.*\n```\nSay good day\.\n\ngreet\.py:1\nSay more\./,
  );
  assert.equal(deputy.comments.count, 0);
  await sent;
  controller.dispose();
});

test("a session goes back to before a prompt, forward again, and is forked", async (deputy) => {
  const [greet] = await improved(deputy);
  assert.ok(greet);
  const { sessionId, primaryId, entries } = deputy.sessions.current ?? (await ended(deputy));
  const [prompt] = entries[primaryId ?? ""] ?? [];
  const plan = await deputy.rewinds.planBefore(sessionId, prompt?.seq ?? 0);
  assert.ok(plan);
  assert.deepEqual(
    plan.files.map(({ path, added, removed }) => [path, added, removed]),
    [
      ["backoff.py", 1, 1],
      ["greet.py", 1, 1],
    ],
  );
  await rewind(deputy, sessionId, plan.checkpointId, { files: true, conversation: true });
  assert.ok((await onDisk(greet)).includes("Hello"));
  const messages = (): number => Object.values(deputy.sessions.get(sessionId)?.entries ?? {}).flat().length;
  await until("the empty conversation", () => messages() === 0);
  await until("nothing to review", () => deputy.changes.list.totals.files === 0);
  const [left] = await deputy.rewinds.list(sessionId);
  assert.match(left?.title ?? "", /^Before going back to: improve both/);
  await rewind(deputy, sessionId, left?.checkpointId ?? "", { files: true, conversation: true });
  await until("the conversation again", () => messages() > 0);
  assert.ok((await onDisk(greet)).includes("Good morning"));
  await fork(deputy, sessionId, plan.checkpointId, "");
  assert.notEqual(deputy.sessions.current?.sessionId, sessionId);
  assert.equal(deputy.sessions.current?.info?.cwd, deputy.sessions.get(sessionId)?.info?.cwd);
});

function tabs(): readonly vscode.Tab[] {
  return vscode.window.tabGroups.all.flatMap((group) => group.tabs);
}
