/** Finding the server and what can install it, and why there is none. */
import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { type Found, findServer } from "../src/install/find.ts";
import { findTool, foldersOf } from "../src/install/tools.ts";
import { fits, versionIn } from "../src/install/versions.ts";

const NOTHING = { path: "", python: "" };

/** A new folder with programs, each of which runs a line of shell. */
function withPrograms(programs: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), "deputy-find-"));
  for (const [name, line] of Object.entries(programs)) {
    writeFileSync(join(folder, name), `#!/bin/sh\n${line}\n`);
    chmodSync(join(folder, name), 0o755);
  }
  return folder;
}

function found(command: string): Found {
  return { type: "found", launch: { command, args: ["serve", "--stdio"] } };
}

const search = (folders: readonly string[], installed?: string): Promise<Found> =>
  findServer(NOTHING, { version: "0.2.1", folders, installed: () => Promise.resolve(installed) });

test("the first command on the PATH that fits is used", async () => {
  const [old, other, fit] = ["0.1.9", "0.3.0", "0.2.4"].map((version) =>
    withPrograms({ deputy: `echo deputy ${version}` }),
  ) as [string, string, string];
  assert.deepEqual(await search([old, other, fit], "/installed/deputy"), found(join(fit, "deputy")));
});

test("the installed server is used if no command on the PATH fits", async () => {
  const old = withPrograms({ deputy: "echo deputy 0.1.9" });
  assert.deepEqual(await search([old], "/installed/deputy"), found("/installed/deputy"));
  assert.deepEqual(await search([], "/installed/deputy"), found("/installed/deputy"));
});

test("a server that does not fit is reported if there is no other one", async () => {
  const old = withPrograms({ deputy: "echo deputy 0.1.9" });
  assert.deepEqual(await search([old]), { type: "mismatch", path: join(old, "deputy"), version: "0.1.9" });
});

test("another program with the name of the server, and one that does not start, are ignored", async () => {
  const folders = ["echo deputy of the sheriff", "exit 127"].map((line) => withPrograms({ deputy: line }));
  assert.deepEqual(await search(folders), { type: "absent" });
});

test("relative folders on the PATH are ignored", () => {
  assert.deepEqual(foldersOf("bin:./bin:/usr/bin:").slice(0, 1), ["/usr/bin"]);
});

test("the command of the settings is used whatever its version is, and must exist", async () => {
  const folder = withPrograms({ deputy: "echo deputy 9.9.9" });
  const places = { version: "0.2.1", folders: [], installed: () => Promise.resolve(undefined) };
  const path = join(folder, "deputy");
  assert.deepEqual(await findServer({ path, python: "" }, places), found(path));
  assert.deepEqual(await findServer({ path: "/nowhere/deputy", python: "" }, places), {
    type: "invalid",
    message: "There is no command at /nowhere/deputy. Correct the setting deputy.server.path.",
  });
});

const PYTHONS = [
  ["exit 3", "does not have the package deputy-ls. Correct the setting deputy.server.python."],
  ["exit 4", "is older than 3.11. Correct the setting deputy.server.python."],
  ["exit 127", "does not start. Correct the setting deputy.server.python."],
] as const;

for (const [line, expected] of PYTHONS) {
  test(`a Python of the settings that ${expected.split(".", 1)[0] ?? ""} is reported`, async () => {
    const python = join(withPrograms({ python3: line }), "python3");
    const places = { version: "0.2.1", folders: [], installed: () => Promise.resolve(undefined) };
    assert.deepEqual(await findServer({ path: "", python }, places), {
      type: "invalid",
      message: `${python} ${expected}`,
    });
  });
}

test("uv installs if it starts, otherwise a Python that can make environments", async () => {
  const all = withPrograms({ uv: "exit 0", python3: "exit 0" });
  assert.deepEqual(await findTool([all]), { kind: "uv", path: join(all, "uv") });
  const shim = withPrograms({ uv: "exit 127", "python3.11": "exit 1", python3: "exit 0" });
  assert.deepEqual(await findTool([shim]), { kind: "python", path: join(shim, "python3") });
  assert.equal(await findTool([withPrograms({ python3: "exit 4" })]), undefined);
});

test("a folder with the name of a program is not a program", async () => {
  const folder = withPrograms({});
  mkdirSync(join(folder, "uv"));
  assert.equal(await findTool([folder]), undefined);
});

const VERSIONS = [
  ["0.2.1", "0.2.1", true],
  ["0.2.4", "0.2.1", true],
  ["0.2.0", "0.2.1", false],
  ["0.3.0", "0.2.1", false],
  ["1.2.1", "0.2.1", false],
  ["1.4.0", "1.3.5", true],
  ["1.3.4", "1.3.5", false],
  ["2.0.0", "1.3.5", false],
] as const;

test("a server fits if its interface can only be larger", () => {
  for (const [server, wanted, expected] of VERSIONS)
    assert.equal(fits(server, wanted), expected, `${server} ${wanted}`);
  assert.equal(versionIn("deputy 0.2.1\n"), "0.2.1");
  assert.equal(versionIn("deputy of the sheriff"), undefined);
});
