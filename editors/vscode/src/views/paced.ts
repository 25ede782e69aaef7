import type * as vscode from "vscode";

const INTERVAL = 100;

/** Calls a function at most ten times a second, however often it is asked to, and once more for what came last. */
export class Paced implements vscode.Disposable {
  readonly #run: () => void;
  #timer: NodeJS.Timeout | undefined;
  #last = 0;
  #due = Infinity;

  constructor(run: () => void) {
    this.#run = run;
  }

  call(): void {
    this.callIn(Math.max(0, this.#last + INTERVAL - Date.now()));
  }

  /** Calls it in so many milliseconds, unless it is due earlier. */
  callIn(delay: number): void {
    const due = Date.now() + delay;
    if (due >= this.#due) return;
    clearTimeout(this.#timer);
    this.#due = due;
    this.#timer = setTimeout(() => {
      this.#due = Infinity;
      this.#last = Date.now();
      this.#run();
    }, delay);
  }

  dispose(): void {
    clearTimeout(this.#timer);
    this.#due = -Infinity;
  }
}
