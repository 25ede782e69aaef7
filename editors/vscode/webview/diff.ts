/** A box with the lines of a diff. */
import { h } from "./dom.ts";

export function diffBox(lines: readonly string[], label: string): HTMLElement {
  return h("pre", { class: "diff", tabindex: "0", "aria-label": label }, ...lines.map(diffLine));
}

const KINDS: Readonly<Record<string, string>> = { "+": "added", "-": "removed", "@": "place", "\\": "place" };

function diffLine(line: string): HTMLElement {
  return h("span", { class: `line ${KINDS[line[0] ?? ""] ?? ""}`.trim() }, `${line}\n`);
}
