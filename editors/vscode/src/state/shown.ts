/**
 * The two sides of a proposed change as an editor shows them. Editors do not show a carriage return within a line, and
 * other invisible characters only with certain settings; so here they are spelled out. The file keeps its own characters.
 */
import { diffArrays } from "diff";

import type { DiffPreview } from "../protocol.ts";
import { exact } from "./text.ts";

type Texts = Pick<DiffPreview, "oldText"> & { readonly newText: string };

export interface Sides {
  readonly before: string;
  readonly after: string;
}

const known = new WeakMap<Texts, Sides>();

/** Both sides, with invisible characters spelled out. Line endings stay if all of them, on both sides, are the same. */
export function shownSides(texts: Texts): Sides {
  const found = known.get(texts) ?? computed(texts);
  known.set(texts, found);
  return found;
}

function computed(texts: Texts): Sides {
  const { oldText, newText } = texts;
  const kept = isWindowsFile(texts) ? "\r\n\t" : "\n\t";
  return { before: exact(oldText ?? "", kept), after: exact(newText, kept) };
}

/**
 * The text of the file from the text that an editor shows for the proposal, possibly edited. Lines that were not edited,
 * and lines of the old text that were restored, keep their characters; edited lines are used as they are.
 */
export function fileText(texts: Texts, shown: string): string {
  const { before, after } = shownSides(texts);
  if (shown === after) return texts.newText;
  if (after === texts.newText && before === (texts.oldText ?? "")) return shown;
  const [from, to, old] = [linesOf(texts.newText), linesOf(shown), linesOf(texts.oldText ?? "")];
  const restored = new Map(linesOf(before).map((line, index) => [line, old[index] ?? line]));
  let [at, now] = [0, 0];
  const lines = diffArrays(linesOf(after).map(plain), to.map(plain)).flatMap(({ added, removed, value }) => {
    const [kept, typed] = [from.slice(at, at + value.length), to.slice(now, now + value.length)];
    if (!added) at += value.length;
    if (!removed) now += value.length;
    return added ? typed.map((line) => restored.get(line) ?? line) : removed ? [] : kept;
  });
  return lines.join("");
}

/**
 * Whether the user edited a line in which a character is spelled out. The file would get the spelling, not the character.
 */
export function hasEditedEscapes(texts: Texts, text: string): boolean {
  const both = (texts.oldText ?? "") + texts.newText;
  const own = new Set([...linesOf(texts.oldText ?? ""), ...linesOf(texts.newText)]);
  const kept = isWindowsFile(texts) ? "\r\n\t" : "\n\t";
  return linesOf(text)
    .filter((line) => !own.has(line))
    .flatMap((line) => [...line.matchAll(/\\u\{([0-9a-f]{1,6})\}/g)])
    .map(([escape, code = ""]) => [escape, characterOf(code)])
    .some(([escape, character = ""]) => both.includes(character) && exact(character, kept) === escape);
}

/** The character with that hexadecimal code; a line break, which is never spelled out, if there is none. */
function characterOf(code: string): string {
  const point = Number.parseInt(code, 16);
  return point <= 0x10ffff ? String.fromCodePoint(point) : "\n";
}

/** A text without byte order mark and with `\n` line endings, for comparison. */
export function plain(text: string): string {
  return text.replace(/^\uFEFF/, "").replaceAll("\r\n", "\n");
}

/** Lines with their line endings. */
export function linesOf(text: string): readonly string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

/** Whether every line of both sides ends with `\r\n`. */
function isWindowsFile({ oldText, newText }: Texts): boolean {
  const isMixed = /\r(?!\n)|(?<!\r)\n/;
  return !isMixed.test(oldText ?? "") && !isMixed.test(newText);
}
