/** Menu entries of the extension. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

interface Manifest {
  readonly contributes: {
    readonly commands: readonly { readonly command: string; readonly title: string }[];
    readonly menus: Readonly<Record<string, readonly { readonly command: string; readonly when: string }[]>>;
  };
}

const { contributes } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf-8")) as Manifest;

function titles(menu: string): readonly string[] {
  const commands = (contributes.menus[menu] ?? []).map(({ command }) => command);
  return contributes.commands.filter(({ command }) => commands.includes(command)).map(({ title }) => title);
}

test("menu entries beside other extensions contain Deputy's name", () => {
  const shared = [...titles("editor/context"), ...titles("explorer/context")];
  assert.equal(shared.length, 2);
  assert.deepEqual(
    shared.filter((title) => !title.includes("Deputy")),
    [],
  );
});

test("the menu of a listed session can archive it", () => {
  const offered = titles("view/item/context").filter((title) => title.includes("rchive"));
  assert.deepEqual(offered, ["Archive Session"]);
});
