/** Where the server is, and how it is started. Nothing of the workspace is ever started: a folder is not to be trusted. */
import { execFile } from "node:child_process";
import { access, constants } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join } from "node:path";

export interface LaunchSettings {
  /** Path of the `deputy` command; empty to look for it. */
  readonly path: string;
  /** A Python that has the package `deputy-ls`; empty to look for one. */
  readonly python: string;
}

export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
}

/** There is no server to start; the message says what to do. */
export class NoServer extends Error {
  /** The settings that mend it. */
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

/** @throws NoServer when nothing that could be started was found. */
export async function findServer(settings: LaunchSettings, path = process.env["PATH"] ?? ""): Promise<Launch> {
  if (settings.path) return deputyAt(expanded(settings.path));
  if (settings.python) return pythonAt(expanded(settings.python));
  const folders = [...path.split(delimiter).filter(isAbsolute), join(homedir(), ".local", "bin")];
  const deputy = await firstExecutable(folders, ["deputy"]);
  if (deputy) return { command: deputy, args: SERVE };
  const python = await firstExecutable(folders, ["python3", "python"]);
  if (!python) {
    throw new NoServer(
      `Deputy needs Python ${OLDEST_PYTHON} or newer, and none was found. Install it, or name one in the settings.`,
    );
  }
  return pythonAt(python);
}

async function deputyAt(path: string): Promise<Launch> {
  if (!(await isExecutable(path))) {
    throw new NoServer(`There is no command at ${path}, which the setting deputy.server.path names.`);
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
          ? `Deputy's server is not installed for ${python}. Make it in Deputy's folder (make venv), and name it in the settings.`
          : `${python} is too old: Deputy needs Python ${OLDEST_PYTHON} or newer.`,
      );
    default:
      throw new NoServer(`${python} does not start. Name another Python in the setting deputy.server.python.`);
  }
}

function exitCode(command: string, code: string): Promise<number> {
  return new Promise((resolve) => {
    // -I: neither the current folder nor variables of the environment decide what is imported.
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
