/** The data from which all parts of the page are drawn. */
import type { FromPage, PastedImage, Surroundings } from "../src/page/messages.ts";
import type { SessionState } from "../src/state/session.ts";

export interface View {
  readonly state: SessionState;
  readonly around: Surroundings;
  /** Images of the user's messages, by message. */
  readonly images: Readonly<Record<string, readonly PastedImage[]>>;
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly send: (message: FromPage) => void;
}

/** A part of the page that redraws itself from a view. */
export interface Part {
  readonly element: HTMLElement;
  update(view: View): void;
}
