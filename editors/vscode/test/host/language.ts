/** What agents ask the editor, answered by the language features that it has. */
import assert from "node:assert/strict";
import * as vscode from "vscode";

import { answer, ask, ended, file, results, run, test } from "./support.ts";

export { run };

const NAME = new vscode.Range(3, 4, 3, 9);
const USE = new vscode.Range(7, 6, 7, 11);

/** A language with all features, as an extension brings it. */
function language(uri: vscode.Uri): vscode.Disposable {
  const python: vscode.DocumentSelector = { language: "python" };
  const [definition, use] = [new vscode.Location(uri, NAME), new vscode.Location(uri, USE)];
  const symbol = new vscode.DocumentSymbol("greet", "", vscode.SymbolKind.Function, NAME, NAME);
  const problems = vscode.languages.createDiagnosticCollection("a linter");
  problems.set(uri, [new vscode.Diagnostic(NAME, "greet is vague", vscode.DiagnosticSeverity.Warning)]);
  return vscode.Disposable.from(
    problems,
    vscode.languages.registerDefinitionProvider(python, { provideDefinition: () => definition }),
    vscode.languages.registerReferenceProvider(python, { provideReferences: () => [definition, use] }),
    vscode.languages.registerHoverProvider(python, {
      provideHover: () => new vscode.Hover(new vscode.MarkdownString("Greets **somebody**.")),
    }),
    vscode.languages.registerDocumentSymbolProvider(python, { provideDocumentSymbols: () => [symbol] }),
    vscode.languages.registerWorkspaceSymbolProvider({
      provideWorkspaceSymbols: (query) => [
        new vscode.SymbolInformation(`${query}ing`, vscode.SymbolKind.Class, "a container", definition),
      ],
    }),
  );
}

test("agents query diagnostics, locations, types and symbols of the editor", async (deputy) => {
  const uri = await file("greet.py");
  const features = language(uri);
  try {
    ask("ask the editor");
    const state = await ended(deputy);
    assert.equal(answer(state), "The editor knows.");
    assert.deepEqual(results(state, state.primaryId ?? "", "diagnostics"), ["greet.py:4: warning: greet is vague"]);
    assert.deepEqual(results(state, state.primaryId ?? "", "lookup"), [
      "greet.py:4: def greet(name: str) -> str:",
      'greet.py:4: def greet(name: str) -> str:\ngreet.py:8: print(greet("you"))',
      "Greets **somebody**.",
      "4: function greet",
      "greet.py:4: class greeting (in a container)",
    ]);
  } finally {
    features.dispose();
  }
});
