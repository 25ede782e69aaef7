/** Sessions over time: kept, opened again, exported; and a server that ends in the midst of it. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as vscode from "vscode";

import type { HistoryItem } from "../../src/views/history.ts";
import { isInterrupted, transcriptOf } from "../../src/state/session.ts";
import { agent, answer, ask, ended, heard, question, run, test, until, whileAnswering } from "./support.ts";

export { run };

/** Ends the server's process as a crash does. */
function crash(): void {
  for (const pid of processes()) process.kill(pid, "SIGKILL");
}

/** The children of this process that serve over stdio. */
function processes(): readonly number[] {
  const children = execFileSync("pgrep", ["--parent", String(process.pid), "--full", "serve --stdio"], {
    encoding: "utf-8",
  });
  return children.trim().split("\n").map(Number);
}

test("a session is there again after a restart of the server", async (deputy) => {
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
  await deputy.sessions.transcribe(sessionId, child.agentId);
  const entries = transcriptOf(deputy.sessions.get(sessionId) ?? state, child.agentId);
  assert.ok(entries.some((entry) => entry.type === "tool_call" && entry.tool === "read_file"));
});

test("an earlier session opens from the list and goes on", async (deputy) => {
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

test("a server that crashes comes back, its question goes, and one click continues", async (deputy) => {
  ask("have the greeting improved");
  await question(deputy, "edit_file");
  const sessionId = deputy.sessions.current?.sessionId ?? "";
  crash();
  await until("the question is gone", () => deputy.questions.list().length === 0);
  await until("the server is back", () => deputy.server.state === "running");
  const cut = await until("what was cut off", () => {
    const state = deputy.sessions.get(sessionId);
    return state && isInterrupted(state) ? state : undefined;
  });
  const [child] = Object.values(cut.agents).filter(({ parentAgentId }) => parentAgentId !== undefined);
  assert.equal(child?.failureReason, "interrupted_by_restart");
  void vscode.commands.executeCommand("deputy.continue");
  const state = await until("the next turn has ended", () => {
    const found = deputy.sessions.get(sessionId);
    return found?.ended && !found.ended.interrupted && !found.turn ? found : undefined;
  });
  assert.ok(answer(state).startsWith("I go on"), answer(state));
});

test("a server that keeps crashing is said to, and starts again when it is asked to", async (deputy) => {
  ask("hello");
  await ended(deputy);
  await deputy.server.restart(); // it counts from here
  const told: unknown[][] = [];
  const restore = heard("showErrorMessage", told);
  try {
    for (let count = 1; count <= 4; count++) {
      await until("the server", () => deputy.server.state === "running");
      crash();
      await until("its end", () => deputy.server.state !== "running");
    }
    await until("the message", () => told.length);
    assert.equal(deputy.server.state, "stopped");
    await until("the words above the agents", () => deputy.agents.view.message === "Deputy's server is not running.");
    assert.deepEqual(told, [["Deputy's server keeps ending; its log says why.", "Show Log"]]);
    await deputy.server.start();
    assert.equal(deputy.server.state, "running");
    await until("no words above the agents", () => !deputy.agents.view.message);
    ask("hello");
    assert.equal(answer(await ended(deputy)), "Hello! I am the **scripted** model.");
  } finally {
    restore();
    await deputy.server.restart();
  }
});

test("a server in which agents work is restarted when the user has said so", async (deputy) => {
  ask("take your time");
  await until("the turn", () => deputy.sessions.current?.turn);
  const told: unknown[][] = [];
  let restore = heard("showWarningMessage", told);
  await vscode.commands.executeCommand("deputy.restartServer");
  restore();
  assert.equal(told[0]?.[0], "Restart Deputy's server while agents work?");
  assert.ok(deputy.sessions.current?.turn);
  restore = heard("showWarningMessage", told, "Restart");
  await vscode.commands.executeCommand("deputy.restartServer");
  restore();
  await until("what was cut off", () => deputy.sessions.current && isInterrupted(deputy.sessions.current));
});

test("however often it is restarted, one server runs at the end", async (deputy) => {
  const told: unknown[][] = [];
  const restore = heard("showErrorMessage", told);
  const restoreDialog = heard("showWarningMessage", told, "Restart");
  const restart = (): Thenable<unknown> => vscode.commands.executeCommand("deputy.restartServer");
  await Promise.all([restart(), restart(), deputy.server.start(), restart()]);
  restore();
  restoreDialog();
  assert.deepEqual(told, []);
  assert.equal(deputy.server.state, "running");
  assert.equal(processes().length, 1);
});

test("settings that come while a turn runs reach its server, and cut nothing", async (deputy) => {
  ask("take your time");
  const { turnId } = await until("the turn", () => deputy.sessions.current?.turn);
  const before = processes();
  const told: unknown[][] = [];
  const restore = heard("showErrorMessage", told);
  await Promise.all([deputy.server.configure(), deputy.server.configure(), deputy.sessions.refresh()]);
  assert.equal(deputy.sessions.current?.turn?.turnId, turnId);
  assert.deepEqual(processes(), before);
  // While one server ends and another one starts, there is none to be told.
  await Promise.all([deputy.server.restart(), deputy.server.configure(), deputy.server.configure()]);
  restore();
  assert.deepEqual(told, []);
  assert.equal(deputy.server.state, "running");
  await until("the end of the other server", () => processes().length === 1);
});

test("settings that name another server start it, once", async (deputy) => {
  const settings = vscode.workspace.getConfiguration("deputy.server");
  const path = settings.get<string>("path", "");
  const folder = mkdtempSync(join(tmpdir(), "server-"));
  const [other, starts] = [join(folder, "deputy"), join(folder, "starts")];
  writeFileSync(other, `#!/bin/sh\necho >> ${starts}\nexec ${path} "$@"\n`);
  chmodSync(other, 0o755);
  // Trust brings two at once: that it was given, and settings that were held back till then.
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

test("all settings that do not fit are named, and when they do the server starts", async (deputy) => {
  const settings = vscode.workspace.getConfiguration("deputy");
  const wrong: Readonly<Record<string, unknown>> = { permissionMode: "careless", "limits.promptQueue": "many" };
  const set = async (value: (name: string) => unknown): Promise<void> => {
    for (const name of Object.keys(wrong)) await settings.update(name, value(name), vscode.ConfigurationTarget.Global);
  };
  const told: unknown[][] = [];
  const restore = heard("showErrorMessage", told);
  try {
    await deputy.server.stop();
    await set((name) => wrong[name]);
    await vscode.commands.executeCommand("deputy.restartServer");
    const [message, ...actions] = await until("the message", () => told[0]);
    const named = String(message).match(/\w+\.[\w.]+(?=:)/g);
    assert.deepEqual(named?.toSorted(), ["deputy.limits.promptQueue", "deputy.permissionMode"], String(message));
    assert.deepEqual(actions, ["Open Settings", "Try Again", "Show Log"]);
    assert.equal(told.length, 1);
    assert.equal(deputy.server.state, "stopped");
  } finally {
    restore();
    await set(() => undefined);
  }
  await until("the server", () => deputy.server.state === "running");
});

test("sessions that work in a folder of another window are not offered", async (deputy) => {
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

test("the mode of a session is told as it is, whatever the settings say meanwhile", async (deputy) => {
  const settings = vscode.workspace.getConfiguration("deputy");
  const set = (mode: string | undefined): Thenable<void> =>
    settings.update("permissionMode", mode, vscode.ConfigurationTarget.Global);
  await set("accept_edits");
  try {
    ask("hello");
    const { sessionId } = await ended(deputy);
    await set(undefined);
    // It hears of the title that the session was given.
    await until("the title", () => deputy.sessions.get(sessionId)?.info?.title === "hello");
    assert.equal(deputy.sessions.modeOf(sessionId), "accept_edits");
  } finally {
    await set(undefined);
  }
});

test("a mode in which nothing is asked has to be meant", async (deputy) => {
  ask("improve the greeting");
  await question(deputy, "edit_file");
  const sessionId = deputy.sessions.current?.sessionId ?? "";
  const told: unknown[][] = [];
  const restore = heard("showWarningMessage", told);
  await whileAnswering("showQuickPick", { mode: "bypass" }, () =>
    Promise.resolve(vscode.commands.executeCommand("deputy.setMode")),
  );
  restore();
  const [title, { detail }] = told[0] as [string, { readonly detail: string }];
  assert.equal(title, "Bypass?");
  assert.match(detail, /What it allows of the question waiting now is done at once\.$/);
  assert.equal(deputy.sessions.modeOf(sessionId), "default");
  assert.equal(deputy.questions.list().length, 1);
});

test("a session is archived, out of the list, and put back", async (deputy) => {
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

test("a turn that the user stopped is not taken for one that was cut off", async (deputy) => {
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

test("a prompt that the agent has read is not handed back when the server ends", async (deputy) => {
  const prompted = deputy.sessions.prompt(await deputy.sessions.present(), [{ type: "text", text: "take your time" }]);
  await until("the stream", () => Object.keys(deputy.sessions.current?.streams ?? {}).length);
  crash();
  await prompted;
  await until("what was cut off", () => deputy.sessions.current && isInterrupted(deputy.sessions.current));
});

test("a server that is not there is named, with the setting to correct and the log to see", async (deputy) => {
  const settings = vscode.workspace.getConfiguration("deputy.server");
  const path = settings.get<string>("path");
  const told: unknown[][] = [];
  const restore = heard("showErrorMessage", told);
  try {
    await settings.update("path", "/nowhere/deputy", vscode.ConfigurationTarget.Global);
    const [message, ...actions] = await until("the message", () => told[0]);
    assert.equal(message, "There is no command at /nowhere/deputy, which the setting deputy.server.path names.");
    assert.deepEqual(actions, ["Open Settings", "Try Again", "Show Log"]);
    await until("the item", () => deputy.status.text === "$(circle-slash) Deputy: not running");
  } finally {
    restore();
    await settings.update("path", path, vscode.ConfigurationTarget.Global);
  }
  await until("the server is back", () => deputy.server.state === "running");
});

test("a key that changes in the midst of work cuts nothing off", async (deputy) => {
  ask("take your time");
  await until("the turn", () => deputy.sessions.current?.turn);
  const told: unknown[][] = [];
  const restore = heard("showInformationMessage", told);
  await whileAnswering("showInputBox", "a-key", () =>
    Promise.resolve(vscode.commands.executeCommand("deputy.setApiKey")),
  );
  await until("the words", () => told.length);
  restore();
  assert.deepEqual(told, [["The key is used once Deputy's server has been restarted. Agents work.", "Restart"]]);
  assert.ok(deputy.sessions.current?.turn);
  await vscode.commands.executeCommand("deputy.cancel");
  await ended(deputy);
  const restoreDialog = heard("showWarningMessage", [], "Forget");
  await whileAnswering("showInputBox", "", () => Promise.resolve(vscode.commands.executeCommand("deputy.setApiKey")));
  restoreDialog();
  await until("the server is back", () => deputy.server.state === "running");
});

test("the key is kept in the secret storage, and reaches the server by its environment alone", async (deputy) => {
  await whileAnswering("showInputBox", " a-key ", () =>
    Promise.resolve(vscode.commands.executeCommand("deputy.setApiKey")),
  );
  assert.deepEqual(await deputy.key.environment(), { ANTHROPIC_API_KEY: "a-key" });
  const settings = JSON.stringify(vscode.workspace.getConfiguration("deputy"));
  assert.ok(!settings.includes("a-key"));
  const told: unknown[][] = [];
  const restore = heard("showWarningMessage", told, "Forget");
  await whileAnswering("showInputBox", "", () => Promise.resolve(vscode.commands.executeCommand("deputy.setApiKey")));
  restore();
  assert.deepEqual(told, [["Forget the key?", { modal: true }, "Forget"]]);
  assert.deepEqual(await deputy.key.environment(), {});
  await until("the server is back", () => deputy.server.state === "running");
});
