/** The prompts of a session, recalled one by one as in a shell. */
import type { Entry } from "./session.ts";

export class PromptHistory {
  #entries: readonly Entry[] | undefined;
  /** The latest first. */
  #prompts: readonly string[] = [];
  /** The shown prompt; -1 for what the user has written. */
  #at = -1;
  #written = "";

  update(entries: readonly Entry[] | undefined): void {
    if (entries === this.#entries) return;
    this.#entries = entries;
    const prompts = (entries ?? []).flatMap((entry) =>
      entry.type === "message" && entry.role === "user" && entry.text.trim() ? [entry.text.trim()] : [],
    );
    this.#prompts = prompts.filter((text, index) => text !== prompts[index + 1]).reverse();
  }

  /** The prompt `step` further back than the shown one, to replace `text` with; undefined if there is none. */
  move(step: number, text: string): string | undefined {
    const isShown = this.#at >= 0 && this.#prompts[this.#at] === text;
    // An edited prompt is one that the user has written.
    const from = isShown ? this.#at : -1;
    const to = from + step;
    if (to < -1 || to >= this.#prompts.length) return undefined;
    if (!isShown) this.#written = text;
    this.#at = to;
    return to < 0 ? this.#written : this.#prompts[to];
  }

  reset(): void {
    this.#at = -1;
    this.#written = "";
  }
}
