/** Programs on this machine: finding them, and what can install the server. */
import { execFile } from "node:child_process";
import { access, constants } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join } from "node:path";

import type { Tool } from "./machine.ts";

const PROBE_TIMEOUT = 10_000;
const PYTHONS = ["python3.14", "python3.13", "python3.12", "python3.11", "python3", "python"];
/** Exits with 0 if the Python is new enough and can make environments. */
const CAN_INSTALL = "import sys, venv, ensurepip; sys.exit(0 if sys.version_info >= (3, 11) else 4)";

/** Folders to search: those of the PATH, and where programs are that an editor's PATH often lacks. */
export function foldersOf(path = process.env["PATH"] ?? ""): readonly string[] {
  const usual = [join(homedir(), ".local", "bin"), join(homedir(), ".cargo", "bin"), "/opt/homebrew/bin"];
  return [...new Set([...path.split(delimiter).filter(isAbsolute), ...usual])];
}

/** uv if there is one, otherwise a Python that can make environments. Each is started once, because shims may not work. */
export async function findTool(folders: readonly string[]): Promise<Tool | undefined> {
  for await (const path of executables(folders, ["uv"]))
    if ((await run(path, ["--version"])).code === 0) return { kind: "uv", path };
  for await (const path of executables(folders, PYTHONS))
    if ((await run(path, ["-I", "-c", CAN_INSTALL])).code === 0) return { kind: "python", path };
  return undefined;
}

/** Programs with one of the names, in the order of the names. */
export async function* executables(folders: readonly string[], names: readonly string[]): AsyncGenerator<string> {
  for (const name of names) {
    for (const folder of folders) {
      const path = join(folder, name);
      if (await isExecutable(path)) yield path;
    }
  }
}

export async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** Runs a program outside of the workspace. The code is -1 if it does not start or takes too long. */
export function run(
  command: string,
  args: readonly string[],
): Promise<{ readonly code: number; readonly out: string }> {
  return new Promise((resolve) => {
    execFile(command, args, { timeout: PROBE_TIMEOUT, cwd: homedir() }, (error, out) => {
      resolve({ code: error ? (typeof error.code === "number" ? error.code : -1) : 0, out });
    });
  });
}
