/** Queries to the editor's language servers for agents: diagnostics, locations, symbols. */
import * as vscode from "vscode";

import { rangeOf } from "./editor.ts";
import type {
  Diagnostic,
  DiagnosticsParams,
  DiagnosticsResult,
  HoverResult,
  Spot,
  SpotParams,
  SpotsResult,
  Symbol as FoundSymbol,
  SymbolsParams,
  SymbolsResult,
} from "./protocol.ts";

const SEVERITY = {
  [vscode.DiagnosticSeverity.Error]: 1,
  [vscode.DiagnosticSeverity.Warning]: 2,
  [vscode.DiagnosticSeverity.Information]: 3,
  [vscode.DiagnosticSeverity.Hint]: 4,
} as const;

/** Milliseconds to wait for diagnostics of further language servers after the first. */
const FOLLOWING = 100;

/** The diagnostics of all sources. */
export async function diagnostics({ uris, wait }: DiagnosticsParams): Promise<DiagnosticsResult> {
  if (uris && wait) await awaitDiagnostics(new Set(uris.map(plainUri)), wait * 1_000);
  const found = uris
    ? uris.map((uri) => [uri, vscode.languages.getDiagnostics(vscode.Uri.parse(uri))] as const)
    : vscode.languages.getDiagnostics().map(([uri, list]) => [uri.toString(), list] as const);
  return { items: found.map(([uri, list]) => ({ uri, diagnostics: list.map(plain) })) };
}

/** Resolves when language servers have checked the new text of these files, or after a time limit. */
async function awaitDiagnostics(uris: ReadonlySet<string>, milliseconds: number): Promise<void> {
  if (!vscode.workspace.textDocuments.some((document) => uris.has(document.uri.toString()))) return;
  await new Promise<void>((resolve) => {
    const done = () => {
      listening.dispose();
      clearTimeout(limit);
      resolve();
    };
    const limit = setTimeout(done, milliseconds);
    const listening = vscode.languages.onDidChangeDiagnostics((event) => {
      if (event.uris.some((uri) => uris.has(uri.toString()))) setTimeout(done, FOLLOWING);
    });
  });
}

export async function definition(params: SpotParams): Promise<SpotsResult> {
  return { items: await spots("vscode.executeDefinitionProvider", params) };
}

export async function references(params: SpotParams): Promise<SpotsResult> {
  return { items: await spots("vscode.executeReferenceProvider", params) };
}

export async function hover({ uri, position }: SpotParams): Promise<HoverResult> {
  const found = await run<vscode.Hover>("vscode.executeHoverProvider", vscode.Uri.parse(uri), positionOf(position));
  const text = found.flatMap(({ contents }) => contents.map(markdown)).join("\n\n");
  return text ? { text } : {};
}

export async function symbols({ uri, query }: SymbolsParams): Promise<SymbolsResult> {
  if (uri !== undefined) {
    const at = vscode.Uri.parse(uri);
    const found = await run<vscode.DocumentSymbol | vscode.SymbolInformation>(
      "vscode.executeDocumentSymbolProvider",
      at,
    );
    return { items: found.flatMap((one) => inner(one, uri)) };
  }
  const found = await run<vscode.SymbolInformation>("vscode.executeWorkspaceSymbolProvider", query ?? "");
  return { items: found.flatMap((one) => inner(one, one.location.uri.toString())) };
}

function inner(one: vscode.DocumentSymbol | vscode.SymbolInformation, uri: string, container?: string): FoundSymbol[] {
  const around = "containerName" in one && one.containerName ? one.containerName : container;
  const range = rangeOf("selectionRange" in one ? one.selectionRange : one.location.range);
  const itself = { uri, range, name: one.name, kind: one.kind + 1, ...(around && { container: around }) };
  const below = "children" in one ? one.children.flatMap((child) => inner(child, uri, one.name)) : [];
  return [itself, ...below];
}

async function spots(command: string, { uri, position }: SpotParams): Promise<Spot[]> {
  const found = await run<vscode.Location | vscode.LocationLink>(command, vscode.Uri.parse(uri), positionOf(position));
  return found.map((one) =>
    "targetUri" in one
      ? { uri: one.targetUri.toString(), range: rangeOf(one.targetSelectionRange ?? one.targetRange) }
      : { uri: one.uri.toString(), range: rangeOf(one.range) },
  );
}

async function run<T>(command: string, ...rest: unknown[]): Promise<readonly T[]> {
  return (await vscode.commands.executeCommand<readonly T[] | undefined>(command, ...rest)) ?? [];
}

function plain(diagnostic: vscode.Diagnostic): Diagnostic {
  const code = typeof diagnostic.code === "object" ? diagnostic.code.value : diagnostic.code;
  return {
    range: rangeOf(diagnostic.range),
    message: diagnostic.message,
    severity: SEVERITY[diagnostic.severity],
    ...(code !== undefined && { code }),
    ...(diagnostic.source !== undefined && { source: diagnostic.source }),
  };
}

/** The content of a hover as Markdown. */
function markdown(content: vscode.Hover["contents"][number]): string {
  if (typeof content === "string") return content;
  const { value, language } = content as { readonly value: string; readonly language?: string };
  return language ? `\`\`\`${language}\n${value}\n\`\`\`` : value;
}

function plainUri(uri: string): string {
  return vscode.Uri.parse(uri).toString();
}

function positionOf({ line, character }: { readonly line: number; readonly character: number }): vscode.Position {
  return new vscode.Position(line, character);
}
