/** The key of the Messages API, in the editor's secret storage. The server gets it only in its environment. */
import * as vscode from "vscode";

const NAME = "deputy.apiKey";
const VARIABLE = "ANTHROPIC_API_KEY";

export class ApiKey {
  readonly #secrets: vscode.SecretStorage;

  constructor(secrets: vscode.SecretStorage) {
    this.#secrets = secrets;
  }

  /** Calls the listener when the key changes, in this window or another one. */
  onDidChange(listener: () => void): vscode.Disposable {
    return this.#secrets.onDidChange((event) => {
      if (event.key === NAME) listener();
    });
  }

  /** Environment variables for the server's process. */
  async environment(): Promise<Readonly<Record<string, string>>> {
    const key = await this.#secrets.get(NAME);
    return key ? { [VARIABLE]: key } : {};
  }

  /** Asks for the key and stores it. Closing the box changes nothing; an empty answer deletes the key. */
  async ask(): Promise<void> {
    const key = await vscode.window.showInputBox({
      title: "Key for the Messages API",
      prompt: "Stored in the secret storage of the editor, never in settings. Leave empty to delete the key.",
      password: true,
      ignoreFocusOut: true,
    });
    const stored = await this.#secrets.get(NAME);
    if (key === undefined || key.trim() === (stored ?? "")) return;
    if (key.trim()) await this.#secrets.store(NAME, key.trim());
    else if ((await vscode.window.showWarningMessage("Delete the API key?", { modal: true }, "Delete")) === "Delete")
      await this.#secrets.delete(NAME);
  }
}
