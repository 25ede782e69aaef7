/** What the editor knows and agents may ask for: diagnostics; and the selection as something to ask about. */
import * as vscode from "vscode";

import type { DiagnosticsParams, DiagnosticsResult } from "./protocol.ts";
import type { Mention } from "./page/messages.ts";

const SEVERITY = {
  [vscode.DiagnosticSeverity.Error]: 1,
  [vscode.DiagnosticSeverity.Warning]: 2,
  [vscode.DiagnosticSeverity.Information]: 3,
  [vscode.DiagnosticSeverity.Hint]: 4,
} as const;

/** The diagnostics of all languages, whoever found them. */
export function diagnostics({ uris }: DiagnosticsParams): DiagnosticsResult {
  const found = uris
    ? uris.map((uri) => [uri, vscode.languages.getDiagnostics(vscode.Uri.parse(uri))] as const)
    : vscode.languages.getDiagnostics().map(([uri, list]) => [uri.toString(), list] as const);
  return { items: found.map(([uri, list]) => ({ uri, diagnostics: list.map(plain) })) };
}

function plain(diagnostic: vscode.Diagnostic): DiagnosticsResult["items"][number]["diagnostics"][number] {
  const code = typeof diagnostic.code === "object" ? diagnostic.code.value : diagnostic.code;
  return {
    range: rangeOf(diagnostic.range),
    message: diagnostic.message,
    severity: SEVERITY[diagnostic.severity],
    ...(code !== undefined && { code }),
    ...(diagnostic.source !== undefined && { source: diagnostic.source }),
  };
}

/** The selection of an editor, or the whole file when nothing is selected. */
export function mentionOf(uri: vscode.Uri, selection?: vscode.Range): Mention {
  const name = vscode.workspace.asRelativePath(uri, false);
  if (!selection || selection.isEmpty) return { uri: uri.toString(), label: name };
  const [first, last] = [selection.start.line + 1, selection.end.line + (selection.end.character === 0 ? 0 : 1)];
  const lines = first >= last ? `${first}` : `${first}-${last}`;
  return { uri: uri.toString(), label: `${name}:${lines}`, range: rangeOf(selection) };
}

/** Offers "Ask Deputy" on a selection, and "Ask Deputy to fix" on diagnostics. */
export class Actions implements vscode.CodeActionProvider {
  provideCodeActions(
    document: vscode.TextDocument,
    range: vscode.Range,
    context: vscode.CodeActionContext,
  ): vscode.CodeAction[] {
    const actions: vscode.CodeAction[] = [];
    if (context.diagnostics.length) {
      const fix = new vscode.CodeAction("Ask Deputy to fix", vscode.CodeActionKind.QuickFix);
      fix.diagnostics = [...context.diagnostics];
      const problems = context.diagnostics.map(({ message, range: at }) => ({ message, line: at.start.line + 1 }));
      const all = context.diagnostics.map((diagnostic) => diagnostic.range).reduce((one, other) => one.union(other));
      fix.command = { title: fix.title, command: "deputy.fix", arguments: [document.uri, rangeOf(all), problems] };
      actions.push(fix);
    }
    if (!range.isEmpty) {
      const ask = new vscode.CodeAction("Ask Deputy about the selection", vscode.CodeActionKind.RefactorRewrite);
      ask.command = { title: ask.title, command: "deputy.askSelection" };
      actions.push(ask);
    }
    return actions;
  }
}

function rangeOf({ start, end }: vscode.Range): { start: Place; end: Place } {
  return {
    start: { line: start.line, character: start.character },
    end: { line: end.line, character: end.character },
  };
}

interface Place {
  readonly line: number;
  readonly character: number;
}
