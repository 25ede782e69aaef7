import type * as vscode from "vscode";

const INTERVAL = 100;

/** Calls a function at most ten times a second, and once more after the last request. */
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

  /** Calls it in `delay` milliseconds, unless it is due earlier. */
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
