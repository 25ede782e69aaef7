/** VS Code's settings, converted for the server and the extension. Nothing else reads them. */
import * as vscode from "vscode";

import type { LaunchSettings } from "./install/find.ts";
import type { PermissionMode, Settings } from "./protocol.ts";
import { type Effective, effective, type Layers, undeclared } from "./state/reach.ts";

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
  // The server reports them: a misspelled rule must not be dropped silently.
  for (const [path, value] of undeclared(declaredSettings(), vscode.workspace.getConfiguration(SECTION)))
    nest(set, path, value);
  return { ...(set as Settings), trusted: vscode.workspace.isTrusted };
}

export function launchSettings(): LaunchSettings {
  const path = (name: string): string => {
    const value = chosen(name);
    return typeof value === "string" ? value : "";
  };
  return { path: path("server.path"), python: path("server.python") };
}

/** Whether a request without a location in a file is shown as a notification. */
export function notifiesOfRequests(): boolean {
  return chosen("notifications.questions") !== false;
}

/** The mode and the model of new sessions; empty for the server's default model. */
export function startSettings(): { readonly mode: PermissionMode; readonly model: string } {
  const [mode = "default", model = ""] = [chosen("permissionMode"), chosen("model")];
  return { mode: mode as PermissionMode, model: String(model) };
}

/** Names of the settings whose values of the workspace do not apply, in whole or in part. */
export function ignoredSettings(): readonly string[] {
  return declaredSettings().filter((name) => settingOf(name).ignored);
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

/** The value that applies; undefined for the default, which the server applies. */
function chosen(name: string): unknown {
  const { value } = settingOf(name);
  return value === null || value === "" ? undefined : value;
}

function settingOf(name: string): Effective {
  return effective(name, layersOf(name), vscode.workspace.isTrusted);
}

/** Remote machines whose settings come from a file of the workspace, such as `devcontainer.json`. */
const FROM_WORKSPACE = /container|codespace|gitpod/i;

/** The parts of a setting's global value, which the editor's types do not declare. */
interface GlobalValues {
  readonly globalLocalValue?: unknown;
  readonly globalRemoteValue?: unknown;
}

function layersOf(name: string): Layers {
  const found = vscode.workspace.getConfiguration(SECTION).inspect(name);
  const { globalLocalValue, globalRemoteValue } = (found ?? {}) as GlobalValues;
  // The path of the server is that of a program in the container, which its configuration provides anyway.
  const isOfContainer = FROM_WORKSPACE.test(vscode.env.remoteName ?? "") && !name.startsWith("server.");
  const workspace = [found?.workspaceValue, found?.workspaceFolderValue];
  const preset = found?.defaultValue;
  return isOfContainer
    ? { preset, user: globalLocalValue, workspace: [globalRemoteValue, ...workspace] }
    : { preset, user: found?.globalValue, workspace };
}

function nest(target: Record<string, unknown>, path: readonly string[], value: unknown): void {
  const [name, ...rest] = path as [string, ...string[]];
  if (rest.length === 0) target[name] = value;
  else nest((target[name] ??= {}) as Record<string, unknown>, rest, value);
}
