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
  assert.ok(shown("make test").endsWith("Cancel denies it.  (2 more)"));
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
