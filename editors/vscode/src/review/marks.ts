/** Marks of unreviewed changes in editors: a bar beside the lines, their colour, and what was there before on hover. */
import * as vscode from "vscode";

import { spanOf } from "../editor.ts";
import type { Hunk } from "../protocol.ts";
import { hunkDiff, hunkTitle } from "../state/changes.ts";
import type { Changes } from "./changes.ts";

/** Commands that links in a mark's hover call. */
const COMMANDS = ["keep", "undo", "comment", "open"].map((verb) => `deputy.changes.${verb}`);
const MAX_MARKED = 2000;

type Kind = "added" | "modified" | "deleted";

/** Colours of the bars in dark and light themes, the editor's own colours, and the background of the lines. */
const KINDS: Readonly<Record<Kind, { dark: string; light: string; ruler: string; background?: string }>> = {
  added: {
    dark: "#2ea043",
    light: "#2ea043",
    ruler: "editorOverviewRuler.addedForeground",
    background: "diffEditor.insertedLineBackground",
  },
  modified: {
    dark: "#0078d4",
    light: "#005fb8",
    ruler: "editorOverviewRuler.modifiedForeground",
    background: "diffEditor.insertedLineBackground",
  },
  deleted: { dark: "#f85149", light: "#c72e0f", ruler: "editorOverviewRuler.deletedForeground" },
};

export class Marks implements vscode.Disposable {
  readonly #changes: Changes;
  readonly #types: Readonly<Record<Kind, vscode.TextEditorDecorationType>>;
  readonly #subscriptions: vscode.Disposable[];
  /** Editors with marks. */
  readonly #marked = new WeakSet<vscode.TextEditor>();

  constructor(changes: Changes) {
    this.#changes = changes;
    this.#types = { added: typeOf("added"), modified: typeOf("modified"), deleted: typeOf("deleted") };
    const draw = (): void => this.#draw();
    this.#subscriptions = [
      changes.onDidChange(draw),
      vscode.window.onDidChangeVisibleTextEditors(draw),
      vscode.window.onDidChangeActiveTextEditor(draw),
      ...Object.values(this.#types),
    ];
    draw();
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
  }

  #draw(): void {
    for (const editor of vscode.window.visibleTextEditors) {
      const hunks = this.#changes.fileAt(editor.document.uri)?.hunks ?? [];
      if (hunks.length === 0 && !this.#marked.has(editor)) continue;
      if (hunks.length === 0) this.#marked.delete(editor);
      else this.#marked.add(editor);
      for (const kind of Object.keys(this.#types) as Kind[]) {
        const own = hunks.slice(0, MAX_MARKED).filter((hunk) => kindOf(hunk) === kind);
        editor.setDecorations(
          this.#types[kind],
          own.map((hunk) => ({
            range: linesOf(hunk, editor.document),
            hoverMessage: hover(hunk, editor.document.uri),
          })),
        );
      }
    }
    const uri = vscode.window.activeTextEditor?.document.uri;
    const isHere = uri !== undefined && this.#changes.fileAt(uri) !== undefined;
    void vscode.commands.executeCommand("setContext", "deputy.changesHere", isHere);
    void vscode.commands.executeCommand("setContext", "deputy.changes", this.#changes.list.files.length > 0);
  }
}

function kindOf({ baseLines, lines }: Hunk): Kind {
  if (lines.length === 0) return "deleted";
  return baseLines.length === 0 ? "added" : "modified";
}

/** The lines that a mark covers: at removed lines, the line below them. */
function linesOf({ range }: Hunk, document: vscode.TextDocument): vscode.Range {
  const last = Math.max(range.start.line, range.end.line - 1);
  return document.validateRange(spanOf({ start: range.start, end: { line: last, character: 0 } }));
}

/** What the lines were before, and what can be done. Who changed them is in the server's hover. */
function hover(hunk: Hunk, uri: vscode.Uri): vscode.MarkdownString {
  const text = new vscode.MarkdownString("", true);
  text.isTrusted = { enabledCommands: COMMANDS };
  text.appendText(`To review: ${hunkTitle(hunk)}`);
  if (hunk.baseLines.length > 0) text.appendCodeblock(hunkDiff({ baseLines: hunk.baseLines, lines: [] }), "diff");
  const link = (icon: string, name: string, verb: string): string => {
    const args = encodeURIComponent(JSON.stringify([uri.toString(), hunk.hunkId]));
    return `[$(${icon}) ${name}](command:deputy.changes.${verb}?${args})`;
  };
  const links = [
    link("check", "Keep", "keep"),
    link("discard", "Undo", "undo"),
    link("comment", "Comment", "comment"),
    link("diff", "Open diff", "open"),
  ];
  text.appendMarkdown(`\n\n${links.join("&nbsp;&nbsp;&nbsp;")}`);
  return text;
}

function typeOf(kind: Kind): vscode.TextEditorDecorationType {
  const { dark, light, ruler, background } = KINDS[kind];
  return vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    overviewRulerColor: new vscode.ThemeColor(ruler),
    overviewRulerLane: vscode.OverviewRulerLane.Left,
    gutterIconSize: "contain",
    rangeBehavior: vscode.DecorationRangeBehavior.ClosedClosed,
    ...(background && { backgroundColor: new vscode.ThemeColor(background) }),
    dark: { gutterIconPath: bar(kind, dark) },
    light: { gutterIconPath: bar(kind, light) },
  });
}

/** A bar beside changed lines; a wedge at the place of removed ones. */
function bar(kind: Kind, colour: string): vscode.Uri {
  const shape = kind === "deleted" ? `<path d="M6 0 L12 0 L6 6 Z"` : `<rect x="6" width="4" height="16"`;
  const image = `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16">${shape} fill="${colour}"/></svg>`;
  return vscode.Uri.parse(`data:image/svg+xml;base64,${Buffer.from(image).toString("base64")}`);
}
