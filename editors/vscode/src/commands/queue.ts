/** Moves queued prompts back into the prompt box. */
import type { Prompt } from "../page/messages.ts";
import type { PromptQueueEntry } from "../protocol.ts";
import { showsPrompt } from "../state/text.ts";
import type { Deputy } from "./deputy.ts";

/** Removes queued prompts that have not started, and restores them in the box with their files and images. */
export async function unqueue(
  { server, sessions, sent, chat }: Deputy,
  sessionId: string,
  queued: readonly PromptQueueEntry[],
): Promise<void> {
  const own = [...sent].filter(([, session]) => session === sessionId).map(([prompt]) => prompt);
  const written = asWritten(sessions.get(sessionId)?.queue ?? queued, own);
  const answers = await Promise.allSettled(
    queued.map(({ promptId }) => server.request("deputy/session/unqueue", { sessionId, promptId })),
  );
  const removed = queued.flatMap(({ promptId, text }, index) => {
    const answer = answers[index];
    return answer?.status === "fulfilled" && answer.value.removed ? [written.get(promptId) ?? { text }] : [];
  });
  if (removed.length === 0) return;
  chat.restore({
    text: removed
      .map(({ text }) => text)
      .filter(Boolean)
      .join("\n\n"),
    mentions: removed.flatMap((prompt) => ("mentions" in prompt ? prompt.mentions : [])),
    images: removed.flatMap((prompt) => ("images" in prompt ? prompt.images : [])),
  });
}

/**
 * The queued prompts as written, by id. Each is matched to the longest sent prompt that its text starts with; of
 * several with the same text, to the last one, because earlier ones already run. Prompts of other clients have no
 * match.
 */
export function asWritten(
  queue: readonly PromptQueueEntry[],
  sent: readonly Prompt[],
): ReadonlyMap<string, Pick<Prompt, "text" | "mentions" | "images">> {
  const left = new Set(sent);
  const found = new Map<string, Prompt>();
  for (const { promptId, text, pictures = 0 } of queue.toReversed()) {
    const fitting = [...left].filter((one) => one.images.length === pictures && showsPrompt(text, one.text));
    const most = Math.max(...fitting.map((one) => one.text.length));
    const written = fitting.findLast((one) => one.text.length === most);
    if (!written) continue;
    left.delete(written);
    found.set(promptId, written);
  }
  return found;
}
