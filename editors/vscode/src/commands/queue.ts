/** Waiting prompts, which go back into the box where they were written. */
import type { PromptQueueEntry } from "../protocol.ts";
import { showsPrompt } from "../state/words.ts";
import type { Deputy } from "./deputy.ts";

/** Takes prompts back that have not begun, with their files and pictures. */
export async function takeBack(
  { server, sent, chat }: Deputy,
  sessionId: string,
  waiting: readonly PromptQueueEntry[],
): Promise<void> {
  const written = waiting.map(({ text }) => [...sent].findLast((prompt) => showsPrompt(text, prompt.text)));
  const answers = await Promise.allSettled(
    waiting.map(({ promptId }) => server.request("deputy/session/unqueue", { sessionId, promptId })),
  );
  const back = waiting.flatMap(({ text }, index) => {
    const answer = answers[index];
    return answer?.status === "fulfilled" && answer.value.removed ? [written[index] ?? { text }] : [];
  });
  if (back.length === 0) return;
  chat.takeBack({
    text: back.map(({ text }) => text).join("\n\n"),
    mentions: back.flatMap((prompt) => ("mentions" in prompt ? prompt.mentions : [])),
    pictures: back.flatMap((prompt) => ("pictures" in prompt ? prompt.pictures : [])),
  });
}
