/** Finding the server. Never starts a program from the workspace, which may not be trusted. */
import { homedir } from "node:os";
import { join } from "node:path";

import { executables, foldersOf, isExecutable, run } from "./tools.ts";
import { fits, versionIn } from "./versions.ts";

export interface LaunchSettings {
  /** Path of the `deputy` command; empty to search for it. */
  readonly path: string;
  /** A Python with the package `deputy-ls`; empty to search for the command. */
  readonly python: string;
}

export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
}

/** The server, or why there is none. */
export type Found =
  | { readonly type: "found"; readonly launch: Launch }
  | { readonly type: "invalid"; readonly message: string }
  | { readonly type: "mismatch"; readonly path: string; readonly version: string }
  | { readonly type: "absent" };

/** Where to search besides the settings. */
export interface Places {
  /** The version that the extension needs. */
  readonly version: string;
  /** The command that the extension has installed, if it has. */
  readonly installed: () => Promise<string | undefined>;
  readonly folders?: readonly string[];
}

const SERVE = ["serve", "--stdio"];
const OLDEST_PYTHON = "3.11";
const HAS_SERVER =
  "import sys, importlib.util as u; sys.exit(4 if sys.version_info < (3, 11) else 0 if u.find_spec('deputy_server') else 3)";

/** The server of the settings; otherwise the first that fits: on the PATH, or installed by the extension. */
export async function findServer(settings: LaunchSettings, places: Places): Promise<Found> {
  if (settings.path) return deputyAt(expanded(settings.path));
  if (settings.python) return pythonAt(expanded(settings.python));
  let other: Found = { type: "absent" };
  for await (const path of executables(places.folders ?? foldersOf(), ["deputy"])) {
    const version = versionIn((await run(path, ["--version"])).out);
    if (version && fits(version, places.version)) return { type: "found", launch: { command: path, args: SERVE } };
    if (version && other.type === "absent") other = { type: "mismatch", path, version };
  }
  const installed = await places.installed();
  return installed ? { type: "found", launch: { command: installed, args: SERVE } } : other;
}

async function deputyAt(path: string): Promise<Found> {
  return (await isExecutable(path))
    ? { type: "found", launch: { command: path, args: SERVE } }
    : { type: "invalid", message: `There is no command at ${path}. Correct the setting deputy.server.path.` };
}

async function pythonAt(python: string): Promise<Found> {
  // -I: ignore the current folder and environment variables when importing.
  const { code } = await run(python, ["-I", "-c", HAS_SERVER]);
  if (code === 0) return { type: "found", launch: { command: python, args: ["-P", "-m", "deputy_server", ...SERVE] } };
  const cause =
    { 3: `${python} does not have the package deputy-ls.`, 4: `${python} is older than ${OLDEST_PYTHON}.` }[code] ??
    `${python} does not start.`;
  return { type: "invalid", message: `${cause} Correct the setting deputy.server.python.` };
}

function expanded(path: string): string {
  return path.startsWith("~/") ? join(homedir(), path.slice(2)) : path;
}
