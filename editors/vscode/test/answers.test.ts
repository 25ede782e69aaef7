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

function asked(changes: Partial<PermissionRequest>): PermissionRequest {
  const [request] = Object.values(after(log("permission_requests").slice(0, 1)).questions);
  assert.ok(request);
  return { ...request, options: OPTIONS, ...changes };
}

async function inChat(request: PermissionRequest): Promise<readonly string[]> {
  const page = await open();
  page.show({ ...after(log("permission_requests").slice(0, 1)), questions: { [request.requestId]: request } });
  return page.all(".answers button, .lasting button").map(({ textContent }) => textContent);
}

/** The words of the links in a Markdown text, without icons. */
function links(markdown: string): readonly string[] {
  return [...markdown.matchAll(/\[(?:\$\([\w-]+\) )?([^\]]+)\]\(command:/g)].map(([, words = ""]) => words);
}

test("an answer has one name, in the chat, at the code and in the notification", async () => {
  const change = asked({ tool: "edit_file", preview: DIFF });
  assert.ok(isDiff(change));
  const names = ["Yes, this time", "Approve for this file", "No"];
  assert.deepEqual(links(answersAtCode(change)).slice(0, 3), names);
  const shown = await inChat(change);
  assert.deepEqual(
    names.filter((name) => !shown.includes(name)),
    [],
  );
  const command = asked({ tool: "shell", preview: COMMAND });
  assert.deepEqual(links(notice(command, 0)), ["Yes, this time", "Show"]);
  assert.ok((await inChat(command)).includes("Yes, this time"));
});

test("what stands over a question has nothing that the editor escapes", () => {
  assert.equal(labelAtCode(asked({ title: "edit_file(<img>&amp;.py)" })), "edit_file(‹img›＆amp;.py)");
});

test("a command is approved in its notification when all of it can be seen there", () => {
  const told = (command: string): string =>
    notice(asked({ tool: "shell", preview: { ...COMMAND, command } }), 2).replaceAll(/\(command:[^)]*\)/g, "");
  assert.match(told("make test"), /^\[.+\] wants to run: make test \(in \/w\/a b\) — \[Yes, this time\] {2}\[Show\]/);
  assert.ok(told("make test").endsWith("Cancel denies it.  (2 more)"));
  for (const hidden of ["make\n\ntest", "make \u202etest", `make ${"x".repeat(300)}`, "make [test](command:x)"]) {
    assert.ok(!told(hidden).includes("Yes, this time"), hidden);
  }
});

test("a command is approved by its title when all of it can be seen there", () => {
  const seen = (command: string, tool = "shell"): boolean =>
    isSeenByTitle(asked({ tool, title: `${tool}(${command})`, preview: { ...COMMAND, command } }));
  assert.ok(seen("make test"));
  for (const command of [`echo ${"a".repeat(80)}; rm x`, "make\nrm x", "echo \\u{202e}x", "echo \u202ex"]) {
    assert.ok(!seen(command), command);
  }
  assert.ok(!seen("uvx time", "mcp"));
  assert.ok(isSeenByTitle(asked({ tool: "edit_file", preview: DIFF })));
});

test("a command with a character that does not show is not approved in its notification", () => {
  const preview = { ...COMMAND, command: "echo \\u{202e}tset" };
  assert.ok(!links(notice(asked({ tool: "shell", preview }), 0)).includes("Yes, this time"));
});

test("a program that gives agents tools is named as one, and is not approved by a notification", () => {
  const reason = "The MCP server time, named in .mcp.json, gives agents tools.";
  const text = notice(asked({ tool: "mcp", title: "mcp(time)", preview: COMMAND, reason }), 0);
  assert.ok(text.includes(`asks: mcp(time). ${reason}`), text);
  assert.deepEqual(links(text), ["Show"]);
});
