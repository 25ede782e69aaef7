/** Proposed changes: their hunks, and the user's edits. */
import { structuredPatch } from "diff";

import type { DiffPreview, PermissionOption, PermissionRequest, RuleScope } from "../protocol.ts";
import { hunkLines } from "./diff.ts";
import { hasEditedEscapes, linesOf, plain, shownSides } from "./shown.ts";
import { exact, hides, oneLine, pathOf } from "./text.ts";

/** A difference between proposal and file. Lines count from 0; a range may be empty. */
export interface Hunk {
  readonly oldStart: number;
  readonly oldCount: number;
  readonly newStart: number;
  readonly newCount: number;
}

/** A change with its complete texts. */
export type WholeDiff = DiffPreview & { readonly newText: string };

export type DiffRequest = PermissionRequest & { readonly preview: WholeDiff };

/** Whether the request has a change with its complete texts, which can be shown at the code and edited. */
export function isDiff(request: PermissionRequest): request is DiffRequest {
  return request.preview?.type === "diff" && request.preview.newText !== undefined;
}

/** Whether the request has a change of a file that is so large that its texts must be requested. */
export function isLargeDiff(request: PermissionRequest): boolean {
  return request.preview?.type === "diff" && !isDiff(request);
}

/** What a request does, if it is neither a command nor a change with complete texts. */
export function plainPreview({ preview, input }: PermissionRequest): string {
  if (preview?.type === "text") return preview.text;
  if (preview?.type !== "diff") return JSON.stringify(input, null, 2);
  const note = "The change is too large to be shown completely. Open the diff to see all of it.";
  return [...hunkLines(preview.hunks ?? []), ...(preview.truncated ? [note] : [])].join("\n");
}

/**
 * Whether the change has a location in a text editor. Changes of open notebooks and of new files have none.
 */
export function hasPlace(request: PermissionRequest): request is DiffRequest {
  return isDiff(request) && request.preview.oldText !== null && !isOpenNotebook(request.preview);
}

/** Whether the change applies to a notebook's cells. Agents see a notebook that is not open as the JSON on disk. */
export function isOpenNotebook(preview: DiffPreview): boolean {
  return isNotebook(preview.uri) && (preview.oldText?.startsWith("# %%") ?? false);
}

/** Suffix for the files of a notebook's proposal, so that they open in a text editor. */
export function textSuffix(preview: DiffPreview): string {
  if (!isNotebook(preview.uri)) return "";
  return isOpenNotebook(preview) ? ".py" : ".json";
}

function isNotebook(path: string): boolean {
  return path.endsWith(".ipynb");
}

/** How a file differs from what the agent read. */
export type Stale = "changed" | "gone";

/** Explanation for the user. */
export const STALE: Readonly<Record<Stale, string>> = {
  changed: "The file has changed since. The agent must read it again and ask again.",
  gone: "The file no longer exists, so nothing can be written to it.",
};

/** The title of a request in a list. */
export function briefTitle(request: PermissionRequest): string {
  return oneLine(withoutLabel(request), 80);
}

/**
 * Whether a request can be approved where only its title is visible. This is so for a change, which is shown at its
 * code, and for a short command, which is in its title. Anything else must be viewed first, such as a cut command, one
 * with invisible characters, or the start of an MCP server.
 */
export function isSeenByTitle(request: PermissionRequest): boolean {
  return isSeenIn(briefTitle(request), request);
}

/** Maximum characters of a command in a dialog. */
const MAX_IN_DIALOG = 400;

/** The text of a request in a dialog: a command in full, unless it is very long. */
export function inList(request: PermissionRequest): string {
  const { preview } = request;
  if (preview?.type !== "command") return briefTitle(request);
  return `${oneLine(preview.command, MAX_IN_DIALOG)} (in ${pathOf(preview.cwd)})`;
}

/** Whether a dialog shows everything that must be visible of a request. */
export function isSeenInList(request: PermissionRequest): boolean {
  return isSeenIn(inList(request), request);
}

function isSeenIn(shown: string, request: PermissionRequest): boolean {
  const { tool, preview } = request;
  if (preview?.type !== "command") return isDiff(request);
  return tool === "shell" && !hides(preview.command) && shown.includes(preview.command);
}

/** The request's title without its agent's label, which is shown beside it. */
export function withoutLabel({ title, agent }: PermissionRequest): string {
  return title.replace(`[${agent.label}] `, "");
}

/** Maximum characters of a rule that the label of its answer contains. */
const MAX_IN_LABEL = 60;

/**
 * The rules that must be listed completely before the answer can be given, because its label does not contain them:
 * several, or a long one. A lasting answer about one file is named after that file.
 */
export function rulesToList(request: PermissionRequest, { rules = [] }: PermissionOption): readonly string[] {
  const [first = "", ...others] = rules.map((rule) => exact(rule, ""));
  const isInLabel = others.length === 0 && (isDiff(request) || first.length <= MAX_IN_LABEL);
  return isInLabel ? [] : [first, ...others];
}

/** The label of an answer: complete, or shown below {@link rulesToList}. */
export function nameOfOption(request: PermissionRequest, option: PermissionOption): string {
  const { kind, name } = option;
  const { length } = rulesToList(request, option);
  if (length > 0) return `${verbOf(option)} ${length === 1 ? "this rule" : `these ${String(length)} rules`}`;
  const isOfSession = (option.scope ?? "session") === "session";
  if (isDiff(request) && kind === "allow_always" && isOfSession) return "Approve for this file";
  if (isDiff(request) && kind === "reject_always") return "Deny for this file";
  return exact(name, "");
}

/** The title of the fold that contains the rules of an answer and its button. */
export function titleOfRules(option: PermissionOption): string {
  const { rules = [] } = option;
  return `${verbOf(option)}… (${rules.length === 1 ? "1 rule" : `${String(rules.length)} rules`})`;
}

/** What an answer does, without its rules. */
function verbOf({ kind, scope = "session" }: PermissionOption): string {
  if (kind === "allow_always") return VERBS[scope];
  return { allow_once: "Approve", reject_once: "Deny", reject_always: "Deny in this session" }[kind];
}

const VERBS: Readonly<Record<RuleScope, string>> = {
  once: "Approve",
  session: "Allow in this session",
  project: "Allow in this project",
  user: "Always allow",
};

export function hunksOf(before: string, after: string): readonly Hunk[] {
  // An empty side has the line number of the line before it.
  return structuredPatch("", "", before, after, "", "", { context: 0 }).hunks.map((hunk) => ({
    oldStart: hunk.oldLines === 0 ? hunk.oldStart : hunk.oldStart - 1,
    oldCount: hunk.oldLines,
    newStart: hunk.newLines === 0 ? hunk.newStart : hunk.newStart - 1,
    newCount: hunk.newLines,
  }));
}

/** The proposal `after` without the change of one hunk. */
export function withoutHunk(before: string, after: string, hunk: Hunk): string {
  const kept = linesOf(before).slice(hunk.oldStart, hunk.oldStart + hunk.oldCount);
  return linesOf(after)
    .toSpliced(hunk.newStart, hunk.newCount, ...kept)
    .join("");
}

export interface DiffText {
  /** Empty if nothing changes. */
  readonly text: string;
  /** Number of omitted lines. */
  readonly more: number;
}

/** The change as a unified diff without file headers, at most `limit` lines, with invisible characters spelled out. */
export function diffText(preview: WholeDiff, limit = 400): DiffText {
  const { before, after } = shownSides(preview);
  const { hunks } = structuredPatch("", "", plain(before), plain(after), "", "", { context: 2 });
  const lines = hunks
    .flatMap((hunk) => [`@@ -${hunk.oldStart},${hunk.oldLines} +${hunk.newStart},${hunk.newLines} @@`, ...hunk.lines])
    .filter((line) => !line.startsWith("\\"));
  return { text: lines.slice(0, limit).join("\n"), more: Math.max(0, lines.length - limit) };
}

/**
 * The tool input that results in `text`, the edited proposal; undefined if it equals the proposal.
 *
 * @throws Error if nothing would change, or if the tool's input cannot be derived from a text.
 */
export function editedInput(request: DiffRequest, text: string): Readonly<Record<string, unknown>> | undefined {
  const { oldText, newText } = request.preview;
  if (text === newText) return undefined;
  if (text === oldText) throw new Error("No proposed change is left: deny it instead.");
  if (hasEditedEscapes(request.preview, text)) {
    throw new Error("Lines with invisible characters cannot be edited here. Restore them, or deny the change.");
  }
  if (request.tool === "write_file") return { ...request.input, content: text };
  if (request.tool === "edit_file" && oldText) {
    const { replace_all: _, ...input } = request.input;
    const edit = replacement(oldText, text);
    // Invalid UTF-8 bytes are shown as this character, which is not in the file.
    if (edit.old_string.includes("\uFFFD"))
      throw new Error("Lines with bytes that are not text cannot be edited here. Restore them, or deny the change.");
    return { ...input, ...edit };
  }
  throw new Error(`A proposal of ${request.tool} cannot be edited. Approve or deny it.`);
}

/** The first changed line in the file, from 0. */
export function firstLine(request: DiffRequest): number {
  const { oldText, newText } = request.preview;
  if (oldText === null) return 0;
  const hunk = hunksOf(oldText, newText)[0];
  if (!hunk) return 0;
  const above = hunk.oldCount === 0 ? Math.max(0, hunk.oldStart - 1) : hunk.oldStart;
  // For an editor a carriage return ends a line too.
  return (
    linesOf(oldText)
      .slice(0, above)
      .join("")
      .match(/\r\n|\r|\n/g)?.length ?? 0
  );
}

/** The smallest run of whole lines that contains every difference and occurs once in `before`. */
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
