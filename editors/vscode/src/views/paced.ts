import type * as vscode from "vscode";

const INTERVAL = 100;

/** Calls a function at most once in an interval, and once more after the last request. */
export class Paced implements vscode.Disposable {
  readonly #run: () => void;
  readonly #interval: number;
  #timer: NodeJS.Timeout | undefined;
  #last = 0;
  #due = Infinity;

  /** `interval` is in milliseconds. */
  constructor(run: () => void, interval = INTERVAL) {
    this.#run = run;
    this.#interval = interval;
  }

  call(): void {
    this.callIn(Math.max(0, this.#last + this.#interval - Date.now()));
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
