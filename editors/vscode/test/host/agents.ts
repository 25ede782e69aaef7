/** The chat's turns, and sub-agents: their tree, their threads, and stopping one of them. */
import assert from "node:assert/strict";
import * as vscode from "vscode";

import type { Unsent } from "../../src/page/messages.ts";
import { childrenOf, transcriptOf } from "../../src/state/session.ts";
import {
  agent,
  answer,
  ask,
  click,
  ended,
  file,
  heard,
  onDisk,
  question,
  results,
  run,
  test,
  until,
  whileAnswering,
} from "./support.ts";

export { run };

const LOOK = ["read the callers of retry", "read the tests about retries", "read the history of backoff"] as const;

test("every command of the manifest is there", async () => {
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

test("one of three sub-agents is cancelled, and the others go on", async (deputy) => {
  ask("why does the retry loop give up");
  await agent(deputy, LOOK[0], "running");
  const item = await agent(deputy, LOOK[1], "running");
  await agent(deputy, LOOK[2], "completed");
  const sessionId = deputy.sessions.current?.sessionId;
  await vscode.commands.executeCommand("deputy.agent.cancel", { sessionId, agentId: item.agentId });
  await agent(deputy, LOOK[1], "cancelled");
  assert.equal((await agent(deputy, LOOK[0], "running")).status, "running");
  await until("the counts", () => deputy.status.text.includes("1 running, 2 finished"));
});

test("the tree has the agents by start, below the primary, with what can be done to each", async (deputy) => {
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
  // What the editor may cut is whole for those who hear it or point at it; the time comes first, and stays in sight.
  rows.forEach((row, index) => {
    const heard = row.accessibilityInformation?.label ?? "";
    assert.match(heard, new RegExp(`^${LOOK[index] ?? ""}, general, (running|completed), `));
    assert.match(String(row.description), /^\d+(\.\d)? s · /);
    const item = items[index];
    const { tooltip } = item ? deputy.agents.resolveTreeItem(row, item) : row;
    assert.ok((tooltip as vscode.MarkdownString).value.replaceAll("&nbsp;", " ").startsWith(LOOK[index] ?? ""));
  });
});

test("a sub-agent's thread opens read-only beside the code", async (deputy) => {
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

test("a running sub-agent is told something", async (deputy) => {
  ask("have the greeting improved");
  const child = await agent(deputy, "improve the greeting", "running");
  const { requestId } = await question(deputy, "edit_file");
  const sessionId = deputy.sessions.current?.sessionId ?? "";
  const told: unknown[][] = [];
  const restore = heard("setStatusBarMessage", told);
  await whileAnswering("showInputBox", "Mind the tests", () =>
    Promise.resolve(vscode.commands.executeCommand("deputy.agent.steer", { sessionId, agentId: child.agentId })),
  );
  restore();
  assert.equal(told[0]?.[0], "$(check) improve the greeting reads it after its next tool results.");
  await vscode.commands.executeCommand("deputy.question.deny", requestId);
  const state = await ended(deputy);
  const isRead = transcriptOf(state, child.agentId).some(
    (one) => one.type === "message" && one.text === "Mind the tests",
  );
  assert.ok(isRead);
});

test("the edits of one sub-agent are taken back", async (deputy) => {
  const greet = await file("greet.py");
  const before = await onDisk(greet);
  ask("have the greeting improved");
  await vscode.commands.executeCommand("deputy.question.approve", (await question(deputy, "edit_file")).requestId);
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

test("of what is taken back, a file that the user changed since is left alone and named", async (deputy) => {
  const greet = await file("greet.py");
  ask("have the greeting improved");
  await vscode.commands.executeCommand("deputy.question.approve", (await question(deputy, "edit_file")).requestId);
  const state = await ended(deputy);
  const mine = (await onDisk(greet)).replace("Good morning", "Good evening");
  await vscode.workspace.fs.writeFile(greet, Buffer.from(mine));
  const [child] = childrenOf(state, state.primaryId);
  const told: unknown[][] = [];
  const restore = heard("showWarningMessage", told, "Revert");
  await vscode.commands.executeCommand("deputy.agent.revert", {
    sessionId: state.sessionId,
    agentId: child?.agentId,
  });
  restore();
  assert.equal(await onDisk(greet), mine);
  assert.equal(told[1]?.[0], "There was nothing to revert. Left alone: greet.py, changed since.");
});

test("whose edits would be taken back is asked by the name that it has everywhere", async (deputy) => {
  ask("hello");
  const { sessionId, primaryId: agentId } = await ended(deputy);
  const told: unknown[][] = [];
  const restore = heard("showWarningMessage", told);
  await vscode.commands.executeCommand("deputy.agent.revert", { sessionId, agentId });
  restore();
  const [question, { modal, detail }, ...buttons] = told[0] as [string, vscode.MessageOptions, string];
  assert.equal(question, "Take back all edits of Deputy?");
  assert.ok(modal);
  assert.equal(detail, "What was written in the same lines since stays as it is; files where that is so are named.");
  assert.deepEqual(buttons, ["Revert"]); // the editor adds Cancel
});

test("a plan is shown as it is kept", async (deputy) => {
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

test("of two prompts that are sent at once the second one waits", async (deputy) => {
  ask("hello");
  ask("make a plan");
  await until("the second answer", () => {
    const state = deputy.sessions.current;
    return state && answer(state) === "That is the plan.";
  });
});

test("a prompt that waits can be taken back", async (deputy) => {
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

test("Stop gives the prompts that wait back, with what belongs to them", async (deputy) => {
  const back: Unsent[] = [];
  const takeBack = deputy.chat.takeBack.bind(deputy.chat);
  deputy.chat.takeBack = (prompt) => void back.push(prompt);
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
    deputy.chat.takeBack = takeBack;
  }
  const [{ text, mentions } = { text: "" }] = back;
  assert.equal(text, "hello\n\nFix in greet.py:\n- line 1: no greeting");
  assert.equal(mentions?.length, 1);
  assert.equal(deputy.sessions.current?.queue.length, 0);
});

test("more prompts than may wait are refused, and nothing is offered that would not help", async (deputy) => {
  const told: unknown[][] = [];
  const restore = heard("showErrorMessage", told);
  ask("take your time");
  await until("the turn", () => deputy.sessions.current?.turn);
  for (let count = 0; count <= 32; count++) ask("hello");
  await until("the message", () => told.length);
  restore();
  assert.deepEqual(told, [["32 prompts wait already; take one back or wait."]]);
});

test("what was never saved goes with a prompt about it", async (deputy) => {
  const document = await vscode.workspace.openTextDocument({ content: "one\ntwo\nthree\n" });
  const range = { start: { line: 1, character: 0 }, end: { line: 2, character: 0 } };
  void vscode.commands.executeCommand("deputy.fix", document.uri, range, [{ message: "no number", line: 2 }]);
  const state = await ended(deputy);
  const [asked] = transcriptOf(state, state.primaryId ?? "");
  assert.ok(asked?.type === "message");
  const name = vscode.workspace.asRelativePath(document.uri);
  assert.equal(asked.text, `Fix in ${name}:\n- line 2: no number\n[${name}, as the editor has it]\ntwo\n`);
});

test("agents get the diagnostics of all languages when they ask", async (deputy) => {
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
  const [asked] = transcriptOf(state, state.primaryId ?? "");
  assert.ok(asked?.type === "message" && asked.text.includes("greet is vague"), JSON.stringify(asked));
  assert.deepEqual(results(state, state.primaryId ?? "", "edit_file"), []);
  collection.dispose();
});
