/** Finding and installing the server, for this window: the state, and the user's actions on it. */
import { homedir } from "node:os";
import { join } from "node:path";
import * as vscode from "vscode";

import { launchSettings } from "../settings.ts";
import { type Bundle, installedCommand, readBundle, removeAll, removeUnused } from "./bundle.ts";
import { type Card, cardOf } from "./card.ts";
import { findServer, type Launch } from "./find.ts";
import { install } from "./installation.ts";
import { INITIAL, next, type SetupEvent, type SetupState, type Tool } from "./machine.ts";
import { findTool, foldersOf } from "./tools.ts";

/** There is no server. The chat shows why, and what to do. */
export class NoServer extends Error {}

/** Phases that end without the extension when the user installs something. */
const WAITS_FOR_USER: ReadonlySet<string> = new Set(["missing", "no_python", "wrong_version"]);

export class Setup implements vscode.Disposable {
  readonly #context: vscode.ExtensionContext;
  readonly #log: vscode.LogOutputChannel;
  readonly #changes = new vscode.EventEmitter<void>();
  readonly #bundle: Promise<Bundle>;
  readonly #subscription: vscode.Disposable;
  #state = INITIAL;
  #cancel: AbortController | undefined;
  #installing: Promise<void> | undefined;

  /** Fires when the state changes. */
  readonly onDidChange = this.#changes.event;

  constructor(context: vscode.ExtensionContext, log: vscode.LogOutputChannel) {
    this.#context = context;
    this.#log = log;
    this.#bundle = readBundle(join(context.extensionPath, "dist", "server"));
    this.#bundle.catch((error: unknown) => log.warn(String(error)));
    this.#subscription = vscode.window.onDidChangeWindowState(({ focused }) => {
      // Another window, or the user in a terminal, may have installed it.
      if (focused && WAITS_FOR_USER.has(this.#state.phase)) void this.check();
    });
  }

  get state(): SetupState {
    return this.#state;
  }

  /** What the chat shows; undefined if a server was found. */
  get card(): Card | undefined {
    return cardOf(this.#state, { version: this.#version, remote: vscode.env.remoteName, home: homedir() });
  }

  /** Searches for a server and for what could install one. */
  async check(): Promise<void> {
    await this.#search();
  }

  /**
   * The command line of the server.
   *
   * @throws NoServer if there is none.
   */
  async locate(): Promise<Launch> {
    const launch = await this.#search();
    if (launch) return launch;
    const { title = "Deputy's server is not installed", text = "" } = this.card ?? {};
    throw new NoServer(`${title}. ${text}`);
  }

  /** What can install the server. */
  findTool(): Promise<Tool | undefined> {
    return findTool([...foldersOf(), join(this.#storage, "uv")]);
  }

  /** Installs the server, or repairs it, by that tool; undefined to download uv first. The user has agreed to it. */
  install(tool: Tool | undefined): Promise<void> {
    this.#installing ??= this.#install(tool).finally(() => (this.#installing = undefined));
    return this.#installing;
  }

  cancel(): void {
    this.#cancel?.abort();
  }

  /** Removes what was installed. No server of it may run in this window. */
  async remove(): Promise<void> {
    await removeAll(this.#storage);
    await this.check();
  }

  dispose(): void {
    this.cancel();
    this.#subscription.dispose();
    this.#changes.dispose();
  }

  get #version(): string {
    return (this.#context.extension.packageJSON as { readonly version: string }).version;
  }

  get #storage(): string {
    return this.#context.globalStorageUri.fsPath;
  }

  async #search(): Promise<Launch | undefined> {
    if (this.#state.phase === "installing") return undefined;
    const installed = async (): Promise<string | undefined> => {
      const bundle = await this.#bundle.catch(() => undefined);
      return bundle && installedCommand(bundle, this.#storage);
    };
    const found = await findServer(launchSettings(), { version: this.#version, installed });
    if (found.type === "found" || found.type === "invalid") {
      this.#emit(found);
      return found.type === "found" ? found.launch : undefined;
    }
    const tool = await this.findTool();
    if (found.type === "mismatch") this.#emit({ ...found, tool });
    else this.#emit(tool ? { type: "absent", tool } : { type: "no_python" });
    return undefined;
  }

  async #install(tool: Tool | undefined): Promise<void> {
    this.#emit({ type: "install", tool });
    if (this.#state.phase !== "installing") return;
    this.#cancel = new AbortController();
    try {
      const bundle = await this.#bundle;
      await install({
        bundle,
        storage: this.#storage,
        tool,
        environment: proxySettings(),
        log: (line) => this.#log.info(line),
        emit: (event) => this.#emit(event),
        cancel: this.#cancel.signal,
      });
      await removeUnused(bundle, this.#storage);
    } catch (error) {
      this.#emit({ type: "failed", cause: "other", message: error instanceof Error ? error.message : String(error) });
    }
    if (this.#phase === "checking") await this.check();
  }

  /** The phase now: the compiler takes `#state.phase` for what it was before the installation. */
  get #phase(): SetupState["phase"] {
    return this.#state.phase;
  }

  #emit(event: SetupEvent): void {
    const state = next(this.#state, event);
    if (state === this.#state) return;
    if (event.type === "failed") this.#log.error(`${event.cause}: ${event.message}`);
    this.#state = state;
    void vscode.commands.executeCommand("setContext", "deputy.setup", state.phase);
    this.#changes.fire();
  }
}

/** The editor's proxy for the programs that download. Theirs, in the environment, has precedence. */
function proxySettings(): Readonly<Record<string, string>> {
  const proxy = vscode.workspace.getConfiguration("http").get<string>("proxy");
  const isSet = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"].some((name) => process.env[name]);
  return proxy && !isSet ? { HTTPS_PROXY: proxy, HTTP_PROXY: proxy } : {};
}
