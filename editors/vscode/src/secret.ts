/** The key of the Messages API, in the editor's secret storage. It reaches the server by its environment alone. */
import * as vscode from "vscode";

const NAME = "deputy.apiKey";
const VARIABLE = "ANTHROPIC_API_KEY";

export class ApiKey {
  readonly #secrets: vscode.SecretStorage;

  constructor(secrets: vscode.SecretStorage) {
    this.#secrets = secrets;
  }

  /** Tells that the key was changed, in this window or another one. */
  onDidChange(listener: () => void): vscode.Disposable {
    return this.#secrets.onDidChange((event) => {
      if (event.key === NAME) listener();
    });
  }

  /** The variables that the server's process gets. */
  async environment(): Promise<Readonly<Record<string, string>>> {
    const key = await this.#secrets.get(NAME);
    return key ? { [VARIABLE]: key } : {};
  }

  /** Asks for the key and keeps it; closing the box changes nothing, an empty answer forgets it. */
  async ask(): Promise<void> {
    const key = await vscode.window.showInputBox({
      title: "Key for the Messages API",
      prompt: "Kept in the secret storage of the editor, never in settings. Leave it empty to forget the key.",
      password: true,
      ignoreFocusOut: true,
    });
    const kept = await this.#secrets.get(NAME);
    if (key === undefined || key.trim() === (kept ?? "")) return;
    if (key.trim()) await this.#secrets.store(NAME, key.trim());
    else if ((await vscode.window.showWarningMessage("Forget the key?", { modal: true }, "Forget")) === "Forget")
      await this.#secrets.delete(NAME);
  }
}
