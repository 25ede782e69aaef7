/** Running the installer, which is a program of its own: `editors/installer`. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { type Bundle, folderOf } from "./bundle.ts";
import type { SetupEvent } from "./machine.ts";
import type { Tool } from "./machine.ts";

export interface Installation {
  readonly bundle: Bundle;
  /** The folder of the extension's own data. */
  readonly storage: string;
  /** What installs; undefined to download uv first. */
  readonly tool: Tool | undefined;
  /** Variables that are added to those of the editor. */
  readonly environment: Readonly<Record<string, string>>;
  readonly log: (line: string) => void;
  readonly emit: (event: SetupEvent) => void;
  /** Ends the installation; nothing of it is left. */
  readonly cancel: AbortSignal;
}

/** A message of the installer. */
interface Message {
  readonly step?: number;
  readonly of?: number;
  readonly text?: string;
  readonly line?: string;
  readonly failed?: string;
  readonly message?: string;
  readonly ready?: string;
}

/** Milliseconds for everything. The installer limits each of its steps. */
const LIMIT = 45 * 60_000;
/** Milliseconds in which the installer cleans up after a cancellation. */
const GRACE = 10_000;

interface Command {
  readonly command: string;
  readonly args: readonly string[];
  readonly read: (line: string) => void;
  /** Milliseconds from the end of standard input to a kill. */
  readonly grace: number;
}

/** Installs the server; emits steps and, at the end, `installed`, `failed` or `cancelled`. */
export async function install(given: Installation): Promise<void> {
  await mkdir(given.storage, { recursive: true });
  const tool = given.tool ?? (await downloadUv(given));
  if (tool) given.emit(await runInstaller(given, tool));
}

async function downloadUv(given: Installation): Promise<Tool | undefined> {
  const { storage, emit } = given;
  emit({ type: "step", step: 1, of: 5, text: "Download uv" });
  const folder = join(storage, "uv");
  const script = { command: "sh", args: [given.bundle.getUv, folder], read: given.log, grace: 0 };
  const { code, last } = await follow(given, script);
  if (given.cancel.aborted) emit({ type: "cancelled" });
  else if (code === 0) return { kind: "uv", path: join(folder, "uv") };
  else emit({ type: "failed", cause: "uv", message: `uv could not be downloaded. ${last}` });
  return undefined;
}

async function runInstaller(given: Installation, { kind, path }: Tool): Promise<SetupEvent> {
  const { bundle, storage, cancel, emit, log } = given;
  const options = [
    ...["--into", folderOf(bundle, storage)],
    ...["--requirements", bundle.requirements, "--package", bundle.wheel],
  ];
  const args =
    kind === "uv"
      ? ["run", "--no-project", "--python", ">=3.11", bundle.installer, ...options, "--uv", path]
      : ["-I", bundle.installer, ...options];
  // Steps of the installer follow that of the download.
  const before = given.tool ? 0 : 1;
  let end: SetupEvent | undefined;
  const read = (line: string): void => {
    const message = messageIn(line);
    if (message.line !== undefined) log(message.line);
    if (message.step !== undefined && message.of !== undefined)
      emit({ type: "step", step: message.step + before, of: message.of + before, text: message.text ?? "" });
    if (message.ready !== undefined) end = { type: "installed" };
    if (message.failed !== undefined)
      end = { type: "failed", cause: message.failed, message: message.message ?? message.failed };
  };
  const { last } = await follow(given, { command: path, args, read, grace: GRACE });
  if (cancel.aborted) return { type: "cancelled" };
  return end ?? { type: "failed", cause: "other", message: `The installer did not finish. ${last}` };
}

/** Runs a program until it ends; its exit code, and the last line that it wrote to standard error. */
async function follow(
  { storage, environment, log, cancel }: Installation,
  { command, args, read, grace }: Command,
): Promise<{ readonly code: number; readonly last: string }> {
  const own = join(storage, "uv");
  // Python that the extension's own uv downloads stays with the extension.
  const python = command.startsWith(own) ? { UV_PYTHON_INSTALL_DIR: join(own, "python") } : {};
  const env: NodeJS.ProcessEnv = { ...process.env, ...python, ...environment };
  delete env["VIRTUAL_ENV"];
  log(`running ${[command, ...args].join(" ")}`);
  const child = spawn(command, args, { cwd: storage, env, stdio: ["pipe", "pipe", "pipe"], detached: true });
  let last = "";
  createInterface({ input: child.stdout }).on("line", read);
  createInterface({ input: child.stderr }).on("line", (line) => log((last = line)));
  // The installer ends when its standard input does.
  const stop = (): void => {
    child.stdin.end();
    setTimeout(() => killGroup(child), grace).unref();
  };
  const timer = setTimeout(stop, LIMIT);
  cancel.addEventListener("abort", stop);
  if (cancel.aborted) stop();
  try {
    return await new Promise((resolve) => {
      child.stdin.on("error", () => undefined);
      child.on("error", (error) => resolve({ code: -1, last: error.message }));
      child.on("close", (code) => resolve({ code: code ?? -1, last }));
    });
  } finally {
    clearTimeout(timer);
    cancel.removeEventListener("abort", stop);
  }
}

function killGroup(child: ChildProcess): void {
  if (child.pid === undefined || child.exitCode !== null) return;
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}

function messageIn(line: string): Message {
  try {
    return JSON.parse(line) as Message;
  } catch {
    return { line };
  }
}
