/** What the settings of a workspace can do. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { effective, REACH, settingsOfUserIn, undeclared } from "../src/state/reach.ts";

interface Manifest {
  readonly capabilities: { readonly untrustedWorkspaces: { readonly restrictedConfigurations: readonly string[] } };
  readonly contributes: {
    readonly configuration: readonly {
      readonly properties: Readonly<Record<string, { readonly scope: string; readonly default: unknown }>>;
    }[];
  };
}

const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf-8")) as Manifest;
const properties = Object.assign({}, ...manifest.contributes.configuration.map((group) => group.properties)) as Record<
  string,
  { readonly scope: string; readonly default: unknown }
>;

test("every setting in the manifest is classified, and the editor restricts it accordingly", () => {
  assert.deepEqual(
    Object.keys(REACH)
      .map((name) => `deputy.${name}`)
      .sort(),
    Object.keys(properties).sort(),
  );
  for (const [name, { scope }] of Object.entries(properties)) {
    const reach = REACH[name.slice("deputy.".length)];
    assert.equal(scope, reach === "user" ? "machine" : "window", name);
  }
  assert.deepEqual(
    manifest.capabilities.untrustedWorkspaces.restrictedConfigurations.toSorted(),
    Object.keys(properties).sort(),
  );
});

const RULE = { tool: "shell", pattern: "rm *", action: "deny" };
const ASK = { tool: "shell", pattern: "git *", action: "ask" };
const ALLOW = { tool: "shell", action: "allow" };

const CASES: readonly [name: string, user: unknown, workspace: unknown, value: unknown, ignored: boolean][] = [
  ["permissionMode", undefined, "bypass", undefined, true],
  ["permissionMode", undefined, "accept_edits", undefined, true],
  ["permissionMode", undefined, "plan", "plan", false],
  ["permissionMode", "bypass", "default", "default", false],
  ["permissionMode", "bypass", "bypass", "bypass", false],
  ["permissionMode", "accept_edits", "bypass", "accept_edits", true],
  ["permissionMode", "default", ["plan"], "default", true],
  ["permissionMode", "wrong", "plan", "wrong", true],
  ["permissions.rules", undefined, [ALLOW], undefined, true],
  ["permissions.rules", undefined, [RULE], [RULE], false],
  ["permissions.rules", [RULE], [], [RULE], false],
  ["permissions.rules", [RULE, ALLOW], [ASK, ALLOW], [RULE, ALLOW, ASK], true],
  ["permissions.rules", [ALLOW], [RULE, ASK], [ALLOW, RULE, ASK], false],
  ["permissions.rules", [ALLOW], "deny", [ALLOW], true],
  ["permissions.rules", undefined, [null, 1, { action: ["deny"] }], undefined, true],
  ["shell.sandbox", true, false, true, true],
  ["shell.sandbox", undefined, true, true, false],
  ["web.enabled", undefined, false, false, false],
  ["web.enabled", false, true, false, true],
  ["budgets.tree.cost", 5, 50, 5, true],
  ["budgets.tree.cost", 5, 2, 2, false],
  ["budgets.tree.cost", undefined, 2, 2, false],
  ["budgets.tree.cost", 5, null, 5, true],
  ["budgets.tree.cost", 5, -1, 5, true],
  ["model", "one", "two", "two", false],
  ["hooks", undefined, [{ on: "turn_end", run: "id" }], undefined, true],
  ["hooks", [], [], [], false],
  ["baseUrl", "https://mine.test", "https://evil.test", "https://mine.test", true],
  ["unknown.setting", 1, 2, 1, true],
];

for (const [name, user, workspace, value, ignored] of CASES) {
  const what = [user, workspace].map((one) => JSON.stringify(one)).join(" and ");
  test(`${name} of user and workspace: ${what}`, () => {
    const preset = properties[`deputy.${name}`]?.default;
    assert.deepEqual(effective(name, { preset, user, workspace: [workspace] }, true), { value, ignored });
    assert.deepEqual(effective(name, { preset, user, workspace: [undefined, workspace] }, true), { value, ignored });
    const untrusted = effective(name, { preset, user, workspace: [workspace] }, false);
    assert.deepEqual(untrusted.value, user);
  });
}

test("no value of a workspace gives more power, whatever it is", () => {
  const values: readonly unknown[] = [true, false, 0, 1, 1e9, "", "bypass", "x", null, [], [ALLOW], {}, { a: 1 }];
  const users = Object.entries(REACH).filter(([, reach]) => reach === "user");
  for (const [name] of users) {
    for (const own of values) {
      for (const user of [undefined, "mine"]) {
        assert.equal(effective(name, { preset: null, user, workspace: [own, own] }, true).value, user, name);
      }
    }
  }
});

test("each layer can restrict further", () => {
  const workspace = ["default", "bypass", "plan", "accept_edits"];
  assert.deepEqual(effective("permissionMode", { preset: "default", user: "bypass", workspace }, true), {
    value: "plan",
    ignored: true,
  });
});

test("settings of the user are found in files, however they are nested", () => {
  const file = {
    "deputy.hooks": [],
    "deputy.model": "x",
    deputy: { api: { headers: {} }, "web.allowPrivate": true, permissionMode: "bypass" },
    "deputy.shell": { env: [] },
    "other.hooks": [],
  };
  assert.deepEqual(settingsOfUserIn(file), ["hooks", "shell.env", "api.headers", "web.allowPrivate"]);
  for (const other of [undefined, null, [], "deputy.hooks", { deputy: null }, { deputy: "hooks" }]) {
    assert.deepEqual(settingsOfUserIn(other), []);
  }
});

test("names that the extension does not declare are found, with their place", () => {
  const declared = ["model", "permissions.rules", "mcpServers"];
  const section = {
    get: () => undefined,
    model: "m",
    permissions: { rules: [], rulez: [1] },
    permision: { rules: [] },
    mcpServers: { any: {} },
  };
  assert.deepEqual(undeclared(declared, section), [
    [["permissions", "rulez"], [1]],
    [["permision"], { rules: [] }],
  ]);
});
