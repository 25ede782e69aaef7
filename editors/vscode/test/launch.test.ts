/** Finding the server, and the errors if there is none. */
import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { findServer, NoServer } from "../src/launch.ts";

const NOTHING = { path: "", python: "" };

/** A folder with one program, which runs a line of shell. */
function withProgram(name: string, line: string): string {
  const folder = mkdtempSync(join(tmpdir(), "deputy-launch-"));
  process.env["HOME"] = folder; // programs in the developer's home folder must not be found
  writeFileSync(join(folder, name), `#!/bin/sh\n${line}\n`);
  chmodSync(join(folder, name), 0o755);
  return folder;
}

async function errorFor(path: string): Promise<string> {
  const error = await findServer(NOTHING, path).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof NoServer);
  return error.message;
}

test("the command on the PATH is used", async () => {
  const folder = withProgram("deputy", "exit 0");
  assert.deepEqual(await findServer(NOTHING, folder), { command: join(folder, "deputy"), args: ["serve", "--stdio"] });
});

test("a Python with the package is used if there is no command", async () => {
  const folder = withProgram("python3", "exit 0");
  const args = ["-m", "deputy_server", "serve", "--stdio"];
  assert.deepEqual(await findServer(NOTHING, folder), { command: join(folder, "python3"), args });
});

const MISSING = [
  ["no Python", "nothing", "exit 0", "Deputy needs Python 3.11 or newer, and none was found."],
  ["a Python without the server", "python3", 'case "$3" in *find_spec*) exit 3;; esac', "is not installed for"],
  ["a Python that is too old", "python3", 'case "$3" in *find_spec*) exit 3;; *) exit 4;; esac', "is too old"],
  ["a Python that does not start", "python3", "exit 127", "does not start"],
] as const;

for (const [what, name, line, expected] of MISSING) {
  test(`${what} is reported with what to do`, async () => {
    const message = await errorFor(withProgram(name, line));
    assert.ok(message.includes(expected), message);
  });
}

test("relative folders on the PATH are ignored", async () => {
  withProgram("nothing", "exit 0");
  assert.ok((await errorFor("bin:./bin:")).includes("none was found"));
});
