/** Permission requests, and the ways to answer them. */
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

const BETTER = 'return f"Good morning, {name}!"';

async function proposal(deputy: Deputy, title: string): Promise<DiffRequest> {
  const request = await openRequest(deputy, title);
  assert.ok(isDiff(request));
  return request;
}

/** The proposal of a request, shown as a diff. */
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

/** The proposed sides of the open diffs. */
function shownDiffs(): readonly vscode.Uri[] {
  return diffTabs().flatMap(({ input }) => (input instanceof vscode.TabInputTextDiff ? [input.modified] : []));
}

function batchTab(): vscode.Tab | undefined {
  const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
  return tabs.find(({ label }) => label.startsWith("Changes proposed by Deputy"));
}

test("the lens of a proposal approves it", async (deputy) => {
  const greet = await file("greet.py");
  ask("improve the greeting");
  const document = await shown(deputy, "edit_file(greet.py)");
  assert.ok(document.getText().includes(BETTER));
  await clickLens(document.uri, "Approve");
  assert.equal(answer(await ended(deputy)), "The greeting is better now.");
  assert.ok((await onDisk(greet)).includes(BETTER));
  await until("the diff is closed", () => diffTabs().length === 0);
  assert.deepEqual(deputy.requests.list(), []);
});

test("a denial sends its reason to the agent", async (deputy) => {
  const greet = await file("greet.py");
  const before = await onDisk(greet);
  ask("improve the greeting");
  const request = await openRequest(deputy, "edit_file");
  await whileAnswering("showInputBox", "Use good evening instead", () =>
    Promise.resolve(vscode.commands.executeCommand("deputy.question.denyWithReason", request.requestId)),
  );
  const state = await ended(deputy);
  assert.ok(results(state, state.primaryId ?? "", "edit_file")[0]?.includes("Use good evening instead"));
  assert.equal(await onDisk(greet), before);
});

test("a cancelled reason leaves the request open", async (deputy) => {
  ask("improve the greeting");
  const { requestId } = await openRequest(deputy, "edit_file");
  await whileAnswering("showInputBox", undefined, () =>
    Promise.resolve(vscode.commands.executeCommand("deputy.question.denyWithReason", requestId)),
  );
  assert.ok(deputy.requests.get(requestId));
});

test("a note in the comment thread denies", async (deputy) => {
  ask("improve the greeting");
  const { requestId } = await openRequest(deputy, "edit_file");
  const thread = deputy.threads.get(requestId);
  assert.ok(thread);
  await vscode.commands.executeCommand("deputy.question.denyWithNote", { thread, text: "Leave it" });
  const state = await ended(deputy);
  assert.ok(results(state, state.primaryId ?? "", "edit_file")[0]?.includes("Leave it"));
});

test("an edited proposal is applied as edited", async (deputy) => {
  const greet = await file("greet.py");
  ask("improve the greeting");
  const document = await shown(deputy, "edit_file");
  const edit = new vscode.WorkspaceEdit();
  const at = document.positionAt(document.getText().indexOf("Good morning"));
  edit.replace(document.uri, new vscode.Range(at, at.translate(0, "Good morning".length)), "Good evening");
  assert.ok(await vscode.workspace.applyEdit(edit));
  const { requestId } = await openRequest(deputy, "edit_file");
  await until("the edit is noticed", () => requestId in deputy.proposals.edits());
  await clickLens(document.uri, "Approve");
  await ended(deputy);
  assert.ok((await onDisk(greet)).includes('return f"Good evening, {name}!"'));
  await until("the diff is closed", () => diffTabs().length === 0);
});

test("editing a proposal keeps other characters and line endings, regardless of the encoding setting", async (deputy) => {
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

test("a lens rejects one of two changes of a proposal", async (deputy) => {
  const backoff = await file("backoff.py");
  ask("rewrite the loop");
  const document = await shown(deputy, "write_file(backoff.py)");
  const titles = (await lenses(document.uri)).map(({ title }) => title);
  assert.equal(titles.filter((title) => title.includes("Reject this change")).length, 2, titles.join(", "));
  // A save could run formatters, which change more than this.
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

test("a proposal without changes cannot be approved", async (deputy) => {
  const greet = await file("greet.py");
  const before = await onDisk(greet);
  ask("improve the greeting");
  const document = await shown(deputy, "edit_file");
  await clickLens(document.uri, "Reject this change");
  await until("nothing is left", () => document.getText() === before);
  const messages: unknown[][] = [];
  const restore = capture("showInformationMessage", messages);
  await clickLens(document.uri, "Approve");
  restore();
  assert.deepEqual(messages, [["No proposed change is left: deny it instead."]]);
  assert.equal(deputy.requests.list().length, 1);
  await clickLens(document.uri, "Deny");
  await ended(deputy);
  assert.equal(await onDisk(greet), before);
});

test("closing the diff answers nothing", async (deputy) => {
  ask("improve the greeting");
  await shown(deputy, "edit_file");
  await vscode.commands.executeCommand("workbench.action.closeActiveEditor");
  await until("the diff is closed", () => diffTabs().length === 0);
  assert.equal(deputy.requests.list().length, 1);
});

test("the files of one batch are shown together and answered separately", async (deputy) => {
  const [greet, backoff] = [await file("greet.py"), await file("backoff.py")];
  const before = await onDisk(backoff);
  ask("improve both");
  const one = await proposal(deputy, "greet.py");
  const other = await proposal(deputy, "backoff.py");
  await vscode.commands.executeCommand("deputy.question.openBatch", one.requestId);
  await until("the editor of the batch", batchTab);
  // Lines above the first change are folded there.
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

test("all requests of one agent are approved at once", async (deputy) => {
  const [greet, backoff] = [await file("greet.py"), await file("backoff.py")];
  ask("improve both");
  await openRequest(deputy, "greet.py");
  const { agent } = await openRequest(deputy, "backoff.py");
  const [row] = deputy.inbox.getChildren();
  assert.deepEqual(row, { kind: "agent", agentId: agent.agentId, label: "Deputy" });
  assert.equal(deputy.inbox.view.badge?.value, 2);
  const messages: unknown[][] = [];
  let restore = capture("showWarningMessage", messages);
  await vscode.commands.executeCommand("deputy.inbox.approveAgent", row);
  restore();
  const detail = "• edit_file(greet.py)\n• edit_file(backoff.py)";
  assert.deepEqual(messages, [["Approve these 2 requests of Deputy?", { modal: true, detail }, "Approve"]]);
  assert.equal(deputy.requests.list().length, 2); // the dialog was closed without an answer
  restore = capture("showWarningMessage", messages, "Approve");
  await vscode.commands.executeCommand("deputy.inbox.approveAgent", row);
  restore();
  await ended(deputy);
  assert.ok((await onDisk(greet)).includes(BETTER));
  assert.ok((await onDisk(backoff)).includes("attempt > limit:"));
  assert.equal(deputy.inbox.view.badge, undefined);
});

test("an approval at the code closes when the turn is cancelled", async (deputy) => {
  ask("improve the greeting");
  const { requestId } = await openRequest(deputy, "edit_file");
  assert.ok(deputy.threads.get(requestId));
  await vscode.commands.executeCommand("deputy.cancel");
  await ended(deputy);
  assert.equal(deputy.threads.get(requestId), undefined);
  assert.deepEqual(deputy.requests.list(), []);
});

test("an approval at the code moves with its line and shows that the file has changed", async (deputy) => {
  const greet = await file("greet.py");
  const editor = await vscode.window.showTextDocument(greet);
  ask("improve the greeting");
  const { requestId } = await openRequest(deputy, "edit_file");
  const thread = deputy.threads.get(requestId);
  assert.equal(thread?.range?.start.line, 4);
  await editor.edit((edit) => edit.insert(new vscode.Position(1, 0), "# one\n# two\n"));
  await until("the thread has moved", () => thread.range?.start.line === 6);
  const body = (): string => (thread.comments[0]?.body as vscode.MarkdownString).value;
  await until("the warning", () => body().includes("The file has changed since"));
  await vscode.commands.executeCommand("deputy.question.approve", requestId);
  const state = await ended(deputy);
  // The server detects it before or after it gets the answer, with different messages.
  const messages = results(state, state.primaryId ?? "", "edit_file")[0];
  assert.match(
    messages ?? "",
    /^greet\.py has changed (in the editor since it was|since you) read( it)?[.;] [Rr]ead it again\.$/,
  );
});

test("a file with unsaved changes is edited and left unsaved", async (deputy) => {
  const greet = await file("greet.py");
  const document = await vscode.workspace.openTextDocument(greet);
  const edit = new vscode.WorkspaceEdit();
  edit.insert(greet, new vscode.Position(document.lineCount, 0), "# mine\n");
  await vscode.workspace.applyEdit(edit);
  ask("improve the greeting");
  await vscode.commands.executeCommand("deputy.question.approve", (await openRequest(deputy, "edit_file")).requestId);
  await ended(deputy);
  assert.ok(document.getText().includes(BETTER));
  assert.ok(document.getText().endsWith("# mine\n"));
  assert.ok(document.isDirty);
  await document.save();
});

test("two changes of one file in a batch are not stale for each other", async (deputy) => {
  const greet = await file("greet.py");
  const document = await vscode.workspace.openTextDocument(greet);
  // The editor may still have the text of the previous test.
  await until("the original text", () => document.getText().includes("Hello, {name}"));
  const stale: string[] = [];
  const listening = deputy.staleness.onDidChange((requestId) => stale.push(requestId));
  ask("improve it twice");
  const ids = await until("both requests", () => {
    const all = deputy.requests.list().map(({ requestId }) => requestId);
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

test("a change of a closed notebook is shown as text", async (deputy) => {
  ask("count in the notebook");
  const { requestId } = await openRequest(deputy, "edit_file(counts.ipynb)");
  await until("the thread", () => deputy.threads.get(requestId));
  await vscode.commands.executeCommand("deputy.question.openDiff", requestId);
  await until("the diff", () => diffTabs().length === 1);
  await vscode.commands.executeCommand("deputy.question.deny", requestId);
  await until("the diff to close", () => diffTabs().length === 0);
});

test("a change of an open notebook shows the notebook, edits the cell, and is saved", async (deputy) => {
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

test("an approved new file is written", async (deputy) => {
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

test("Approve applies only to the request in focus or the picked one", async (deputy) => {
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
  await until("the diff of the withdrawn request is closed", () => diffTabs().length === 0);

  ask("improve the greeting");
  const { requestId } = await openRequest(deputy, "edit_file(greet.py)");
  await vscode.window.showTextDocument(document.uri).then(undefined, () => undefined);
  await approve(undefined);
  await vscode.commands.executeCommand("deputy.question.approve", document.uri);
  await vscode.commands.executeCommand("deputy.inbox.approveAgent");
  assert.ok(deputy.requests.get(requestId));
  assert.equal(await onDisk(greet), before);
  await approve({ requestId });
  await ended(deputy);
  assert.ok((await onDisk(greet)).includes(BETTER));
});

test("showing a command's approval opens its session", async (deputy) => {
  ask("count the files");
  const { requestId, sessionId } = await openRequest(deputy, "shell");
  // The title may arrive after the request.
  await until("its title", () => deputy.sessions.current?.info?.title === "count the files");
  const messages: unknown[][] = [];
  const restore = capture("showInformationMessage", messages);
  await vscode.commands.executeCommand("deputy.session.new");
  restore();
  assert.notEqual(deputy.sessions.current?.sessionId, sessionId);
  assert.deepEqual(messages, [['"count the files" is still running. Find it in Sessions.', "Show"]]);
  const row = (): vscode.TreeItem => deputy.inbox.getTreeItem({ kind: "request", requestId });
  assert.equal(row().description, "in count the files");
  await vscode.commands.executeCommand("deputy.question.show", requestId);
  assert.equal(deputy.sessions.current?.sessionId, sessionId);
  assert.equal(row().description, "");
});

test("showing a change's approval opens its session", async (deputy) => {
  await file("greet.py");
  ask("improve the greeting");
  const { requestId, sessionId } = await openRequest(deputy, "edit_file");
  const restore = capture("showInformationMessage", []);
  await vscode.commands.executeCommand("deputy.session.new");
  restore();
  assert.notEqual(deputy.sessions.current?.sessionId, sessionId);
  await vscode.commands.executeCommand("deputy.question.show", requestId);
  assert.equal(deputy.sessions.current?.sessionId, sessionId);
  assert.ok(vscode.window.activeTextEditor?.document.uri.path.endsWith("/greet.py"));
});

test("requests that must be viewed are not approved by their row or with their agent", async (deputy) => {
  ask("count the files");
  const command = await openRequest(deputy, "shell");
  const source = new vscode.CancellationTokenSource();
  const start = { ...command, requestId: "start", tool: "mcp", title: "mcp(time)", toolCallId: "start" };
  const answered = deputy.requests.add(start, source.token);
  const contexts = [command.requestId, "start"].map(
    (requestId) => deputy.inbox.getTreeItem({ kind: "request", requestId }).contextValue,
  );
  assert.deepEqual(contexts, ["question.unseen", "question.unseen"]);
  await vscode.commands.executeCommand("deputy.question.approve", { kind: "request", requestId: command.requestId });
  assert.ok(deputy.requests.get(command.requestId));
  const messages: unknown[][] = [];
  const restore = capture("showInformationMessage", messages);
  await vscode.commands.executeCommand("deputy.question.approve", "start");
  const { agentId, label } = command.agent;
  const listed: unknown[][] = [];
  const restoreDialog = capture("showWarningMessage", listed, "Approve");
  await vscode.commands.executeCommand("deputy.inbox.approveAgent", { kind: "agent", agentId, label });
  restoreDialog();
  restore();
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.path ?? "";
  const detail = `• ls *.py | sort (in ${folder})`;
  assert.deepEqual(listed, [["Approve this request of Deputy?", { modal: true, detail }, "Approve"]]);
  assert.deepEqual(messages, [["Review mcp(time) before you approve it.", "Show"]]);
  assert.deepEqual(
    deputy.requests.list().map(({ requestId }) => requestId),
    ["start"],
  );
  source.cancel();
  assert.deepEqual(await answered, { outcome: { outcome: "cancelled" } });
});

test("an approved command runs", async (deputy) => {
  ask("count the files");
  const request = await openRequest(deputy, "shell");
  assert.equal(request.preview?.type, "command");
  await vscode.commands.executeCommand("deputy.question.approve", request.requestId);
  const state = await ended(deputy);
  assert.ok(results(state, state.primaryId ?? "", "shell")[0]?.includes("greet.py"));
});

test("the change to a deleted file can still be shown", async (deputy) => {
  const backoff = await file("backoff.py");
  ask("rewrite the loop");
  const { requestId } = await openRequest(deputy, "write_file");
  const isStale = deputy.threads.get(requestId);
  await vscode.workspace.fs.delete(backoff);
  await until("the warning", () =>
    (isStale?.comments[0]?.body as vscode.MarkdownString).value.includes("no longer exists"),
  );
  const messages: unknown[][] = [];
  const restore = capture("showWarningMessage", messages);
  await vscode.commands.executeCommand("deputy.question.show", requestId);
  restore();
  assert.deepEqual(messages, [["backoff.py no longer exists. This is the proposed change."]]);
  await until("the diff", () => diffTabs().length === 1);
});

test("keys go from approval to approval, and Open Diff shows the one at the cursor", async (deputy) => {
  const greet = await file("greet.py");
  await vscode.window.showTextDocument(greet);
  ask("improve it twice");
  await until("both requests", () => deputy.requests.list().length === 2);
  const lines: (number | undefined)[] = [];
  for (let count = 0; count < 4; count++) {
    await vscode.commands.executeCommand("deputy.question.next");
    lines.push(vscode.window.activeTextEditor?.selection.active.line);
  }
  const places = deputy.requests.list().map(({ requestId }) => deputy.threads.get(requestId)?.range?.start.line);
  assert.deepEqual(new Set(lines.slice(0, 2)), new Set(places));
  assert.deepEqual(lines.slice(2), lines.slice(0, 2));
  const visited = deputy.requests.list()[places.indexOf(lines[3])];
  assert.ok(visited);
  await vscode.commands.executeCommand("deputy.question.openDiff");
  await until("its diff", () => shownDiffs()[0]?.query === `new/${visited.requestId}`);
  await vscode.commands.executeCommand("deputy.question.deny");
  assert.equal(deputy.requests.get(visited.requestId), undefined);
  assert.equal(deputy.requests.list().length, 1);
});

test("reverting a proposal's editor restores the proposal or the last save", async (deputy) => {
  ask("improve the greeting");
  const request = await openRequest(deputy, "edit_file");
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

test("after going from a diff to a command, Approve answers the command alone", async (deputy) => {
  ask("improve and count");
  const change = await openRequest(deputy, "edit_file");
  await openRequest(deputy, "shell");
  await vscode.commands.executeCommand("deputy.question.openDiff", change.requestId);
  await until("the diff", () => vscode.window.activeTextEditor?.document.uri.query === `new/${change.requestId}`);
  await vscode.commands.executeCommand("deputy.question.next");
  await vscode.commands.executeCommand("deputy.question.approve");
  for (const id of ["deputy.question.approve", "deputy.question.deny"])
    await whileAnswering("showQuickPick", undefined, () => Promise.resolve(vscode.commands.executeCommand(id)));
  assert.deepEqual(
    deputy.requests.list().map(({ requestId }) => requestId),
    [change.requestId],
  );
});

test("edits of a proposal are kept when the file has changed", async (deputy) => {
  const greet = await file("greet.py");
  ask("improve the greeting");
  const { requestId } = await openRequest(deputy, "edit_file");
  await vscode.commands.executeCommand("deputy.question.openDiff", requestId);
  const proposed = await until("the diff", () => shownDiffs()[0]);
  const edit = new vscode.WorkspaceEdit();
  edit.insert(proposed, new vscode.Position(0, 0), "# precious\n");
  await vscode.workspace.applyEdit(edit);
  await vscode.workspace.fs.writeFile(greet, Buffer.from(`${await onDisk(greet)}# mine\n`));
  await until("the warning", () => deputy.staleness.of(requestId) === "changed");
  const messages: unknown[][] = [];
  const restore = capture("showInformationMessage", messages);
  await vscode.commands.executeCommand("deputy.question.approve", requestId);
  restore();
  assert.match(String(messages[0]?.[0]), /has changed since.* Your edits stay in the diff/);
  assert.ok(deputy.requests.get(requestId));
  assert.equal(diffTabs().length, 1);
  const titles = (await lenses(proposed)).map(({ title }) => title);
  assert.equal(titles[0], "$(check) Approve"); // a long warning before it could hide it
  assert.ok(titles.some((title) => title.startsWith("$(warning) The file has changed since")));
});

test("a deleted file is not recreated because an editor still shows it", async (deputy) => {
  const backoff = await file("backoff.py");
  await vscode.window.showTextDocument(backoff);
  ask("rewrite the loop");
  const { requestId } = await openRequest(deputy, "write_file");
  await vscode.workspace.fs.delete(backoff);
  await until("the warning", () => deputy.staleness.of(requestId) === "gone");
  await vscode.commands.executeCommand("deputy.question.approve", requestId);
  const state = await ended(deputy);
  assert.deepEqual(results(state, state.primaryId ?? "", "write_file"), [
    "backoff.py was deleted or moved since you read it.",
  ]);
  await assert.rejects(onDisk(backoff));
});

test("the first change of an opened notebook is applied and reported", async (deputy) => {
  const counts = await file("counts.ipynb");
  const notebook = await vscode.workspace.openNotebookDocument(counts);
  await vscode.window.showNotebookDocument(notebook);
  ask("count in the notebook");
  await vscode.commands.executeCommand("deputy.question.approve", (await openRequest(deputy, "edit_file")).requestId);
  const state = await ended(deputy);
  assert.match(results(state, state.primaryId ?? "", "edit_file")[0] ?? "", /^Changed counts\.ipynb/);
  assert.ok((await onDisk(counts)).includes("print(2)"));
});

test("an approval of an open notebook shows that its cells have changed", async (deputy) => {
  const counts = await file("counts.ipynb");
  const notebook = await vscode.workspace.openNotebookDocument(counts);
  await vscode.window.showNotebookDocument(notebook);
  ask("count in the notebook");
  const { requestId } = await openRequest(deputy, "edit_file");
  assert.equal(deputy.staleness.of(requestId), undefined);
  const cell = notebook.cellAt(notebook.cellCount - 1).document;
  const edit = new vscode.WorkspaceEdit();
  edit.insert(cell.uri, new vscode.Position(0, 0), "# mine\n");
  await vscode.workspace.applyEdit(edit);
  await until("the warning", () => deputy.staleness.of(requestId) === "changed");
  const undo = new vscode.WorkspaceEdit();
  undo.delete(cell.uri, new vscode.Range(0, 0, 1, 0));
  await vscode.workspace.applyEdit(undo);
  await until("the warning is removed", () => deputy.staleness.of(requestId) === undefined);
});

test("an approval after a change of branch fails and is reported to user and agent", async (deputy) => {
  const greet = await file("greet.py");
  ask("improve the greeting");
  const { requestId } = await openRequest(deputy, "edit_file");
  const atCode = (): string => {
    const body = deputy.threads.get(requestId)?.comments[0]?.body;
    return body instanceof vscode.MarkdownString ? body.value : "";
  };
  assert.ok(!atCode().includes("has changed"));
  writeFileSync(greet.fsPath, "# of another branch\n");
  await until("the warning", () => atCode().includes("The file has changed since"));
  const warnings: unknown[][] = [];
  const restore = capture("showWarningMessage", warnings);
  await vscode.commands.executeCommand("deputy.question.approve", requestId);
  const state = await ended(deputy);
  restore();
  assert.equal(await onDisk(greet), "# of another branch\n");
  assert.match(String(warnings[0]?.[0]), /^edit_file\(greet\.py\) was approved, but failed: greet\.py has changed/);
  const messages = results(state, state.primaryId ?? "", "edit_file")[0] ?? "";
  assert.match(messages, /^greet\.py has changed .*[.;] [Rr]ead it again\.$/);
});

/** A new file that no editor has opened: an editor cannot hold a carriage return within a line. */
async function unopened(name: string): Promise<vscode.Uri> {
  const greet = await file("greet.py");
  const uri = vscode.Uri.joinPath(greet, "..", name);
  writeFileSync(uri.fsPath, await onDisk(greet));
  return uri;
}

test("a diff shows a carriage return within a line, and approving it writes the character", async (deputy) => {
  const hidden = await unopened("hidden.py");
  ask("hide something");
  const document = await shown(deputy, "edit_file(hidden.py)");
  const line = String.raw`    return f"Hello, {name}!"  # as before\u{d}    \u{202e}good\u{202c}`;
  const lines = document.getText().split("\n");
  assert.ok(lines.includes(line), document.getText());
  assert.doesNotMatch(document.getText(), /[\r\u202e]/);
  assert.equal((await lenses(document.uri)).filter(({ title }) => title.includes("Reject this change")).length, 1);
  const { requestId } = await openRequest(deputy, "edit_file");
  const [comment] = deputy.threads.get(requestId)?.comments ?? [];
  assert.ok((comment?.body as vscode.MarkdownString).value.includes(`+${line}`));
  await clickLens(document.uri, "Approve");
  await ended(deputy);
  assert.ok((await onDisk(hidden)).includes("# as before\r    \u202egood\u202c\n"));
});

test("an edit beside a hidden character keeps it, and one of its line is refused", async (deputy) => {
  const hidden = await unopened("hidden.py");
  ask("hide something");
  const document = await shown(deputy, "edit_file(hidden.py)");
  const change = async (at: vscode.Position, text: string): Promise<void> => {
    const edit = new vscode.WorkspaceEdit();
    edit.insert(document.uri, at, text);
    assert.ok(await vscode.workspace.applyEdit(edit));
  };
  const { requestId } = await openRequest(deputy, "edit_file");
  const end = document.positionAt(document.getText().indexOf("good") + 4);
  await change(end, "!");
  await until("the edit is noticed", () => requestId in deputy.proposals.edits());
  const messages: unknown[][] = [];
  const restore = capture("showInformationMessage", messages);
  await clickLens(document.uri, "Approve");
  restore();
  assert.match(String(messages[0]?.[0]), /^Lines with invisible characters cannot be edited here/);
  assert.ok(deputy.requests.get(requestId));
  const edit = new vscode.WorkspaceEdit();
  edit.delete(document.uri, new vscode.Range(end, end.translate(0, 1)));
  edit.insert(document.uri, new vscode.Position(0, 0), "# mine\n");
  assert.ok(await vscode.workspace.applyEdit(edit));
  await until("the edit is noticed", () => deputy.proposals.edits()[requestId]?.startsWith("# mine\n"));
  await clickLens(document.uri, "Approve");
  await ended(deputy);
  assert.match(await onDisk(hidden), /^# mine\n[^]*# as before\r {4}\u202egood\u202c\n/);
});
