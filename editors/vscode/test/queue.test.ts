/** Matching of queued prompts, so that each is restored with its files and images. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { asWritten } from "../src/commands/queue.ts";
import type { PastedImage, Prompt } from "../src/page/messages.ts";
import type { PromptQueueEntry } from "../src/protocol.ts";

function written(text: string, ...data: readonly string[]): Prompt {
  const images = data.map((one): PastedImage => ({ mimeType: "image/png", data: one }));
  return { type: "prompt", text, mentions: [], images };
}

function queued(...prompts: readonly Prompt[]): readonly PromptQueueEntry[] {
  return prompts.map(({ text, images }, index) => ({
    promptId: String(index),
    text,
    ...(images.length && { pictures: images.length }),
  }));
}

const CASES: readonly (readonly [what: string, sent: readonly Prompt[]])[] = [
  ["the same text", [written("go", "red"), written("go", "blue"), written("go")]],
  ["text with the same start", [written("fix it, and run the tests"), written("fix it")]],
  ["images only", [written("look"), written("", "red"), written("look", "blue"), written("", "green")]],
];

for (const [what, sent] of CASES) {
  test(`prompts with ${what} are distinguished`, () => {
    const found = asWritten(queued(...sent), sent);
    assert.deepEqual(
      [...found.keys()].sort(),
      sent.map((_, index) => String(index)),
    );
    for (const [index, prompt] of sent.entries()) assert.equal(found.get(String(index)), prompt);
  });
}

test("of prompts with the same text the earlier ones are running", () => {
  const [running, later] = [written("go"), written("go")];
  assert.equal(asWritten(queued(later), [running, later]).get("0"), later);
});

test("a prompt is matched by its text without mentions; one of another client is not", () => {
  const about = written("compare");
  const queue = [
    { promptId: "a", text: "compare\n(about a.py:3-9)" },
    { promptId: "b", text: "something else" },
  ];
  assert.deepEqual([...asWritten(queue, [about])], [["a", about]]);
});
