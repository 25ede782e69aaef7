/** Proposed changes: their hunks, and what the user made of them. */
import { diffArrays, structuredPatch } from "diff";

import type { DiffPreview, PermissionOption, PermissionRequest } from "../protocol.ts";
import { hides, oneLine, pathOf, visible } from "./words.ts";

/** A place where proposal and file differ. Lines count from 0; a range without lines is empty. */
export interface Hunk {
  readonly oldStart: number;
  readonly oldCount: number;
  readonly newStart: number;
  readonly newCount: number;
}

export type DiffRequest = PermissionRequest & { readonly preview: DiffPreview };

export function isDiff(request: PermissionRequest): request is DiffRequest {
  return request.preview?.type === "diff";
}

/**
 * Whether there is a place in an editor of text where the change would be made. There is none in an open notebook, nor
 * of a new file.
 */
export function hasPlace(request: PermissionRequest): request is DiffRequest {
  return isDiff(request) && request.preview.oldText !== null && !isOpenNotebook(request.preview);
}

/** Whether the change is one of a notebook's cells. Of a notebook that is not open agents see what is on disk, JSON. */
export function isOpenNotebook(preview: DiffPreview): boolean {
  return isNotebook(preview.uri) && (preview.oldText?.startsWith("# %%") ?? false);
}

/** What the texts of a proposal end in, so that they open as texts: in an editor of notebooks they could not. */
export function textSuffix(preview: DiffPreview): string {
  if (!isNotebook(preview.uri)) return "";
  return isOpenNotebook(preview) ? ".py" : ".json";
}

function isNotebook(path: string): boolean {
  return path.endsWith(".ipynb");
}

/** How the file of a question is another one than that which the agent has read. */
export type Stale = "changed" | "gone";

/** What that means for the user. */
export const STALE: Readonly<Record<Stale, string>> = {
  changed: "The file has changed since: the agent has to read it again, and ask anew.",
  gone: "The file is not there any more: nothing can be written to it.",
};

/** A text without what editors may have another way: a mark at its beginning, and how its lines end. */
export function plain(text: string): string {
  return text.replace(/^\uFEFF/, "").replaceAll("\r\n", "\n");
}

/**
 * `text`, in which an editor has made all lines end alike, with the ends that the lines of `proposal` have: nobody has
 * changed those.
 */
export function withEndsOf(proposal: string, text: string): string {
  const [from, to] = [linesOf(proposal), linesOf(text)];
  const isMixed = from.some((line) => line.endsWith("\r\n")) && from.some((line) => /(^|[^\r])\n$/.test(line));
  if (!isMixed) return text;
  let [old, now] = [0, 0];
  const lines = diffArrays(from.map(plain), to.map(plain)).flatMap(({ added, removed, value }) => {
    const [kept, typed] = [from.slice(old, old + value.length), to.slice(now, now + value.length)];
    if (!added) old += value.length;
    if (!removed) now += value.length;
    return added ? typed : removed ? [] : kept;
  });
  return lines.join("");
}

/** What a list says of a question, and all that is seen of it there. */
export function briefTitle(request: PermissionRequest): string {
  return oneLine(withoutLabel(request), 80);
}

/**
 * Whether a question can be answered with yes where only its title stands: a change is shown at its code, and a short
 * command is in its title. What else is asked, such as a command that is cut there or has characters that do not show,
 * or the start of a program that gives agents tools, has to be looked at.
 */
export function isSeenByTitle(request: PermissionRequest): boolean {
  return isSeenIn(briefTitle(request), request);
}

/** Characters of a command that a dialog shows. */
const MAX_IN_DIALOG = 400;

/** What a dialog says of a question: a command whole, if it is not very long. */
export function inList(request: PermissionRequest): string {
  const { preview } = request;
  if (preview?.type !== "command") return briefTitle(request);
  return `${oneLine(preview.command, MAX_IN_DIALOG)} (in ${pathOf(preview.cwd)})`;
}

/** Whether all that has to be seen of a question stands in such a list. */
export function isSeenInList(request: PermissionRequest): boolean {
  return isSeenIn(inList(request), request);
}

function isSeenIn(words: string, request: PermissionRequest): boolean {
  const { tool, preview } = request;
  if (preview?.type !== "command") return isDiff(request);
  return tool === "shell" && !hides(preview.command) && words.includes(preview.command);
}

/** The question's title without the label of its agent, where that stands beside it. */
export function withoutLabel({ title, agent }: PermissionRequest): string {
  return title.replace(`[${agent.label}] `, "");
}

/** What an answer is called wherever it is offered. The rule that a lasting one makes is the option's own name. */
export function nameOfOption(request: PermissionRequest, { kind, name }: PermissionOption): string {
  if (isDiff(request) && kind === "allow_always") return "Approve for this file";
  if (isDiff(request) && kind === "reject_always") return "Deny for this file";
  return oneLine(name, 200);
}

export function hunksOf(before: string, after: string): readonly Hunk[] {
  // The line number of an empty side is that of the line before it.
  return structuredPatch("", "", before, after, "", "", { context: 0 }).hunks.map((hunk) => ({
    oldStart: hunk.oldLines === 0 ? hunk.oldStart : hunk.oldStart - 1,
    oldCount: hunk.oldLines,
    newStart: hunk.newLines === 0 ? hunk.newStart : hunk.newStart - 1,
    newCount: hunk.newLines,
  }));
}

/** The proposal `after`, with the lines of one hunk as they were. */
export function withoutHunk(before: string, after: string, hunk: Hunk): string {
  const kept = linesOf(before).slice(hunk.oldStart, hunk.oldStart + hunk.oldCount);
  return linesOf(after)
    .toSpliced(hunk.newStart, hunk.newCount, ...kept)
    .join("");
}

export interface DiffText {
  /** Empty when nothing would change. */
  readonly text: string;
  /** Lines that are left out. */
  readonly more: number;
}

/** The change as lines of a unified diff without file headers, at most `limit` of them, safe to look at. */
export function diffText({ oldText, newText }: DiffPreview, limit = 400): DiffText {
  const { hunks } = structuredPatch("", "", oldText ?? "", newText, "", "", { context: 2 });
  const lines = hunks
    .flatMap((hunk) => [
      `@@ -${hunk.oldStart},${hunk.oldLines} +${hunk.newStart},${hunk.newLines} @@`,
      ...hunk.lines.map((line) => line.replaceAll("\r", "")),
    ])
    .filter((line) => !line.startsWith("\\"));
  return { text: visible(lines.slice(0, limit).join("\n")), more: Math.max(0, lines.length - limit) };
}

/**
 * The tool's input that leads to `text`, which the user made of the proposal; undefined when it is the proposal.
 *
 * @throws Error for a tool whose input cannot be worked out from a text, or when nothing would change.
 */
export function editedInput(request: DiffRequest, text: string): Readonly<Record<string, unknown>> | undefined {
  const { oldText, newText } = request.preview;
  if (text === newText) return undefined;
  if (text === oldText) throw new Error("Nothing of the proposal is left: deny it instead.");
  if (request.tool === "write_file") return { ...request.input, content: text };
  if (request.tool === "edit_file" && oldText) {
    const { replace_all: _, ...input } = request.input;
    const edit = replacement(oldText, text);
    // What is no character of UTF-8 is shown as this sign, which is not in the file.
    if (edit.old_string.includes("\uFFFD"))
      throw new Error("Lines with bytes that are no text cannot be changed here: put them back, or deny the change.");
    return { ...input, ...edit };
  }
  throw new Error(`A proposal of ${request.tool} cannot be changed; approve or deny it.`);
}

/** The first line in the file that changes, from 0. */
export function firstLine(request: DiffRequest): number {
  const { oldText, newText } = request.preview;
  if (oldText === null) return 0;
  const hunk = hunksOf(oldText, newText)[0];
  if (!hunk) return 0;
  return hunk.oldCount === 0 ? Math.max(0, hunk.oldStart - 1) : hunk.oldStart;
}

/** The smallest run of whole lines that holds every difference and occurs once in `before`. */
function replacement(before: string, after: string): { old_string: string; new_string: string } {
  const [from, to] = [linesOf(before), linesOf(after)];
  let start = 0;
  while (start < from.length && start < to.length && from[start] === to[start]) start++;
  let end = 0;
  const room = Math.min(from.length, to.length) - start;
  while (end < room && from[from.length - 1 - end] === to[to.length - 1 - end]) end++;
  for (;;) {
    const old = from.slice(start, from.length - end).join("");
    if (occursOnce(before, old) || (start === 0 && end === 0)) {
      return { old_string: old, new_string: to.slice(start, to.length - end).join("") };
    }
    if (start > 0) start--;
    if (end > 0) end--;
  }
}

function occursOnce(text: string, part: string): boolean {
  const first = part === "" ? -1 : text.indexOf(part);
  return first >= 0 && !text.includes(part, first + 1);
}

/** Lines with their ends. */
function linesOf(text: string): readonly string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}
