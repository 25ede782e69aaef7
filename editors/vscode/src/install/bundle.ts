/** The server that the extension brings, and where it is installed. */
import { createHash } from "node:crypto";
import { readdir, readFile, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";

/** Files of the extension from which the server is installed. */
export interface Bundle {
  readonly wheel: string;
  readonly requirements: string;
  readonly installer: string;
  readonly getUv: string;
  readonly digests: Digests;
}

interface Digests {
  readonly package: string;
  readonly requirements: string;
}

/** Milliseconds after which a server of an earlier version counts as unused. */
const UNUSED = 7 * 24 * 60 * 60_000;
const STATE = "install.json";

/** @throws Error if the extension was built without a server. */
export async function readBundle(folder: string): Promise<Bundle> {
  const wheel = (await readdir(folder)).find((name) => name.endsWith(".whl"));
  if (!wheel) throw new Error("This build of the extension brings no server.");
  const [path, requirements] = [join(folder, wheel), join(folder, "requirements.txt")];
  const digests = { package: await digestOf(path), requirements: await digestOf(requirements) };
  return {
    wheel: path,
    requirements,
    installer: join(folder, "install.py"),
    getUv: join(folder, "get-uv.sh"),
    digests,
  };
}

/** Where a bundle's server is installed: another version has another folder, because windows may still use it. */
export function folderOf(bundle: Bundle, storage: string): string {
  const { package: wheel, requirements } = bundle.digests;
  return join(storage, "server", createHash("sha256").update(wheel).update(requirements).digest("hex").slice(0, 12));
}

/** The command of a complete installation of the bundle; undefined if there is none. Marks it as used. */
export async function installedCommand(bundle: Bundle, storage: string): Promise<string | undefined> {
  const folder = folderOf(bundle, storage);
  try {
    const state = JSON.parse(await readFile(join(folder, STATE), "utf-8")) as Partial<Digests> & { state?: string };
    const { package: wheel, requirements } = bundle.digests;
    if (state.state !== "ready" || state.package !== wheel || state.requirements !== requirements) return undefined;
    const now = new Date();
    await utimes(join(folder, STATE), now, now);
    return join(folder, "bin", "deputy");
  } catch {
    return undefined;
  }
}

/** Removes servers of other versions that no window has used for a week. */
export async function removeUnused(bundle: Bundle, storage: string, now = Date.now()): Promise<void> {
  const parent = join(storage, "server");
  const kept = folderOf(bundle, storage);
  for (const name of await readdir(parent).catch(() => [])) {
    const folder = join(parent, name);
    const used = await stat(join(folder, STATE)).catch(() => undefined);
    if (folder !== kept && used && now - used.mtimeMs > UNUSED) await removeFolder(folder);
  }
}

/** Removes everything that was installed, uv and the Python that it downloaded included. */
export async function removeAll(storage: string): Promise<void> {
  for (const name of ["server", "uv"]) await removeFolder(join(storage, name));
}

async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 3 });
}

async function digestOf(file: string): Promise<string> {
  return createHash("sha256")
    .update(await readFile(file))
    .digest("hex");
}
