/** What an answer is called, and where it is offered. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { answersAtCode, labelAtCode, notice } from "../src/approval/answers.ts";
import type { PermissionOption, PermissionRequest } from "../src/protocol.ts";
import { isDiff, isSeenByTitle } from "../src/state/proposal.ts";
import { after, log, open } from "./webview/page.ts";

const DIFF = { type: "diff", uri: "file:///w/a.py", oldText: "one\n", newText: "two\n" } as const;
const COMMAND = { type: "command", command: "make test", cwd: "file:///w/a%20b" } as const;
const OPTIONS: readonly PermissionOption[] = [
  { optionId: "1", kind: "allow_once", name: "Yes, this time" },
  { optionId: "2", kind: "allow_always", name: "Always allow: it(a.py)" },
  { optionId: "3", kind: "reject_once", name: "No" },
];

function request(changes: Partial<PermissionRequest>): PermissionRequest {
  const [request] = Object.values(after(log("permission_requests").slice(0, 1)).requests);
  assert.ok(request);
  return { ...request, options: OPTIONS, ...changes };
}

async function inChat(request: PermissionRequest): Promise<readonly string[]> {
  const page = await open();
  page.show({ ...after(log("permission_requests").slice(0, 1)), requests: { [request.requestId]: request } });
  return page.all(".answers button, .lasting button").map(({ textContent }) => textContent);
}

/** The texts of the links in a Markdown text, without icons. */
function links(markdown: string): readonly string[] {
  return [...markdown.matchAll(/\[(?:\$\([\w-]+\) )?([^\]]+)\]\(command:/g)].map(([, text = ""]) => text);
}

test("an answer has the same name in the chat, at the code and in the notification", async () => {
  const change = request({ tool: "edit_file", preview: DIFF });
  assert.ok(isDiff(change));
  const names = ["Yes, this time", "Approve for this file", "No"];
  assert.deepEqual(links(answersAtCode(change)).slice(0, 3), names);
  const shown = await inChat(change);
  assert.deepEqual(
    names.filter((name) => !shown.includes(name)),
    [],
  );
  const command = request({ tool: "shell", preview: COMMAND });
  assert.deepEqual(links(notice(command, 0)), ["Yes, this time", "Show"]);
  assert.ok((await inChat(command)).includes("Yes, this time"));
});

test("the title at the code has no characters that the editor escapes", () => {
  assert.equal(labelAtCode(request({ title: "edit_file(<img>&amp;.py)" })), "edit_file(‹img›＆amp;.py)");
});

test("a command can be approved in its notification if all of it is visible", () => {
  const shown = (command: string): string =>
    notice(request({ tool: "shell", preview: { ...COMMAND, command } }), 2).replaceAll(/\(command:[^)]*\)/g, "");
  assert.match(
    shown("make test"),
    /^\[.+\] needs approval to run: make test \(in \/w\/a b\) — \[Yes, this time\] {2}\[Show\]/,
  );
  assert.ok(shown("make test").endsWith("[Show]  (2 more)"));
  for (const hidden of ["make\n\ntest", "make \u202etest", `make ${"x".repeat(300)}`, "make [test](command:x)"]) {
    assert.ok(!shown(hidden).includes("Yes, this time"), hidden);
  }
});

test("a command can be approved by its title if all of it is visible", () => {
  const seen = (command: string, tool = "shell"): boolean =>
    isSeenByTitle(request({ tool, title: `${tool}(${command})`, preview: { ...COMMAND, command } }));
  assert.ok(seen("make test"));
  for (const command of [`echo ${"a".repeat(80)}; rm x`, "make\nrm x", "echo \\u{202e}x", "echo \u202ex"]) {
    assert.ok(!seen(command), command);
  }
  assert.ok(!seen("uvx time", "mcp"));
  assert.ok(isSeenByTitle(request({ tool: "edit_file", preview: DIFF })));
});

test("a command with an invisible character is not approved in its notification", () => {
  const preview = { ...COMMAND, command: "echo \\u{202e}tset" };
  assert.ok(!links(notice(request({ tool: "shell", preview }), 0)).includes("Yes, this time"));
});

test("an MCP server is named in its notification but not approved there", () => {
  const reason = "MCP server time, configured in .mcp.json, provides tools to agents.";
  const text = notice(request({ tool: "mcp", title: "mcp(time)", preview: COMMAND, reason }), 0);
  assert.ok(text.includes(`needs approval: mcp(time). ${reason}`), text);
  assert.deepEqual(links(text), ["Show"]);
});

/** A request for a command of several parts, whose lasting answers add a rule for each. */
function compound(rules: readonly string[]): PermissionRequest {
  const option = (kind: "allow_always" | "reject_always", verb: string): PermissionOption => ({
    optionId: kind,
    kind,
    name: `${verb}: ${rules.join(", ")}`,
    rules,
  });
  const options = [...OPTIONS.filter(({ kind }) => !kind.endsWith("always")), option("allow_always", "Always allow")];
  return request({ tool: "shell", preview: COMMAND, options: [...options, option("reject_always", "Always deny")] });
}

const PARTS: readonly string[] = [
  ...Array.from({ length: 30 }, (_, index) => `shell(echo ${"long words ".repeat(5)}${String(index)})`),
  `shell(curl ${"x".repeat(500)} -o ~/.bashrc)`,
];

test("a lasting answer shows every rule completely before its button", async () => {
  const page = await open();
  const asking = compound(PARTS);
  page.show({ ...after(log("permission_requests").slice(0, 1)), requests: { [asking.requestId]: asking } });
  const [allow, deny] = page.all(".lasting details") as HTMLDetailsElement[];
  for (const [fold, kind] of [
    [allow, "allow_always"],
    [deny, "reject_always"],
  ] as const) {
    assert.ok(fold && !fold.open);
    const shown = [...fold.querySelectorAll("li")].map(({ textContent }) => textContent);
    assert.deepEqual(shown, PARTS);
    const [summary, list, answer] = [...fold.children];
    assert.ok(summary?.textContent.endsWith("… (31 rules)"));
    assert.equal(list?.tagName, "UL");
    page.newMessages();
    (answer as HTMLElement).click();
    const option = asking.options.find((one) => one.kind === kind);
    assert.deepEqual(page.newMessages(), [{ type: "choose", requestId: asking.requestId, option }]);
    page.show(page.state);
  }
  assert.equal(page.all(".lasting > button").length, 0);
});

for (const [what, rules, label] of [
  ["one short rule", ["shell(make test)"], "Always allow: shell(make test)"],
  [
    "a rule with invisible characters",
    ["shell(make\u202e\n\u00a0test)"],
    "Always allow: shell(make\\u{202e}\\u{a}\\u{a0}test)",
  ],
] as const) {
  test(`the label of an answer with ${what} contains all of it`, async () => {
    assert.ok((await inChat(compound(rules))).includes(label));
  });
}

test("the name of an answer is complete if the server does not list its rules", async () => {
  const name = `Always allow: shell(${"x".repeat(900)} -o ~/.bashrc)`;
  const options = [
    ...OPTIONS.filter(({ kind }) => kind !== "allow_always"),
    { optionId: "2", kind: "allow_always", name },
  ];
  const shown = await inChat(request({ tool: "shell", preview: COMMAND, options } as Partial<PermissionRequest>));
  assert.ok(shown.includes(name));
});

test("an answer about a file that adds other rules too is not offered at the code", () => {
  const rules = ["edit_file(a.py)", "shell(make test)"];
  const options = OPTIONS.map((option) => (option.kind === "allow_always" ? { ...option, rules } : option));
  const change = request({ tool: "edit_file", preview: DIFF, options });
  assert.ok(isDiff(change));
  assert.deepEqual(links(answersAtCode(change)).slice(0, 2), ["Yes, this time", "No"]);
});

test("a command whose spaces are not spaces is not approved in its notification or by its title", () => {
  const preview = { ...COMMAND, command: "rm\u00a0-rf x" };
  const asking = request({ tool: "shell", title: `shell(${preview.command})`, preview });
  assert.ok(!links(notice(asking, 0)).includes("Yes, this time"));
  assert.ok(!isSeenByTitle(asking));
});
