/** Finding and starting the server. Never starts a program from the workspace, which may not be trusted. */
import { execFile } from "node:child_process";
import { access, constants } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join } from "node:path";

export interface LaunchSettings {
  /** Path of the `deputy` command; empty to search for it. */
  readonly path: string;
  /** A Python with the package `deputy-ls`; empty to search for one. */
  readonly python: string;
}

export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
}

/** No server was found; the message contains what to do. */
export class NoServer extends Error {
  /** The settings to correct. */
  readonly settings: string;

  constructor(message: string, settings = "deputy.server") {
    super(message);
    this.settings = settings;
  }
}

const SERVE = ["serve", "--stdio"];
const HAS_SERVER = "import sys, importlib.util as u; sys.exit(0 if u.find_spec('deputy_server') else 3)";
const OLDEST_PYTHON = "3.11";
const IS_NEW_ENOUGH = "import sys; sys.exit(0 if sys.version_info >= (3, 11) else 4)";
const PROBE_TIMEOUT = 10_000;

/** @throws NoServer if no server was found. */
export async function findServer(settings: LaunchSettings, path = process.env["PATH"] ?? ""): Promise<Launch> {
  if (settings.path) return deputyAt(expanded(settings.path));
  if (settings.python) return pythonAt(expanded(settings.python));
  const folders = [...path.split(delimiter).filter(isAbsolute), join(homedir(), ".local", "bin")];
  const deputy = await firstExecutable(folders, ["deputy"]);
  if (deputy) return { command: deputy, args: SERVE };
  const python = await firstExecutable(folders, ["python3", "python"]);
  if (!python) {
    throw new NoServer(
      `Deputy needs Python ${OLDEST_PYTHON} or newer, and none was found. Install it, or set its path in the settings.`,
    );
  }
  return pythonAt(python);
}

async function deputyAt(path: string): Promise<Launch> {
  if (!(await isExecutable(path))) {
    throw new NoServer(`There is no command at ${path}. Correct the setting deputy.server.path.`);
  }
  return { command: path, args: SERVE };
}

async function pythonAt(python: string): Promise<Launch> {
  const launch = { command: python, args: ["-m", "deputy_server", ...SERVE] };
  switch (await exitCode(python, HAS_SERVER)) {
    case 0:
      return launch;
    case 3:
      throw new NoServer(
        (await exitCode(python, IS_NEW_ENOUGH)) === 0
          ? `Deputy's server is not installed for ${python}. Run make venv in Deputy's folder, and set its path in the settings.`
          : `${python} is too old: Deputy needs Python ${OLDEST_PYTHON} or newer.`,
      );
    default:
      throw new NoServer(`${python} does not start. Set another Python in deputy.server.python.`);
  }
}

function exitCode(command: string, code: string): Promise<number> {
  return new Promise((resolve) => {
    // -I: ignore the current folder and environment variables when importing.
    execFile(command, ["-I", "-c", code], { timeout: PROBE_TIMEOUT, cwd: homedir() }, (error) => {
      resolve(error ? (typeof error.code === "number" ? error.code : -1) : 0);
    });
  });
}

async function firstExecutable(folders: readonly string[], names: readonly string[]): Promise<string | undefined> {
  for (const name of names) {
    for (const folder of folders) {
      const path = join(folder, process.platform === "win32" ? `${name}.exe` : name);
      if (await isExecutable(path)) return path;
    }
  }
  return undefined;
}

async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

function expanded(path: string): string {
  return path.startsWith("~/") ? join(homedir(), path.slice(2)) : path;
}
