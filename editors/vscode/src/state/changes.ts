/** The unreviewed changes of a session: texts and counts for views, and the way from one hunk to the next. */
import type { FileStatus, Hunk, PreviewFile, ReviewFile, ReviewListResult, ReviewTotals } from "../protocol.ts";
import { exact, oneLine } from "./text.ts";

/** A file with unreviewed hunks, as the chat lists it. */
export interface ChangedFile {
  readonly uri: string;
  /** Relative to its folder. */
  readonly path: string;
  readonly status: FileStatus;
  readonly added: number;
  readonly removed: number;
}

/** What the bar above the prompt box shows. */
export interface ShownChanges {
  readonly totals: ReviewTotals;
  /** At most {@link MAX_FILES}. */
  readonly files: readonly ChangedFile[];
  readonly notes: readonly string[];
  /** Number of comments that were not sent. */
  readonly comments: number;
}

/** What a rewind to the checkpoint before a prompt would do. */
export interface RewindPlan {
  readonly checkpointId: string;
  readonly title: string;
  readonly files: readonly RewoundFile[];
  /** What checkpoints do not cover. */
  readonly notes: readonly string[];
}

export interface RewoundFile extends ChangedFile {
  /** Why the rewind leaves the file unchanged. */
  readonly conflict?: string;
}

/** A comment of the user on lines that agents changed. */
export interface HunkComment {
  readonly path: string;
  /** The commented lines, from 1. */
  readonly first: number;
  readonly last: number;
  /** The change at these lines; empty if it is gone. */
  readonly diff: string;
  readonly texts: readonly string[];
}

/** A position in the list of hunks. */
export interface HunkPlace {
  readonly file: ReviewFile;
  readonly hunk: Hunk;
}

export const NO_CHANGES: ReviewListResult = {
  files: [],
  totals: { files: 0, hunks: 0, added: 0, removed: 0 },
  notes: [],
};

const MAX_FILES = 200;
/** Lines of a change in a hover or a comment. */
const MAX_DIFF = 40;

export function shownChanges(list: ReviewListResult, pathOf: (uri: string) => string, comments: number): ShownChanges {
  const files = list.files.slice(0, MAX_FILES).map((file) => changedFile(file, pathOf));
  return { totals: list.totals, files, notes: list.notes, comments };
}

export function changedFile(
  { uri, status, added, removed }: ReviewFile | PreviewFile,
  pathOf: (uri: string) => string,
): ChangedFile {
  return { uri, path: oneLine(pathOf(uri), 300), status, added, removed };
}

/** `3 files`. */
export function filesText(count: number): string {
  return count === 1 ? "1 file" : `${count} files`;
}

/** `3 changes`. */
export function changesText(count: number): string {
  return count === 1 ? "1 change" : `${count} changes`;
}

/** `+24 −7`, with a minus sign. */
export function countsText({ added, removed }: { readonly added: number; readonly removed: number }): string {
  return `+${added} −${removed}`;
}

/** Who changed a hunk, and how much: `improve the greeting +2 −1`. */
export function hunkTitle(hunk: Hunk): string {
  const counts = countsText({ added: hunk.lines.length, removed: hunk.baseLines.length });
  return [...authorsOf(hunk), hunk.note ? oneLine(hunk.note, 60) : counts, hunk.mixed ? "edited by you" : ""]
    .filter(Boolean)
    .join(" · ");
}

/** The labels of the agents that changed a hunk. */
export function authorsOf({ changes }: Hunk): readonly string[] {
  return [...new Set(changes.map(({ label }) => oneLine(label === "primary" ? "Deputy" : label, 40)))];
}

/** The lines of a hunk as a diff, with invisible characters spelled out. */
export function hunkDiff({ baseLines, lines }: Pick<Hunk, "baseLines" | "lines">): string {
  const all = [...baseLines.map((line) => `-${exact(line, "\t")}`), ...lines.map((line) => `+${exact(line, "\t")}`)];
  const more = all.length - MAX_DIFF;
  return [...all.slice(0, MAX_DIFF), ...(more > 0 ? [`… ${more} more lines`] : [])].join("\n");
}

/** The hunk at a line, counted from 0: one that contains it, or lines that were removed beside it. */
export function hunkAt(hunks: readonly Hunk[], line: number): Hunk | undefined {
  const contains = ({ range: { start, end } }: Hunk): boolean => start.line <= line && line < end.line;
  const isBeside = ({ range: { start, end } }: Hunk): boolean =>
    start.line === end.line && (start.line === line || start.line - 1 === line);
  return hunks.find(contains) ?? hunks.find(isBeside);
}

/**
 * The hunk after a place, or before it with `by` -1; after the last one comes the first. `uri` is compared as the list
 * has it; another file is followed by the first of the list.
 */
export function nextHunk(
  files: readonly ReviewFile[],
  at: { readonly uri: string; readonly line: number } | undefined,
  by: 1 | -1,
): HunkPlace | undefined {
  const all = files.flatMap((file) => file.hunks.map((hunk) => ({ file, hunk })));
  const own = files.findIndex(({ uri }) => uri === at?.uri);
  if (!at || own < 0) return by > 0 ? all[0] : all.at(-1);
  const position = ({ file, hunk }: HunkPlace): number => {
    const order = files.indexOf(file) - own;
    return order === 0 ? hunk.range.start.line - at.line : order * Infinity;
  };
  return by > 0
    ? (all.find((place) => position(place) > 0) ?? all[0])
    : (all.findLast((place) => position(place) < 0) ?? all.at(-1));
}

/** The prompt that contains the user's comments on changes. */
export function commentsPrompt(comments: readonly HunkComment[]): string {
  const parts = comments.map(({ path, first, last, diff, texts }) => {
    const lines = first === last ? `${first}` : `${first}-${last}`;
    return [`${path}:${lines}`, ...(diff ? [fenced(diff)] : []), ...texts].join("\n");
  });
  const head = parts.length === 1 ? "A comment on your change:" : "Comments on your changes:";
  return [head, ...parts].join("\n\n");
}

function fenced(diff: string): string {
  const longest = Math.max(2, ...(diff.match(/`+/g) ?? []).map((ticks) => ticks.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}diff\n${diff}\n${fence}`;
}
