/** Bundles the extension, its webview and its tests in the host into dist/. With --dev: readable, with source maps. */
import { copyFile, mkdir, readdir, rm } from "node:fs/promises";

import { build } from "esbuild";

const dev = process.argv.includes("--dev");
const shared = {
  bundle: true,
  minify: !dev,
  sourcemap: dev ? "inline" : false,
  logLevel: "warning",
  legalComments: "none",
};
const ICONS = "node_modules/@vscode/codicons/dist";

await mkdir("dist", { recursive: true });
// The server in dist/server is built by `make vsix`.
const old = (await readdir("dist")).filter((name) => name !== "server");
await Promise.all(old.map((name) => rm(`dist/${name}`, { recursive: true })));
const node = {
  ...shared,
  platform: "node",
  target: "node20",
  format: "cjs",
  external: ["vscode"],
  // Use the ES modules of the language client, so that unused code is left out.
  mainFields: ["module", "main"],
};
const hostTests = (await readdir("test/host"))
  .filter((name) => name !== "support.ts")
  .map((name) => `test/host/${name}`);
await Promise.all([
  build({ ...node, entryPoints: ["src/extension.ts"], outfile: "dist/extension.js" }),
  build({ ...node, entryPoints: hostTests, outdir: "dist/host", minify: false }),
  build({
    ...shared,
    entryPoints: ["webview/main.ts"],
    outfile: "dist/webview.js",
    platform: "browser",
    target: "es2022",
  }),
  build({ ...shared, entryPoints: ["webview/webview.css"], outfile: "dist/webview.css" }),
  copyFile(`${ICONS}/codicon.css`, "dist/codicon.css"),
  copyFile(`${ICONS}/codicon.ttf`, "dist/codicon.ttf"),
]);
