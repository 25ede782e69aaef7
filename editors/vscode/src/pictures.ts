/**
 * The pictures of prompts, to be shown in the user's messages. The server does not send them back, so what this window
 * has sent is kept for as long as it is open; of other messages the number of pictures is known.
 */
import type { Picture } from "./page/messages.ts";
import type { EventParams } from "./protocol.ts";
import { showsPrompt } from "./state/words.ts";

/** Messages whose pictures are kept; those before them show their number. */
const KEPT = 20;

interface Sent {
  readonly sessionId: string;
  readonly text: string;
  readonly pictures: readonly Picture[];
}

interface Shown extends Sent {
  readonly messageId: string;
}

export class Pictures {
  #sent: readonly Sent[] = [];
  #shown: readonly Shown[] = [];

  /** A prompt goes to the server; its message comes when it is its turn. */
  send(sent: Sent): void {
    if (sent.pictures.length) this.#sent = [...this.#sent, sent].slice(-KEPT);
  }

  /** Whether the event is the message of a prompt with pictures that are known. */
  hear(event: EventParams): boolean {
    if (event.type !== "message" || event.role !== "user" || !event.pictures) return false;
    const { sessionId, messageId, text, pictures } = event;
    const found = this.#sent.find(
      (sent) => sent.sessionId === sessionId && showsPrompt(text, sent.text) && sent.pictures.length === pictures,
    );
    if (!found) return false;
    this.#sent = this.#sent.filter((sent) => sent !== found);
    this.#shown = [...this.#shown, { ...found, messageId }].slice(-KEPT);
    return true;
  }

  /** The pictures of a session, by message. */
  of(sessionId: string): Readonly<Record<string, readonly Picture[]>> {
    const own = this.#shown.filter((shown) => shown.sessionId === sessionId);
    return Object.fromEntries(own.map(({ messageId, pictures }) => [messageId, pictures]));
  }
}
