/** Reports settings of the workspace that do not apply, once for each set of them. */
import { parse } from "jsonc-parser";
import * as vscode from "vscode";

import { ignoredSettings, SECTION } from "./settings.ts";
import { settingsOfUserIn } from "./state/reach.ts";

const REPORTED = "deputy.ignoredSettings";
/** Maximum number of names in the message. */
const MAX_NAMES = 8;

export class IgnoredSettings implements vscode.Disposable {
  readonly #memory: vscode.Memento;
  readonly #subscriptions: readonly vscode.Disposable[];
  #reported: string;

  constructor(memory: vscode.Memento) {
    this.#memory = memory;
    this.#reported = memory.get(REPORTED, "");
    const report = (): void => void this.#report();
    this.#subscriptions = [
      vscode.workspace.onDidChangeWorkspaceFolders(report),
      vscode.workspace.onDidGrantWorkspaceTrust(report),
      vscode.workspace.onDidChangeConfiguration((change) => change.affectsConfiguration(SECTION) && report()),
    ];
    report();
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
  }

  async #report(): Promise<void> {
    const names = [...new Set([...ignoredSettings(), ...(await namesInFiles())])].sort();
    const key = names.join(" ");
    // In restricted mode the editor itself reports that settings do not apply.
    if (!vscode.workspace.isTrusted || key === this.#reported) return;
    this.#reported = key;
    void this.#memory.update(REPORTED, key);
    if (names.length === 0) return;
    const shown = names.slice(0, MAX_NAMES).map((name) => `${SECTION}.${name}`);
    const more = names.length > MAX_NAMES ? [`${names.length - MAX_NAMES} more`] : [];
    const message = `Deputy ignores settings of this workspace that only you can set: ${[...shown, ...more].join(", ")}.`;
    const open = "Open User Settings";
    if ((await vscode.window.showWarningMessage(message, open)) !== open) return;
    await vscode.commands.executeCommand("workbench.action.openSettings", shown.map((name) => `@id:${name}`).join(" "));
  }
}

/** Settings in the workspace's files that the editor ignores. */
async function namesInFiles(): Promise<readonly string[]> {
  const { workspaceFile, workspaceFolders = [] } = vscode.workspace;
  const found = workspaceFolders.map(async ({ uri }) =>
    settingsOfUserIn(await contentOf(vscode.Uri.joinPath(uri, ".vscode", "settings.json"))),
  );
  if (workspaceFile) {
    const content = contentOf(workspaceFile) as Promise<{ readonly settings?: unknown } | undefined>;
    found.push(content.then((file) => settingsOfUserIn(file?.settings)));
  }
  return (await Promise.all(found)).flat();
}

/** Content of a file of settings; undefined if there is none. */
async function contentOf(uri: vscode.Uri): Promise<unknown> {
  try {
    return parse(new TextDecoder().decode(await vscode.workspace.fs.readFile(uri)));
  } catch {
    return undefined;
  }
}
