/** VS Code's settings, converted for the server and the extension. */
import * as vscode from "vscode";

import type { LaunchSettings } from "./launch.ts";
import type { Settings } from "./protocol.ts";

export const SECTION = "deputy";
/** Settings of the extension; all others are sent to the server unchanged. */
const OWN = new Set(["server", "notifications", "trace"]);

/** The settings that the user has set, for `initializationOptions` and `workspace/didChangeConfiguration`. */
export function serverSettings(): Settings {
  const set: Record<string, unknown> = {};
  for (const name of declaredSettings()) {
    const [group, ...rest] = name.split(".");
    const value = chosen(name);
    if (group === undefined || OWN.has(group) || value === undefined) continue;
    nest(set, [group, ...rest], value);
  }
  return { ...(set as Settings), trusted: vscode.workspace.isTrusted };
}

export function launchSettings(): LaunchSettings {
  const own = vscode.workspace.getConfiguration(`${SECTION}.server`);
  return { path: own.get("path", ""), python: own.get("python", "") };
}

/** Whether a request without a location in a file is shown as a notification. */
export function notifiesOfRequests(): boolean {
  return vscode.workspace.getConfiguration(`${SECTION}.notifications`).get("questions", true);
}

function declaredSettings(): readonly string[] {
  const manifest = vscode.extensions.getExtension("deputy.deputy")?.packageJSON as Manifest | undefined;
  const groups = manifest?.contributes.configuration ?? [];
  return groups.flatMap((group) => Object.keys(group.properties)).map((name) => name.slice(SECTION.length + 1));
}

interface Manifest {
  readonly contributes: {
    readonly configuration: readonly { readonly properties: Readonly<Record<string, unknown>> }[];
  };
}

/** The value that the user set; undefined for the default, which the server applies. */
function chosen(name: string): unknown {
  const found = vscode.workspace.getConfiguration(SECTION).inspect(name);
  const value = found?.workspaceFolderValue ?? found?.workspaceValue ?? found?.globalValue;
  return value === null || value === "" ? undefined : value;
}

function nest(target: Record<string, unknown>, path: readonly string[], value: unknown): void {
  const [name, ...rest] = path as [string, ...string[]];
  if (rest.length === 0) target[name] = value;
  else nest((target[name] ??= {}) as Record<string, unknown>, rest, value);
}
