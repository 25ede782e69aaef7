/** Diffs as lines, each of which begins with a space, `-`, `+`, `@`, or a backslash before a note. */
import type { DiffHunk, EditDiff } from "../protocol.ts";

export function hunkLines(hunks: readonly DiffHunk[]): readonly string[] {
  return hunks.flatMap((hunk) => [
    `@@ -${hunk.oldStart},${hunk.oldCount} +${hunk.newStart},${hunk.newCount} @@`,
    ...hunk.lines,
  ]);
}

/** The lines of what an edit has changed. */
export function editLines({ hunks, truncated }: EditDiff): readonly string[] {
  return [...hunkLines(hunks), ...(truncated ? ["\\ The change is too large to be shown completely."] : [])];
}

/** The numbers of lines that an edit has added and removed. */
export function editCounts({ hunks }: EditDiff): { readonly added: number; readonly removed: number } {
  const lines = hunks.flatMap((hunk) => hunk.lines);
  const count = (sign: string): number => lines.filter((line) => line.startsWith(sign)).length;
  return { added: count("+"), removed: count("-") };
}
