/** Sessions: stored, opened again, exported; and a server that ends during a turn. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as vscode from "vscode";

import type { HistoryItem } from "../../src/views/history.ts";
import { isInterrupted, transcriptOf } from "../../src/state/session.ts";
import { agent, answer, ask, ended, capture, openRequest, run, test, until, whileAnswering } from "./support.ts";

export { run };

/** Kills the server's process. */
function crash(): void {
  for (const pid of processes()) process.kill(pid, "SIGKILL");
}

/** The child processes that are servers over stdio. */
function processes(): readonly number[] {
  const children = execFileSync("pgrep", ["--parent", String(process.pid), "--full", "serve --stdio"], {
    encoding: "utf-8",
  });
  return children.trim().split("\n").map(Number);
}

test("a session is reloaded after a restart of the server", async (deputy) => {
  ask("why does the retry loop give up");
  const child = await agent(deputy, "read the history of backoff", "completed");
  await vscode.commands.executeCommand("deputy.cancel");
  const { sessionId } = await ended(deputy);
  await deputy.server.restart();
  const state = await until("the session", () => {
    const found = deputy.sessions.get(sessionId);
    return found?.agents[child.agentId] && deputy.server.state === "running" ? found : undefined;
  });
  assert.equal(state.agents[child.agentId]?.summary, "Nothing of interest in the history.");
  await deputy.sessions.fetchTranscript(sessionId, child.agentId);
  const entries = transcriptOf(deputy.sessions.get(sessionId) ?? state, child.agentId);
  assert.ok(entries.some((entry) => entry.type === "tool_call" && entry.tool === "read_file"));
});

test("an earlier session opens from the list and continues", async (deputy) => {
  ask("hello");
  const { sessionId } = await ended(deputy);
  await vscode.commands.executeCommand("deputy.session.new");
  assert.notEqual(deputy.sessions.current?.sessionId, sessionId);
  const rows = await deputy.history.getChildren();
  const row = rows.find((one) => "sessionId" in one && one.sessionId === sessionId);
  assert.ok(row && "title" in row);
  assert.equal(row.title, "hello");
  await vscode.commands.executeCommand("deputy.session.open", row);
  assert.equal(deputy.sessions.current?.sessionId, sessionId);
  ask("make a plan");
  await until("the second answer", () => {
    const state = deputy.sessions.current;
    return state && answer(state) === "That is the plan.";
  });
});

test("a session is renamed, exported, and deleted", async (deputy) => {
  ask("hello");
  const { sessionId } = await ended(deputy);
  const rowOf = async (): Promise<HistoryItem | undefined> =>
    (await deputy.history.getChildren()).find((one) => "sessionId" in one && one.sessionId === sessionId);
  const row = await rowOf();
  await whileAnswering("showInputBox", "A better name", () =>
    Promise.resolve(vscode.commands.executeCommand("deputy.session.rename", row)),
  );
  const renamed = await rowOf();
  assert.ok(renamed && "title" in renamed);
  assert.equal(renamed.title, "A better name");
  await whileAnswering("showQuickPick", { label: "Markdown", format: "markdown", language: "markdown" }, () =>
    Promise.resolve(vscode.commands.executeCommand("deputy.session.export", row)),
  );
  const exported = await until("the export", () => vscode.window.activeTextEditor?.document.getText());
  assert.ok(exported.includes("I am the **scripted** model."), exported);
  await whileAnswering("showWarningMessage", "Delete", () =>
    Promise.resolve(vscode.commands.executeCommand("deputy.session.delete", row)),
  );
  assert.equal(await rowOf(), undefined);
  assert.equal(deputy.sessions.get(sessionId), undefined);
});

test("a crashed server restarts, its request closes, and the turn can be continued", async (deputy) => {
  ask("have the greeting improved");
  await openRequest(deputy, "edit_file");
  const sessionId = deputy.sessions.current?.sessionId ?? "";
  crash();
  await until("the request is closed", () => deputy.requests.list().length === 0);
  await until("the restarted server", () => deputy.server.state === "running");
  const interrupted = await until("the interrupted turn", () => {
    const state = deputy.sessions.get(sessionId);
    return state && isInterrupted(state) ? state : undefined;
  });
  const [child] = Object.values(interrupted.agents).filter(({ parentAgentId }) => parentAgentId !== undefined);
  assert.equal(child?.failureReason, "interrupted_by_restart");
  void vscode.commands.executeCommand("deputy.continue");
  const state = await until("the next turn has ended", () => {
    const found = deputy.sessions.get(sessionId);
    return found?.ended && !found.ended.interrupted && !found.turn ? found : undefined;
  });
  assert.ok(answer(state).startsWith("Continuing"), answer(state));
});

test("repeated crashes are reported, and the server can be started again", async (deputy) => {
  ask("hello");
  await ended(deputy);
  await deputy.server.restart(); // it counts from here
  const messages: unknown[][] = [];
  const restore = capture("showErrorMessage", messages);
  const { server } = deputy;
  try {
    for (let count = 1; count <= 4; count++) {
      await until("the server", () => deputy.server.state === "running");
      crash();
      await until("its end", () => deputy.server.state !== "running");
    }
    await until("the problem", () => server.problem);
    assert.equal(server.state, "stopped");
    await until("the message above the agents", () => deputy.agents.view.message === "Deputy's server is not running.");
    assert.equal(server.problem?.message, "Deputy's server keeps crashing. See its log for the cause.");
    assert.deepEqual(messages, []); // the chat shows it
    await deputy.server.start();
    assert.equal(deputy.server.state, "running");
    await until("no message above the agents", () => !deputy.agents.view.message);
    ask("hello");
    assert.equal(answer(await ended(deputy)), "Hello! I am the **scripted** model.");
  } finally {
    restore();
    await deputy.server.restart();
  }
});

test("a restart while agents are working needs confirmation", async (deputy) => {
  ask("take your time");
  await until("the turn", () => deputy.sessions.current?.turn);
  const messages: unknown[][] = [];
  let restore = capture("showWarningMessage", messages);
  await vscode.commands.executeCommand("deputy.restartServer");
  restore();
  assert.equal(messages[0]?.[0], "Restart Deputy's server while agents are working?");
  assert.ok(deputy.sessions.current?.turn);
  restore = capture("showWarningMessage", messages, "Restart");
  await vscode.commands.executeCommand("deputy.restartServer");
  restore();
  await until("the interrupted turn", () => deputy.sessions.current && isInterrupted(deputy.sessions.current));
});

test("concurrent restarts leave one running server", async (deputy) => {
  const messages: unknown[][] = [];
  const restore = capture("showErrorMessage", messages);
  const restoreDialog = capture("showWarningMessage", messages, "Restart");
  const restart = (): Thenable<unknown> => vscode.commands.executeCommand("deputy.restartServer");
  await Promise.all([restart(), restart(), deputy.server.start(), restart()]);
  restore();
  restoreDialog();
  assert.deepEqual(messages, []);
  assert.equal(deputy.server.state, "running");
  await until("the end of the other servers", () => processes().length === 1);
});

test("changed settings reach the running server without interrupting a turn", async (deputy) => {
  ask("take your time");
  const { turnId } = await until("the turn", () => deputy.sessions.current?.turn);
  const before = processes();
  const messages: unknown[][] = [];
  const restore = capture("showErrorMessage", messages);
  await Promise.all([deputy.server.configure(), deputy.server.configure(), deputy.sessions.refresh()]);
  assert.equal(deputy.sessions.current?.turn?.turnId, turnId);
  assert.deepEqual(processes(), before);
  // During a restart there is no server to notify.
  await Promise.all([deputy.server.restart(), deputy.server.configure(), deputy.server.configure()]);
  restore();
  assert.deepEqual(messages, []);
  assert.equal(deputy.server.state, "running");
  await until("the end of the other server", () => processes().length === 1);
});

test("changed launch settings start another server once", async (deputy) => {
  const settings = vscode.workspace.getConfiguration("deputy.server");
  const path = settings.get<string>("path", "");
  const folder = mkdtempSync(join(tmpdir(), "server-"));
  const [other, starts] = [join(folder, "deputy"), join(folder, "starts")];
  writeFileSync(other, `#!/bin/sh\necho >> ${starts}\nexec ${path} "$@"\n`);
  chmodSync(other, 0o755);
  // Granting trust causes two events: the grant itself, and the settings that were restricted before.
  const also = vscode.workspace.onDidChangeConfiguration(() => void deputy.server.configure());
  try {
    await settings.update("path", other, vscode.ConfigurationTarget.Global);
    await until("the server", () => existsSync(starts) && deputy.server.state === "running");
    await deputy.server.start();
    assert.equal(readFileSync(starts, "utf-8"), "\n");
  } finally {
    also.dispose();
    await settings.update("path", path, vscode.ConfigurationTarget.Global);
    await deputy.server.restart();
  }
});

test("invalid settings are named, and the server starts once they are corrected", async (deputy) => {
  const settings = vscode.workspace.getConfiguration("deputy");
  const wrong: Readonly<Record<string, unknown>> = { permissionMode: "careless", "limits.promptQueue": "many" };
  const set = async (value: (name: string) => unknown): Promise<void> => {
    for (const name of Object.keys(wrong)) await settings.update(name, value(name), vscode.ConfigurationTarget.Global);
  };
  const messages: unknown[][] = [];
  const restore = capture("showErrorMessage", messages);
  try {
    await deputy.server.stop();
    await set((name) => wrong[name]);
    await vscode.commands.executeCommand("deputy.restartServer");
    const { message, setting } = await until("the problem", () => deputy.server.problem);
    const named = message.match(/\w+\.[\w.]+(?=:)/g);
    assert.deepEqual(named?.toSorted(), ["deputy.limits.promptQueue", "deputy.permissionMode"], message);
    assert.equal(setting, "deputy");
    assert.deepEqual(messages, []); // the chat shows it
    assert.equal(deputy.server.state, "stopped");
  } finally {
    restore();
    await set(() => undefined);
  }
  await until("the server", () => deputy.server.state === "running");
});

test("sessions of other folders are not listed", async (deputy) => {
  ask("hello");
  const { sessionId } = await ended(deputy);
  const elsewhere = vscode.Uri.file(mkdtempSync(join(tmpdir(), "elsewhere-"))).toString();
  const other = await deputy.server.request("deputy/session/new", { cwd: elsewhere });
  await deputy.server.request("deputy/session/prompt", {
    sessionId: other.sessionId,
    prompt: [{ type: "text", text: "hello" }],
  });
  const ids = (await deputy.history.getChildren()).map((row) => "sessionId" in row && row.sessionId);
  assert.ok(ids.includes(sessionId));
  assert.ok(!ids.includes(other.sessionId));
});

test("a session keeps its mode when the setting changes", async (deputy) => {
  const settings = vscode.workspace.getConfiguration("deputy");
  const set = (mode: string | undefined): Thenable<void> =>
    settings.update("permissionMode", mode, vscode.ConfigurationTarget.Global);
  await set("accept_edits");
  try {
    ask("hello");
    const { sessionId } = await ended(deputy);
    await set(undefined);
    // The event for the new title updates the session.
    await until("the title", () => deputy.sessions.get(sessionId)?.info?.title === "hello");
    assert.equal(deputy.sessions.modeOf(sessionId), "accept_edits");
  } finally {
    await set(undefined);
  }
});

test("the bypass mode needs confirmation", async (deputy) => {
  ask("improve the greeting");
  await openRequest(deputy, "edit_file");
  const sessionId = deputy.sessions.current?.sessionId ?? "";
  const messages: unknown[][] = [];
  const restore = capture("showWarningMessage", messages);
  await whileAnswering("showQuickPick", { mode: "bypass" }, () =>
    Promise.resolve(vscode.commands.executeCommand("deputy.setMode")),
  );
  restore();
  const [title, { detail }] = messages[0] as [string, { readonly detail: string }];
  assert.equal(title, "Switch to Bypass?");
  assert.match(detail, /It also approves what it allows of the open request\.$/);
  assert.equal(deputy.sessions.modeOf(sessionId), "default");
  assert.equal(deputy.requests.list().length, 1);
});

test("an archived session is not listed until it is unarchived", async (deputy) => {
  ask("hello");
  const { sessionId } = await ended(deputy);
  const rowOf = async (): Promise<HistoryItem | undefined> =>
    (await deputy.history.getChildren()).find((one) => "sessionId" in one && one.sessionId === sessionId);
  const row = await rowOf();
  assert.ok(row && String(deputy.history.getTreeItem(row).contextValue).includes("archive"));
  await vscode.commands.executeCommand("deputy.session.archive", row);
  assert.equal(await rowOf(), undefined);
  await vscode.commands.executeCommand("deputy.session.unarchive");
  assert.ok(await rowOf());
});

test("a stopped turn is not marked as interrupted", async (deputy) => {
  ask("take your time");
  await until("the turn", () => deputy.sessions.current?.turn);
  await vscode.commands.executeCommand("deputy.cancel");
  const { sessionId } = await ended(deputy);
  await deputy.server.restart();
  const state = await until("the session", () => {
    const found = deputy.sessions.get(sessionId);
    return found?.ended && found;
  });
  assert.equal(state.ended?.stopReason, "cancelled");
  assert.equal(isInterrupted(state), false);
});

test("a prompt that the agent has read is not restored when the server ends", async (deputy) => {
  const prompted = deputy.sessions.prompt(await deputy.sessions.present(), [{ type: "text", text: "take your time" }]);
  await until("the stream", () => Object.keys(deputy.sessions.current?.streams ?? {}).length);
  crash();
  await prompted;
  await until("the interrupted turn", () => deputy.sessions.current && isInterrupted(deputy.sessions.current));
});

test("a missing server is shown with its setting, and found once that is corrected", async (deputy) => {
  const settings = vscode.workspace.getConfiguration("deputy.server");
  const path = settings.get<string>("path");
  const messages: unknown[][] = [];
  const restore = capture("showErrorMessage", messages);
  try {
    await settings.update("path", "/nowhere/deputy", vscode.ConfigurationTarget.Global);
    const card = await until("the card", () => deputy.setup.card);
    assert.equal(card.text, "There is no command at /nowhere/deputy. Correct the setting deputy.server.path.");
    assert.deepEqual(
      card.buttons.map(({ text }) => text),
      ["Open Settings", "Check Again"],
    );
    await until("the item", () => deputy.status.text === "$(settings-gear) Deputy: no server");
    assert.deepEqual(messages, []); // the chat shows it
  } finally {
    restore();
    await settings.update("path", path, vscode.ConfigurationTarget.Global);
  }
  await until("the restarted server", () => deputy.server.state === "running");
  assert.equal(deputy.setup.card, undefined);
});

test("a changed key does not interrupt running agents", async (deputy) => {
  ask("take your time");
  await until("the turn", () => deputy.sessions.current?.turn);
  const messages: unknown[][] = [];
  const restore = capture("showInformationMessage", messages);
  await whileAnswering("showInputBox", "a-key", () =>
    Promise.resolve(vscode.commands.executeCommand("deputy.setApiKey")),
  );
  await until("the message", () => messages.length);
  restore();
  assert.deepEqual(messages, [
    ["Restart Deputy's server to use the new key? Running agents will be stopped.", "Restart"],
  ]);
  assert.ok(deputy.sessions.current?.turn);
  await vscode.commands.executeCommand("deputy.cancel");
  await ended(deputy);
  const restoreDialog = capture("showWarningMessage", [], "Delete");
  await whileAnswering("showInputBox", "", () => Promise.resolve(vscode.commands.executeCommand("deputy.setApiKey")));
  restoreDialog();
  await until("the restarted server", () => deputy.server.state === "running");
});

test("the key is stored in the secret storage and only passed in the server's environment", async (deputy) => {
  await whileAnswering("showInputBox", " a-key ", () =>
    Promise.resolve(vscode.commands.executeCommand("deputy.setApiKey")),
  );
  assert.deepEqual(await deputy.key.environment(), { ANTHROPIC_API_KEY: "a-key" });
  const settings = JSON.stringify(vscode.workspace.getConfiguration("deputy"));
  assert.ok(!settings.includes("a-key"));
  const messages: unknown[][] = [];
  const restore = capture("showWarningMessage", messages, "Delete");
  await whileAnswering("showInputBox", "", () => Promise.resolve(vscode.commands.executeCommand("deputy.setApiKey")));
  restore();
  assert.deepEqual(messages, [["Delete the API key?", { modal: true }, "Delete"]]);
  assert.deepEqual(await deputy.key.environment(), {});
  await until("the restarted server", () => deputy.server.state === "running");
});
