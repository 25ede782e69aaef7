/** Which waiting prompt is which, so that each goes back with what belongs to it. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { asWritten } from "../src/commands/queue.ts";
import type { Picture, Prompt } from "../src/page/messages.ts";
import type { PromptQueueEntry } from "../src/protocol.ts";

function written(text: string, ...data: readonly string[]): Prompt {
  const pictures = data.map((one): Picture => ({ mimeType: "image/png", data: one }));
  return { type: "prompt", text, mentions: [], pictures };
}

function waiting(...prompts: readonly Prompt[]): readonly PromptQueueEntry[] {
  return prompts.map(({ text, pictures }, index) => ({
    promptId: String(index),
    text,
    ...(pictures.length && { pictures: pictures.length }),
  }));
}

const CASES: readonly (readonly [what: string, sent: readonly Prompt[]])[] = [
  ["the same words", [written("go", "red"), written("go", "blue"), written("go")]],
  ["words that begin like others", [written("fix it, and mind the tests"), written("fix it")]],
  ["pictures alone", [written("look"), written("", "red"), written("look", "blue"), written("", "green")]],
];

for (const [what, sent] of CASES) {
  test(`prompts of ${what} are told apart`, () => {
    const found = asWritten(waiting(...sent), sent);
    assert.deepEqual(
      [...found.keys()].sort(),
      sent.map((_, index) => String(index)),
    );
    for (const [index, prompt] of sent.entries()) assert.equal(found.get(String(index)), prompt);
  });
}

test("of prompts with the same words those that run already were sent first", () => {
  const [running, later] = [written("go"), written("go")];
  assert.equal(asWritten(waiting(later), [running, later]).get("0"), later);
});

test("a prompt is found by its words, whatever it is about; one of another client is not", () => {
  const about = written("compare");
  const queue = [
    { promptId: "a", text: "compare\n(about a.py:3-9)" },
    { promptId: "b", text: "something else" },
  ];
  assert.deepEqual([...asWritten(queue, [about])], [["a", about]]);
});
