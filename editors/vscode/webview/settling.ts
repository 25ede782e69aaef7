/**
 * The time after approvals have appeared, moved or been answered in which no click approves: a second click on the same
 * spot would otherwise answer a request that the user has not seen.
 */

/** Milliseconds. */
const SETTLING = 500;

let changedAt = -Infinity;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Starts the time. Until it ends, the style sheet dims the answers and lets clicks through. */
export function unsettle(): void {
  changedAt = performance.now();
  document.body.classList.add("settling");
  clearTimeout(timer);
  timer = setTimeout(() => document.body.classList.remove("settling"), SETTLING);
}

export function isSettled(): boolean {
  return performance.now() - changedAt >= SETTLING;
}
