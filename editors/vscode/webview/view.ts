/** The data from which all parts of the page are drawn. */
import type { FromPage, PastedImage, Surroundings } from "../src/page/messages.ts";
import type { RewindPlan, ShownChanges } from "../src/state/changes.ts";
import type { SessionState } from "../src/state/session.ts";

export interface View {
  readonly state: SessionState;
  readonly around: Surroundings;
  /** Images of the user's messages, by message. */
  readonly images: Readonly<Record<string, readonly PastedImage[]>>;
  /** What is to be reviewed; undefined until it is known. */
  readonly changes: ShownChanges | undefined;
  /** The prompt to go back to before, by the number of its message; without a plan until that is known. */
  readonly rewind: { readonly seq: number; readonly plan: RewindPlan | undefined } | undefined;
  /** Opens the card of a prompt, or closes it. */
  readonly setRewind: (seq: number | undefined) => void;
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly send: (message: FromPage) => void;
}

/** A part of the page that redraws itself from a view. */
export interface Part {
  readonly element: HTMLElement;
  update(view: View): void;
}
