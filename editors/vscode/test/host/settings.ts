/**
 * Settings of a hostile workspace: in a folder, in a `.code-workspace` file, and in a folder that is not trusted. The
 * files are written by `tests/editors/vscode/test_workspace_settings.py`.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import * as vscode from "vscode";

import { launchSettings, serverSettings } from "../../src/settings.ts";
import { ask, capture, ended, openRequest, run, test, until } from "./support.ts";

export { run };

const DENY = { tool: "shell", pattern: "rm *", action: "deny" };

/** Whether a program of the workspace was run: each of them makes this file. */
function wasRun(): boolean {
  const [folder] = vscode.workspace.workspaceFolders ?? [];
  assert.ok(folder);
  return existsSync(vscode.Uri.joinPath(folder.uri, "was-run").fsPath);
}

test("only what restricts agents reaches the server", () => {
  const { isTrusted } = vscode.workspace;
  const { baseUrl, model, ...others } = serverSettings();
  assert.equal(model, "scripted");
  assert.match(baseUrl ?? "", /^http:\/\/127\.0\.0\.1:/);
  assert.deepEqual(
    others,
    isTrusted ? { trusted: true, permissions: { rules: [DENY] }, shell: { sandbox: true } } : { trusted: false },
  );
  assert.match(launchSettings().path, /bin\/deputy$/);
  assert.equal(launchSettings().python, "");
  return Promise.resolve();
});

test("nothing of the workspace is run or approved unasked", async (deputy) => {
  ask("count the files");
  if (vscode.workspace.isTrusted) {
    await openRequest(deputy, "shell");
    await vscode.commands.executeCommand("deputy.cancel");
  }
  await ended(deputy);
  assert.ok(!wasRun());
});

test("a value that does not apply is reported once", async () => {
  const messages: unknown[][] = [];
  const restore = capture("showWarningMessage", messages);
  const settings = vscode.workspace.getConfiguration("deputy");
  const target = vscode.ConfigurationTarget.Workspace;
  try {
    await settings.update("web.search", true, target);
    if (!vscode.workspace.isTrusted) return;
    const [[message] = []] = await until("the message", () => messages.length > 0 && messages);
    for (const name of ["web.search", "permissionMode", "hooks", "baseUrl"]) {
      assert.ok(String(message).includes(`deputy.${name}`) || String(message).includes("more"), String(message));
    }
    await settings.update("permissionMode", "accept_edits", target);
    await settings.update("shell.timeout", 60, target);
    await until("the change", () => serverSettings().shell?.timeout === 60);
    assert.equal(messages.length, 1);
  } finally {
    restore();
  }
});
