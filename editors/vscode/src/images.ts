/**
 * The images of prompts, shown in the user's messages. The server does not return them, so images sent from this window
 * are kept while it is open; for other messages only their number is known.
 */
import type { PastedImage } from "./page/messages.ts";
import type { EventParams } from "./protocol.ts";
import { showsPrompt } from "./state/text.ts";

/** Messages whose images are kept; earlier messages show only their number. */
const KEPT = 20;

interface Sent {
  readonly sessionId: string;
  readonly text: string;
  readonly images: readonly PastedImage[];
}

interface Shown extends Sent {
  readonly messageId: string;
}

export class Images {
  #sent: readonly Sent[] = [];
  #shown: readonly Shown[] = [];

  /** Records a sent prompt; its message event follows when its turn starts. */
  add(sent: Sent): void {
    if (sent.images.length) this.#sent = [...this.#sent, sent].slice(-KEPT);
  }

  /** Matches a message event to a sent prompt; whether its images are known. */
  match(event: EventParams): boolean {
    if (event.type !== "message" || event.role !== "user" || !event.pictures) return false;
    const { sessionId, messageId, text, pictures } = event;
    const found = this.#sent.find(
      (sent) => sent.sessionId === sessionId && showsPrompt(text, sent.text) && sent.images.length === pictures,
    );
    if (!found) return false;
    this.#sent = this.#sent.filter((sent) => sent !== found);
    this.#shown = [...this.#shown, { ...found, messageId }].slice(-KEPT);
    return true;
  }

  /** The images of a session, by message. */
  of(sessionId: string): Readonly<Record<string, readonly PastedImage[]>> {
    const own = this.#shown.filter((shown) => shown.sessionId === sessionId);
    return Object.fromEntries(own.map(({ messageId, images }) => [messageId, images]));
  }
}
