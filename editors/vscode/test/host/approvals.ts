/** Questions, and the ways to answer them. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import * as vscode from "vscode";

import { isDiff } from "../../src/state/proposal.ts";
import type { Deputy } from "../../src/commands/deputy.ts";
import type { DiffRequest } from "../../src/state/proposal.ts";
import {
  answer,
  ask,
  clickLens,
  ended,
  file,
  heard,
  lenses,
  onDisk,
  question,
  results,
  run,
  test,
  until,
  whileAnswering,
} from "./support.ts";

export { run };

const BETTER = 'return f"Good morning, {name}!"';

async function proposal(deputy: Deputy, title: string): Promise<DiffRequest> {
  const request = await question(deputy, title);
  assert.ok(isDiff(request));
  return request;
}

/** The proposal of a question, shown as a diff. */
async function shown(deputy: Deputy, title: string): Promise<vscode.TextDocument> {
  const request = await proposal(deputy, title);
  await vscode.commands.executeCommand("deputy.question.openDiff", request.requestId);
  const uri = deputy.proposals.uri(request, "new");
  return until("the right side of the diff", () =>
    vscode.workspace.textDocuments.find((document) => document.uri.toString() === uri.toString()),
  );
}

function diffTabs(): readonly vscode.Tab[] {
  return vscode.window.tabGroups.all
    .flatMap((group) => group.tabs)
    .filter((tab) => tab.input instanceof vscode.TabInputTextDiff);
}

/** The proposed sides of the diffs that are open. */
function shownDiffs(): readonly vscode.Uri[] {
  return diffTabs().flatMap(({ input }) => (input instanceof vscode.TabInputTextDiff ? [input.modified] : []));
}

function batchTab(): vscode.Tab | undefined {
  const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
  return tabs.find(({ label }) => label.startsWith("Changes proposed by Deputy"));
}

test("a proposal is approved by the lens over it", async (deputy) => {
  const greet = await file("greet.py");
  ask("improve the greeting");
  const document = await shown(deputy, "edit_file(greet.py)");
  assert.ok(document.getText().includes(BETTER));
  await clickLens(document.uri, "Approve");
  assert.equal(answer(await ended(deputy)), "The greeting is better now.");
  assert.ok((await onDisk(greet)).includes(BETTER));
  await until("the diff is closed", () => diffTabs().length === 0);
  assert.deepEqual(deputy.questions.list(), []);
});

test("a denial carries its reason to the agent", async (deputy) => {
  const greet = await file("greet.py");
  const before = await onDisk(greet);
  ask("improve the greeting");
  const request = await question(deputy, "edit_file");
  await whileAnswering("showInputBox", "Say good evening instead", () =>
    Promise.resolve(vscode.commands.executeCommand("deputy.question.denyWithReason", request.requestId)),
  );
  const state = await ended(deputy);
  assert.ok(results(state, state.primaryId ?? "", "edit_file")[0]?.includes("Say good evening instead"));
  assert.equal(await onDisk(greet), before);
});

test("a reason that is not given leaves the question open", async (deputy) => {
  ask("improve the greeting");
  const { requestId } = await question(deputy, "edit_file");
  await whileAnswering("showInputBox", undefined, () =>
    Promise.resolve(vscode.commands.executeCommand("deputy.question.denyWithReason", requestId)),
  );
  assert.ok(deputy.questions.get(requestId));
});

test("a note sent from the thread at the code denies", async (deputy) => {
  ask("improve the greeting");
  const { requestId } = await question(deputy, "edit_file");
  const thread = deputy.threads.get(requestId);
  assert.ok(thread);
  await vscode.commands.executeCommand("deputy.question.denyWithNote", { thread, text: "Leave it" });
  const state = await ended(deputy);
  assert.ok(results(state, state.primaryId ?? "", "edit_file")[0]?.includes("Leave it"));
});

test("what the user makes of a proposal is what is applied", async (deputy) => {
  const greet = await file("greet.py");
  ask("improve the greeting");
  const document = await shown(deputy, "edit_file");
  const edit = new vscode.WorkspaceEdit();
  const at = document.positionAt(document.getText().indexOf("Good morning"));
  edit.replace(document.uri, new vscode.Range(at, at.translate(0, "Good morning".length)), "Good evening");
  assert.ok(await vscode.workspace.applyEdit(edit));
  const { requestId } = await question(deputy, "edit_file");
  await until("the edit is noticed", () => requestId in deputy.proposals.edits());
  await clickLens(document.uri, "Approve");
  await ended(deputy);
  assert.ok((await onDisk(greet)).includes('return f"Good evening, {name}!"'));
  await until("the diff is closed", () => diffTabs().length === 0);
});

test("typing into a proposal changes no line end and no letter elsewhere, whatever encoding is set", async (deputy) => {
  const greet = await file("greet.py");
  const before = `# größer →\r\n${await onDisk(greet)}`;
  writeFileSync(greet.fsPath, before);
  const files = vscode.workspace.getConfiguration("files");
  await files.update("encoding", "iso88591", vscode.ConfigurationTarget.Global);
  try {
    ask("improve the greeting");
    const document = await shown(deputy, "edit_file(greet.py)");
    assert.ok(document.getText().startsWith("# größer →"));
    const edit = new vscode.WorkspaceEdit();
    edit.insert(document.uri, new vscode.Position(document.lineCount, 0), "# mine\n");
    assert.ok(await vscode.workspace.applyEdit(edit));
    assert.ok(await document.save());
    await clickLens(document.uri, "Approve");
    await ended(deputy);
    assert.equal(await onDisk(greet), `${before.replace(/return f.*/, BETTER)}# mine\n`);
  } finally {
    await files.update("encoding", undefined, vscode.ConfigurationTarget.Global);
  }
});

test("one of two changes of a proposal is rejected by its lens", async (deputy) => {
  const backoff = await file("backoff.py");
  ask("rewrite the loop");
  const document = await shown(deputy, "write_file(backoff.py)");
  const titles = (await lenses(document.uri)).map(({ title }) => title);
  assert.equal(titles.filter((title) => title.includes("Reject this change")).length, 2, titles.join(", "));
  // What belongs to a save, such as a formatter, would change more than this.
  const saves: vscode.Uri[] = [];
  const listening = vscode.workspace.onWillSaveTextDocument((save) => saves.push(save.document.uri));
  await clickLens(document.uri, "Reject this change (1 of 2)");
  await until("one change is left", () => document.getText().startsWith('"""Retries."""'));
  listening.dispose();
  assert.ok(!document.isDirty);
  assert.deepEqual(saves, []);
  await clickLens(document.uri, "Approve");
  await ended(deputy);
  const text = await onDisk(backoff);
  assert.ok(text.startsWith('"""Retries."""'));
  assert.ok(text.includes("attempt >= limit"));
});

test("a proposal of which nothing is left cannot be approved", async (deputy) => {
  const greet = await file("greet.py");
  const before = await onDisk(greet);
  ask("improve the greeting");
  const document = await shown(deputy, "edit_file");
  await clickLens(document.uri, "Reject this change");
  await until("nothing is left", () => document.getText() === before);
  const told: unknown[][] = [];
  const restore = heard("showInformationMessage", told);
  await clickLens(document.uri, "Approve");
  restore();
  assert.deepEqual(told, [["Nothing of the proposal is left: deny it instead."]]);
  assert.equal(deputy.questions.list().length, 1);
  await clickLens(document.uri, "Deny");
  await ended(deputy);
  assert.equal(await onDisk(greet), before);
});

test("closing the diff answers nothing", async (deputy) => {
  ask("improve the greeting");
  await shown(deputy, "edit_file");
  await vscode.commands.executeCommand("workbench.action.closeActiveEditor");
  await until("the diff is closed", () => diffTabs().length === 0);
  assert.equal(deputy.questions.list().length, 1);
});

test("the files of one batch are shown together, and answered one by one", async (deputy) => {
  const [greet, backoff] = [await file("greet.py"), await file("backoff.py")];
  const before = await onDisk(backoff);
  ask("improve both");
  const one = await proposal(deputy, "greet.py");
  const other = await proposal(deputy, "backoff.py");
  await vscode.commands.executeCommand("deputy.question.openBatch", one.requestId);
  await until("the editor of the batch", batchTab);
  // What is above the first change is folded away there.
  const uri = deputy.proposals.uri(other, "new");
  const lines = await until("its text", () => vscode.workspace.textDocuments.find((one) => one.uri.path === uri.path));
  const found = await vscode.commands.executeCommand<vscode.CodeLens[]>("vscode.executeCodeLensProvider", uri, 100);
  const approving = found.find(({ command }) => command?.title.includes("Approve"));
  assert.ok(lines.lineAt(approving?.range.start.line ?? 0).text.includes("limit"));
  await vscode.commands.executeCommand("deputy.question.approve", one.requestId);
  await vscode.commands.executeCommand("deputy.question.deny", other.requestId);
  await ended(deputy);
  assert.ok((await onDisk(greet)).includes(BETTER));
  assert.equal(await onDisk(backoff), before);
  await until("the editor of the batch is closed", () => !batchTab());
});

test("all questions of one agent are approved at once", async (deputy) => {
  const [greet, backoff] = [await file("greet.py"), await file("backoff.py")];
  ask("improve both");
  await question(deputy, "greet.py");
  const { agent } = await question(deputy, "backoff.py");
  const [row] = deputy.inbox.getChildren();
  assert.deepEqual(row, { kind: "agent", agentId: agent.agentId, label: "Deputy" });
  assert.equal(deputy.inbox.view.badge?.value, 2);
  const told: unknown[][] = [];
  let restore = heard("showWarningMessage", told);
  await vscode.commands.executeCommand("deputy.inbox.approveAgent", row);
  restore();
  const detail = "• edit_file(greet.py)\n• edit_file(backoff.py)";
  assert.deepEqual(told, [["Approve these 2 of Deputy?", { modal: true, detail }, "Approve"]]);
  assert.equal(deputy.questions.list().length, 2); // the dialog was left without a yes
  restore = heard("showWarningMessage", told, "Approve");
  await vscode.commands.executeCommand("deputy.inbox.approveAgent", row);
  restore();
  await ended(deputy);
  assert.ok((await onDisk(greet)).includes(BETTER));
  assert.ok((await onDisk(backoff)).includes("attempt > limit:"));
  assert.equal(deputy.inbox.view.badge, undefined);
});

test("a question at the code goes when the turn is cancelled", async (deputy) => {
  ask("improve the greeting");
  const { requestId } = await question(deputy, "edit_file");
  assert.ok(deputy.threads.get(requestId));
  await vscode.commands.executeCommand("deputy.cancel");
  await ended(deputy);
  assert.equal(deputy.threads.get(requestId), undefined);
  assert.deepEqual(deputy.questions.list(), []);
});

test("a question at the code moves with what is typed above it, and says that the file has changed", async (deputy) => {
  const greet = await file("greet.py");
  const editor = await vscode.window.showTextDocument(greet);
  ask("improve the greeting");
  const { requestId } = await question(deputy, "edit_file");
  const thread = deputy.threads.get(requestId);
  assert.equal(thread?.range?.start.line, 4);
  await editor.edit((edit) => edit.insert(new vscode.Position(1, 0), "# one\n# two\n"));
  await until("the thread has moved", () => thread.range?.start.line === 6);
  const body = (): string => (thread.comments[0]?.body as vscode.MarkdownString).value;
  await until("the question says so", () => body().includes("The file has changed since"));
  await vscode.commands.executeCommand("deputy.question.approve", requestId);
  const state = await ended(deputy);
  // The server sees it before or after it takes the answer, and says where.
  const told = results(state, state.primaryId ?? "", "edit_file")[0];
  assert.match(
    told ?? "",
    /^greet\.py has changed (in the editor since it was|since you) read( it)?; read it again\.$/,
  );
});

test("a file in which the user is typing is changed, and left for the user to save", async (deputy) => {
  const greet = await file("greet.py");
  const document = await vscode.workspace.openTextDocument(greet);
  const edit = new vscode.WorkspaceEdit();
  edit.insert(greet, new vscode.Position(document.lineCount, 0), "# mine\n");
  await vscode.workspace.applyEdit(edit);
  ask("improve the greeting");
  await vscode.commands.executeCommand("deputy.question.approve", (await question(deputy, "edit_file")).requestId);
  await ended(deputy);
  assert.ok(document.getText().includes(BETTER));
  assert.ok(document.getText().endsWith("# mine\n"));
  assert.ok(document.isDirty);
  await document.save();
});

test("of two changes of one file that are asked for together, neither is stale for the other", async (deputy) => {
  const greet = await file("greet.py");
  const document = await vscode.workspace.openTextDocument(greet);
  // The editor may still have what the test before has made of it.
  await until("the file as it is", () => document.getText().includes("Hello, {name}"));
  const stale: string[] = [];
  const listening = deputy.staleness.onDidChange((requestId) => stale.push(requestId));
  ask("improve it twice");
  const ids = await until("both questions", () => {
    const all = deputy.questions.list().map(({ requestId }) => requestId);
    return all.length === 2 && all;
  });
  await vscode.commands.executeCommand("deputy.question.approve", ids[0]);
  await until("the first change", () => document.getText().includes(BETTER) && !document.isDirty);
  await vscode.workspace.fs.readFile(greet);
  await vscode.commands.executeCommand("deputy.question.approve", ids[1]);
  await ended(deputy);
  listening.dispose();
  assert.deepEqual(stale, []);
  const text = await onDisk(greet);
  assert.ok(text.includes(BETTER) && text.includes("Kind greetings."));
});

test("a change of a notebook that is not open is one of its text", async (deputy) => {
  ask("count in the notebook");
  const { requestId } = await question(deputy, "edit_file(counts.ipynb)");
  await until("the thread", () => deputy.threads.get(requestId));
  await vscode.commands.executeCommand("deputy.question.openDiff", requestId);
  await until("the diff", () => diffTabs().length === 1);
  await vscode.commands.executeCommand("deputy.question.deny", requestId);
  await until("the diff to close", () => diffTabs().length === 0);
});

test("a change of an open notebook leads to the notebook, is made in the cell, and is saved", async (deputy) => {
  const uri = await file("counts.ipynb");
  const before = await onDisk(uri);
  const notebook = await vscode.workspace.openNotebookDocument(uri);
  await vscode.window.showNotebookDocument(notebook);
  ask("count in the notebook");
  const { requestId, preview } = await proposal(deputy, "edit_file(counts.ipynb)");
  assert.equal(preview.oldText, "# %%\nprint(1)\nx = 2\n");
  assert.equal(deputy.threads.get(requestId), undefined);
  await vscode.commands.executeCommand("deputy.question.openDiff", requestId);
  await until("the diff", () => diffTabs().length === 1);
  await vscode.commands.executeCommand("deputy.question.show", requestId);
  await until("the notebook", () => vscode.window.activeNotebookEditor?.notebook === notebook);
  await vscode.commands.executeCommand("deputy.question.approve", requestId);
  await ended(deputy);
  assert.equal(notebook.cellAt(0).document.getText(), "print(2)\nx = 2");
  assert.ok(!notebook.isDirty);
  assert.match(await onDisk(uri), /print\(2\)/);
  await vscode.workspace.fs.writeFile(uri, Buffer.from(before));
  await vscode.commands.executeCommand("workbench.action.closeActiveEditor");
});

test("a new file is written when it is approved", async (deputy) => {
  ask("write a new file");
  const request = await proposal(deputy, "write_file(notes/plan.md)");
  assert.equal(request.preview.oldText, null);
  await vscode.commands.executeCommand("deputy.question.show", request.requestId);
  await until("its text is shown", () => diffTabs().length === 1);
  await vscode.commands.executeCommand("deputy.question.approve", request.requestId);
  await ended(deputy);
  const uri = vscode.Uri.parse(request.preview.uri);
  assert.equal(await onDisk(uri), "# Plan\n\n1. Read\n2. Write\n");
  await vscode.workspace.fs.delete(uri);
});

test("an approval reaches no other question than the one in front of the user, or the one picked", async (deputy) => {
  const greet = await file("greet.py");
  const before = await onDisk(greet);
  const approve = (picked: unknown): Promise<unknown> =>
    whileAnswering("showQuickPick", picked, () =>
      Promise.resolve(vscode.commands.executeCommand("deputy.question.approve")),
    );
  ask("improve both");
  const document = await shown(deputy, "edit_file(backoff.py)");
  const edit = new vscode.WorkspaceEdit();
  edit.insert(document.uri, new vscode.Position(0, 0), "# mine\n");
  assert.ok(await vscode.workspace.applyEdit(edit));
  await vscode.commands.executeCommand("deputy.cancel");
  await ended(deputy);
  await until("the diff of the withdrawn question is closed", () => diffTabs().length === 0);

  ask("improve the greeting");
  const { requestId } = await question(deputy, "edit_file(greet.py)");
  await vscode.window.showTextDocument(document.uri).then(undefined, () => undefined);
  await approve(undefined);
  await vscode.commands.executeCommand("deputy.question.approve", document.uri);
  await vscode.commands.executeCommand("deputy.inbox.approveAgent");
  assert.ok(deputy.questions.get(requestId));
  assert.equal(await onDisk(greet), before);
  await approve({ requestId });
  await ended(deputy);
  assert.ok((await onDisk(greet)).includes(BETTER));
});

test("a question of a session that is not shown leads to that session", async (deputy) => {
  ask("count the files");
  const { requestId, sessionId } = await question(deputy, "shell");
  // A title may come after the question.
  await until("its title", () => deputy.sessions.current?.info?.title === "count the files");
  const told: unknown[][] = [];
  const restore = heard("showInformationMessage", told);
  await vscode.commands.executeCommand("deputy.session.new");
  restore();
  assert.notEqual(deputy.sessions.current?.sessionId, sessionId);
  assert.deepEqual(told, [['"count the files" goes on; Sessions has it.', "Show It"]]);
  const row = (): vscode.TreeItem => deputy.inbox.getTreeItem({ kind: "question", requestId });
  assert.equal(row().description, "in count the files");
  await vscode.commands.executeCommand("deputy.question.show", requestId);
  assert.equal(deputy.sessions.current?.sessionId, sessionId);
  assert.equal(row().description, "");
});

test("a change that is asked for in a session that is not shown leads to that session, too", async (deputy) => {
  await file("greet.py");
  ask("improve the greeting");
  const { requestId, sessionId } = await question(deputy, "edit_file");
  const restore = heard("showInformationMessage", []);
  await vscode.commands.executeCommand("deputy.session.new");
  restore();
  assert.notEqual(deputy.sessions.current?.sessionId, sessionId);
  await vscode.commands.executeCommand("deputy.question.show", requestId);
  assert.equal(deputy.sessions.current?.sessionId, sessionId);
  assert.ok(vscode.window.activeTextEditor?.document.uri.path.endsWith("/greet.py"));
});

test("what has to be looked at is approved neither by its row nor with the rest of its agent", async (deputy) => {
  ask("count the files");
  const command = await question(deputy, "shell");
  const source = new vscode.CancellationTokenSource();
  const start = { ...command, requestId: "start", tool: "mcp", title: "mcp(time)", toolCallId: "start" };
  const answered = deputy.questions.ask(start, source.token);
  const contexts = [command.requestId, "start"].map(
    (requestId) => deputy.inbox.getTreeItem({ kind: "question", requestId }).contextValue,
  );
  assert.deepEqual(contexts, ["question.unseen", "question.unseen"]);
  await vscode.commands.executeCommand("deputy.question.approve", { kind: "question", requestId: command.requestId });
  assert.ok(deputy.questions.get(command.requestId));
  const told: unknown[][] = [];
  const restore = heard("showInformationMessage", told);
  await vscode.commands.executeCommand("deputy.question.approve", "start");
  const { agentId, label } = command.agent;
  const listed: unknown[][] = [];
  const restoreDialog = heard("showWarningMessage", listed, "Approve");
  await vscode.commands.executeCommand("deputy.inbox.approveAgent", { kind: "agent", agentId, label });
  restoreDialog();
  restore();
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.path ?? "";
  const detail = `• ls *.py | sort (in ${folder})`;
  assert.deepEqual(listed, [["Approve this of Deputy?", { modal: true, detail }, "Approve"]]);
  assert.deepEqual(told, [["mcp(time) has to be looked at before it is approved.", "Show"]]);
  assert.deepEqual(
    deputy.questions.list().map(({ requestId }) => requestId),
    ["start"],
  );
  source.cancel();
  assert.deepEqual(await answered, { outcome: { outcome: "cancelled" } });
});

test("a command is run when it is approved", async (deputy) => {
  ask("count the files");
  const request = await question(deputy, "shell");
  assert.equal(request.preview?.type, "command");
  await vscode.commands.executeCommand("deputy.question.approve", request.requestId);
  const state = await ended(deputy);
  assert.ok(results(state, state.primaryId ?? "", "shell")[0]?.includes("greet.py"));
});

test("the change to a file that is gone is shown all the same", async (deputy) => {
  const backoff = await file("backoff.py");
  ask("rewrite the loop");
  const { requestId } = await question(deputy, "write_file");
  const isStale = deputy.threads.get(requestId);
  await vscode.workspace.fs.delete(backoff);
  await until("the question says so", () =>
    (isStale?.comments[0]?.body as vscode.MarkdownString).value.includes("not there any more"),
  );
  const told: unknown[][] = [];
  const restore = heard("showWarningMessage", told);
  await vscode.commands.executeCommand("deputy.question.show", requestId);
  restore();
  assert.deepEqual(told, [["backoff.py is not there any more: this is the change proposed for it."]]);
  await until("the diff", () => diffTabs().length === 1);
});

test("keys lead from question to question, and what is looked at is the one at the cursor", async (deputy) => {
  const greet = await file("greet.py");
  await vscode.window.showTextDocument(greet);
  ask("improve it twice");
  await until("both questions", () => deputy.questions.list().length === 2);
  const lines: (number | undefined)[] = [];
  for (let count = 0; count < 4; count++) {
    await vscode.commands.executeCommand("deputy.question.next");
    lines.push(vscode.window.activeTextEditor?.selection.active.line);
  }
  const places = deputy.questions.list().map(({ requestId }) => deputy.threads.get(requestId)?.range?.start.line);
  assert.deepEqual(new Set(lines.slice(0, 2)), new Set(places));
  assert.deepEqual(lines.slice(2), lines.slice(0, 2));
  const led = deputy.questions.list()[places.indexOf(lines[3])];
  assert.ok(led);
  await vscode.commands.executeCommand("deputy.question.openDiff");
  await until("its diff", () => shownDiffs()[0]?.query === `new/${led.requestId}`);
  await vscode.commands.executeCommand("deputy.question.deny");
  assert.equal(deputy.questions.get(led.requestId), undefined);
  assert.equal(deputy.questions.list().length, 1);
});

test("a proposal that is reverted in its editor is as it was proposed, or saved", async (deputy) => {
  ask("improve the greeting");
  const request = await question(deputy, "edit_file");
  assert.ok(isDiff(request));
  await vscode.commands.executeCommand("deputy.question.openDiff", request.requestId);
  const proposed = await until("the diff", () => shownDiffs()[0]);
  const type = async (text: string): Promise<vscode.TextDocument> => {
    const edit = new vscode.WorkspaceEdit();
    edit.insert(proposed, new vscode.Position(0, 0), text);
    await vscode.workspace.applyEdit(edit);
    await until("what was typed", () => deputy.proposals.text(request).startsWith(text));
    return vscode.workspace.openTextDocument(proposed);
  };
  const document = await type("# one\n");
  await vscode.commands.executeCommand("workbench.action.files.revert");
  await until("the proposal", () => deputy.proposals.text(request) === request.preview.newText);
  assert.equal(document.isDirty, false);
  await type("# two\n");
  await document.save();
  await type("# three\n");
  await vscode.commands.executeCommand("workbench.action.files.revert");
  await until("what was saved", () => deputy.proposals.text(request) === `# two\n${request.preview.newText}`);
});

test("who is led from a diff to a command answers neither unseen", async (deputy) => {
  ask("improve and count");
  const change = await question(deputy, "edit_file");
  const command = await question(deputy, "shell");
  await vscode.commands.executeCommand("deputy.question.openDiff", change.requestId);
  await until("the diff", () => vscode.window.activeTextEditor?.document.uri.query === `new/${change.requestId}`);
  await vscode.commands.executeCommand("deputy.question.next");
  for (const id of ["deputy.question.approve", "deputy.question.deny"])
    await whileAnswering("showQuickPick", undefined, () => Promise.resolve(vscode.commands.executeCommand(id)));
  assert.deepEqual(
    deputy.questions.list().map(({ requestId }) => requestId),
    [change.requestId, command.requestId],
  );
  await vscode.commands.executeCommand("deputy.question.openDiff");
  assert.equal(diffTabs().length, 1); // the command has none
});

test("what was typed into a proposal is not lost to a file that has changed since", async (deputy) => {
  const greet = await file("greet.py");
  ask("improve the greeting");
  const { requestId } = await question(deputy, "edit_file");
  await vscode.commands.executeCommand("deputy.question.openDiff", requestId);
  const proposed = await until("the diff", () => shownDiffs()[0]);
  const edit = new vscode.WorkspaceEdit();
  edit.insert(proposed, new vscode.Position(0, 0), "# precious\n");
  await vscode.workspace.applyEdit(edit);
  await vscode.workspace.fs.writeFile(greet, Buffer.from(`${await onDisk(greet)}# mine\n`));
  await until("the question says so", () => deputy.staleness.of(requestId) === "changed");
  const told: unknown[][] = [];
  const restore = heard("showInformationMessage", told);
  await vscode.commands.executeCommand("deputy.question.approve", requestId);
  restore();
  assert.match(String(told[0]?.[0]), /has changed since.* What you typed stays in the diff/);
  assert.ok(deputy.questions.get(requestId));
  assert.equal(diffTabs().length, 1);
  const titles = (await lenses(proposed)).map(({ title }) => title);
  assert.equal(titles[0], "$(check) Approve"); // a long warning before it would leave it no room
  assert.ok(titles.some((title) => title.startsWith("$(warning) The file has changed since")));
});

test("a file that is gone is not made anew because an editor still shows it", async (deputy) => {
  const backoff = await file("backoff.py");
  await vscode.window.showTextDocument(backoff);
  ask("rewrite the loop");
  const { requestId } = await question(deputy, "write_file");
  await vscode.workspace.fs.delete(backoff);
  await until("the question says so", () => deputy.staleness.of(requestId) === "gone");
  await vscode.commands.executeCommand("deputy.question.approve", requestId);
  const state = await ended(deputy);
  assert.deepEqual(results(state, state.primaryId ?? "", "write_file"), [
    "backoff.py was deleted or moved since you read it.",
  ]);
  await assert.rejects(onDisk(backoff));
});

test("the first change of a notebook since it was opened is made, and known to be made", async (deputy) => {
  const counts = await file("counts.ipynb");
  const notebook = await vscode.workspace.openNotebookDocument(counts);
  await vscode.window.showNotebookDocument(notebook);
  ask("count in the notebook");
  await vscode.commands.executeCommand("deputy.question.approve", (await question(deputy, "edit_file")).requestId);
  const state = await ended(deputy);
  assert.match(results(state, state.primaryId ?? "", "edit_file")[0] ?? "", /^Changed counts\.ipynb/);
  assert.ok((await onDisk(counts)).includes("print(2)"));
});

test("a question about an open notebook says that its cells have changed", async (deputy) => {
  const counts = await file("counts.ipynb");
  const notebook = await vscode.workspace.openNotebookDocument(counts);
  await vscode.window.showNotebookDocument(notebook);
  ask("count in the notebook");
  const { requestId } = await question(deputy, "edit_file");
  assert.equal(deputy.staleness.of(requestId), undefined);
  const cell = notebook.cellAt(notebook.cellCount - 1).document;
  const edit = new vscode.WorkspaceEdit();
  edit.insert(cell.uri, new vscode.Position(0, 0), "# mine\n");
  await vscode.workspace.applyEdit(edit);
  await until("the question says so", () => deputy.staleness.of(requestId) === "changed");
  const back = new vscode.WorkspaceEdit();
  back.delete(cell.uri, new vscode.Range(0, 0, 1, 0));
  await vscode.workspace.applyEdit(back);
  await until("it says so no more", () => deputy.staleness.of(requestId) === undefined);
});

test("a file that is another one by now, as after a change of branch, is left alone, and both are told", async (deputy) => {
  const greet = await file("greet.py");
  ask("improve the greeting");
  const { requestId } = await question(deputy, "edit_file");
  const atCode = (): string => {
    const body = deputy.threads.get(requestId)?.comments[0]?.body;
    return body instanceof vscode.MarkdownString ? body.value : "";
  };
  assert.ok(!atCode().includes("has changed"));
  writeFileSync(greet.fsPath, "# of another branch\n");
  await until("the question says so", () => atCode().includes("The file has changed since"));
  const warnings: unknown[][] = [];
  const restore = heard("showWarningMessage", warnings);
  await vscode.commands.executeCommand("deputy.question.approve", requestId);
  const state = await ended(deputy);
  restore();
  assert.equal(await onDisk(greet), "# of another branch\n");
  assert.match(
    String(warnings[0]?.[0]),
    /^edit_file\(greet\.py\) was approved, and not done\. The agent reads: greet\.py has changed/,
  );
  const told = results(state, state.primaryId ?? "", "edit_file")[0] ?? "";
  assert.match(told, /^greet\.py has changed .*; read it again\.$/);
});
