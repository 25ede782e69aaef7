/** Running the installer, and what it leaves in the extension's folder. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { type Bundle, folderOf, installedCommand, readBundle, removeAll, removeUnused } from "../src/install/bundle.ts";
import { install } from "../src/install/installation.ts";
import type { SetupEvent, Tool } from "../src/install/machine.ts";

const DAY = 24 * 60 * 60_000;

interface Place {
  readonly folder: string;
  readonly storage: string;
  readonly bundle: Bundle;
}

/** The files of an extension, with a script for a Python as the tool, and one that downloads uv. */
async function place(python: string, getUv = "exit 1"): Promise<Place & { readonly tool: Tool }> {
  const folder = mkdtempSync(join(tmpdir(), "deputy-install-"));
  const files = { "deputy_ls-0.2.0-py3-none-any.whl": "wheel", "requirements.txt": "pinned", "get-uv.sh": getUv };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const path = join(folder, "python3");
  writeFileSync(path, `#!/bin/sh\n${python}\n`, { mode: 0o755 });
  const storage = join(folder, "storage");
  return { folder, storage, bundle: await readBundle(folder), tool: { kind: "python", path } };
}

/** The events and the log of an installation. */
async function run(
  { storage, bundle }: Place,
  tool: Tool | undefined,
  onEvent: (event: SetupEvent, controller: AbortController) => void = () => undefined,
): Promise<{ readonly events: readonly SetupEvent[]; readonly lines: readonly string[] }> {
  const [events, lines]: [SetupEvent[], string[]] = [[], []];
  const controller = new AbortController();
  await install({
    bundle,
    storage,
    tool,
    environment: { FROM_EDITOR: "yes" },
    log: (line) => lines.push(line),
    emit: (event) => {
      events.push(event);
      onEvent(event, controller);
    },
    cancel: controller.signal,
  });
  return { events, lines };
}

const STEP = { type: "step", step: 1, of: 4, text: "Make it" } as const;
const SAY_STEP = `echo '{"step": 1, "of": 4, "text": "Make it"}'`;

test("steps and the end of an installation are reported, and its output is logged", async () => {
  const at = await place(`${SAY_STEP}; echo '{"line": "from the editor: '$FROM_EDITOR'"}'; echo '{"ready": "0.2.0"}'`);
  const { events, lines } = await run(at, at.tool);
  assert.deepEqual(events, [STEP, { type: "installed" }]);
  assert.ok(lines.includes("from the editor: yes"), lines.join("\n"));
});

test("the installer gets the files of the extension, and a folder of its own", async () => {
  const at = await place(`echo '{"line": "'"$*"'"}'; echo '{"ready": "0.2.0"}'`);
  const { lines } = await run(at, at.tool);
  const [installer, into] = [join(at.folder, "install.py"), folderOf(at.bundle, at.storage)];
  const files = `--requirements ${at.bundle.requirements} --package ${at.bundle.wheel}`;
  assert.equal(lines.at(-1), `-I ${installer} --into ${into} ${files}`);
});

test("the cause of a failure is reported", async () => {
  const at = await place(`echo '{"failed": "offline", "message": "No network."}'; exit 1`);
  const { events } = await run(at, at.tool);
  assert.deepEqual(events, [{ type: "failed", cause: "offline", message: "No network." }]);
});

test("an installer that ends without a result is reported with its last words", async () => {
  const at = await place("echo 'no such option' >&2; exit 2");
  const { events } = await run(at, at.tool);
  assert.deepEqual(events, [
    { type: "failed", cause: "other", message: "The installer did not finish. no such option" },
  ]);
});

test("a tool that does not start is reported", async () => {
  const at = await place("exit 0");
  const { events } = await run(at, { kind: "uv", path: "/nowhere/uv" });
  assert.equal(events.length, 1);
  assert.ok(events[0]?.type === "failed" && events[0].message.includes("ENOENT"), JSON.stringify(events));
});

test("a cancellation ends the input of the installer, which then cleans up", async () => {
  const at = await place(`${SAY_STEP}; cat; echo cleaned > cleaned`);
  const { events } = await run(at, at.tool, ({ type }, controller) => type === "step" && controller.abort());
  assert.deepEqual(events, [STEP, { type: "cancelled" }]);
  assert.ok(existsSync(join(at.storage, "cleaned")));
});

test("uv is downloaded first if there is no tool, and keeps its Python in the extension's folder", async () => {
  const uv = `${SAY_STEP}\necho '{"line": "'$UV_PYTHON_INSTALL_DIR'"}'\necho '{"ready": "0.2.0"}'`;
  const getUv = `mkdir -p "$1"\ncat > "$1/uv" <<'END'\n#!/bin/sh\n${uv}\nEND\nchmod +x "$1/uv"`;
  const at = await place("exit 1", getUv);
  const { events, lines } = await run(at, undefined);
  assert.deepEqual(events, [
    { type: "step", step: 1, of: 5, text: "Download uv" },
    { ...STEP, step: 2, of: 5 },
    { type: "installed" },
  ]);
  assert.ok(lines.includes(join(at.storage, "uv", "python")), lines.join("\n"));
});

test("a failed download of uv is reported with its cause, and can be cancelled", async () => {
  const at = await place("exit 1", "echo 'could not resolve host' >&2; exit 6");
  const { events } = await run(at, undefined);
  const message = "uv could not be downloaded. could not resolve host";
  assert.deepEqual(events.at(-1), { type: "failed", cause: "uv", message });
  const slow = await place("exit 1", "sleep 600");
  const cancelled = await run(slow, undefined, (_, controller) => controller.abort());
  assert.deepEqual(cancelled.events.at(-1), { type: "cancelled" });
});

/** Writes what the installer leaves. */
function leave(folder: string, state: object): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "install.json"), JSON.stringify(state));
}

test("only a complete installation of this version is used", async () => {
  const { storage, bundle } = await place("exit 1");
  const folder = folderOf(bundle, storage);
  assert.equal(await installedCommand(bundle, storage), undefined);
  leave(folder, { state: "installing" });
  assert.equal(await installedCommand(bundle, storage), undefined);
  leave(folder, { state: "ready", ...bundle.digests, requirements: "others" });
  assert.equal(await installedCommand(bundle, storage), undefined);
  leave(folder, { state: "ready", ...bundle.digests });
  assert.equal(await installedCommand(bundle, storage), join(folder, "bin", "deputy"));
});

test("servers of other versions are removed after a week without use", async () => {
  const { storage, bundle } = await place("exit 1");
  const [own, recent, old] = [folderOf(bundle, storage), join(storage, "server", "a"), join(storage, "server", "b")];
  for (const folder of [own, recent, old]) leave(folder, { state: "ready" });
  const now = Date.now();
  for (const folder of [own, old]) utimesSync(join(folder, "install.json"), 0, (now - 8 * DAY) / 1000);
  await removeUnused(bundle, storage, now);
  assert.deepEqual([own, recent, old].map(existsSync), [true, true, false]);
  await removeAll(storage);
  assert.deepEqual(readdirSync(storage), []);
});

test("a build without a server is reported", async () => {
  await assert.rejects(readBundle(mkdtempSync(join(tmpdir(), "deputy-install-"))), /brings no server/);
});
