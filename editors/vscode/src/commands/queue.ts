/** Waiting prompts, which go back into the box where they were written. */
import type { Prompt } from "../page/messages.ts";
import type { PromptQueueEntry } from "../protocol.ts";
import { showsPrompt } from "../state/words.ts";
import type { Deputy } from "./deputy.ts";

/** Takes prompts back that have not begun, with their files and pictures. */
export async function takeBack(
  { server, sessions, sent, chat }: Deputy,
  sessionId: string,
  waiting: readonly PromptQueueEntry[],
): Promise<void> {
  const own = [...sent].filter(([, session]) => session === sessionId).map(([prompt]) => prompt);
  const written = asWritten(sessions.get(sessionId)?.queue ?? waiting, own);
  const answers = await Promise.allSettled(
    waiting.map(({ promptId }) => server.request("deputy/session/unqueue", { sessionId, promptId })),
  );
  const back = waiting.flatMap(({ promptId, text }, index) => {
    const answer = answers[index];
    return answer?.status === "fulfilled" && answer.value.removed ? [written.get(promptId) ?? { text }] : [];
  });
  if (back.length === 0) return;
  chat.takeBack({
    text: back
      .map(({ text }) => text)
      .filter(Boolean)
      .join("\n\n"),
    mentions: back.flatMap((prompt) => ("mentions" in prompt ? prompt.mentions : [])),
    pictures: back.flatMap((prompt) => ("pictures" in prompt ? prompt.pictures : [])),
  });
}

/**
 * The prompts of a queue as they were written, by id. Each is the one that has most of its words; of several with the
 * same words the last, for what was sent before it runs already. One of another client is not among them.
 */
export function asWritten(
  queue: readonly PromptQueueEntry[],
  sent: readonly Prompt[],
): ReadonlyMap<string, Pick<Prompt, "text" | "mentions" | "pictures">> {
  const left = new Set(sent);
  const found = new Map<string, Prompt>();
  for (const { promptId, text, pictures = 0 } of queue.toReversed()) {
    const fitting = [...left].filter((one) => one.pictures.length === pictures && showsPrompt(text, one.text));
    const most = Math.max(...fitting.map((one) => one.text.length));
    const written = fitting.findLast((one) => one.text.length === most);
    if (!written) continue;
    left.delete(written);
    found.set(promptId, written);
  }
  return found;
}
