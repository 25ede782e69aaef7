/** The server's process and the connection to it. */
import * as vscode from "vscode";
import {
  type CancellationToken,
  CloseAction,
  ErrorAction,
  type ErrorHandler,
  type InitializeParams,
  LanguageClient,
  type LanguageClientOptions,
  RevealOutputChannelOn,
  State,
  type StaticFeature,
} from "vscode-languageclient/node";

import { applied } from "./edits.ts";
import { findServer, NoServer } from "./launch.ts";
import {
  type ClientRequests,
  ErrorCode,
  type EventParams,
  PROTOCOL_VERSION,
  type ServerCapabilities,
  type ServerRequests,
} from "./protocol.ts";
import type { ApiKey } from "./secret.ts";
import { launchSettings, SECTION, serverSettings } from "./settings.ts";

export type ServerState = "stopped" | "starting" | "running";

type Navigation = "diagnostics" | "definition" | "references" | "hover" | "symbols";

/** Answers to what the server asks. */
export interface Handlers {
  readonly question: Handler<"deputy/permission/request">;
  /** Answers to `deputy/editor/*`. */
  readonly language: { readonly [M in Navigation]: Handler<`deputy/editor/${M}`> };
}

type Handler<M extends keyof ServerRequests> = (
  params: ServerRequests[M]["params"],
  token: CancellationToken,
) => Promise<ServerRequests[M]["result"]> | ServerRequests[M]["result"];

const STOP_TIMEOUT = 5_000;
const RESTARTS = 3;
const RESTART_WINDOW = 3 * 60_000;

export class Server implements vscode.Disposable {
  readonly log: vscode.LogOutputChannel;
  readonly #key: ApiKey;
  readonly #handlers: Handlers;
  readonly #events = new vscode.EventEmitter<EventParams>();
  readonly #states = new vscode.EventEmitter<ServerState>();
  readonly #crashes: number[] = [];
  #client: LanguageClient | undefined;
  #starting: Promise<void> | undefined;
  #state: ServerState = "stopped";
  #capabilities: ServerCapabilities | undefined;

  readonly onEvent = this.#events.event;
  readonly onState = this.#states.event;

  constructor(key: ApiKey, handlers: Handlers) {
    this.#key = key;
    this.#handlers = handlers;
    this.log = vscode.window.createOutputChannel("Deputy", { log: true });
  }

  get state(): ServerState {
    return this.#state;
  }

  get capabilities(): ServerCapabilities | undefined {
    return this.#capabilities;
  }

  /** Whether this server answers a method. */
  has(method: keyof ClientRequests): boolean {
    return this.#capabilities?.methods.includes(method) ?? false;
  }

  /** Starts the server if it does not run; several callers start one. */
  start(): Promise<void> {
    if (this.#starting) return this.#starting;
    const starting = this.#start().catch((error: unknown) => {
      // Another one may have been started meanwhile.
      if (this.#starting === starting) {
        this.#starting = undefined;
        this.#become("stopped");
      }
      throw error;
    });
    this.#starting = starting;
    return starting;
  }

  async stop(): Promise<void> {
    const client = this.#client;
    this.#client = this.#starting = this.#capabilities = undefined;
    this.#become("stopped");
    if (!client) return;
    await client.stop(STOP_TIMEOUT).catch((error: unknown) => this.log.warn(String(error)));
    await client.dispose().catch(() => undefined);
  }

  async restart(): Promise<void> {
    await this.stop();
    this.#crashes.length = 0;
    await this.start();
  }

  /**
   * The answer to a request; starts the server when it does not run.
   *
   * @throws ResponseError as the server says it, or when there is no server.
   */
  async request<M extends keyof ClientRequests>(
    method: M,
    params: ClientRequests[M]["params"],
    token?: vscode.CancellationToken,
  ): Promise<ClientRequests[M]["result"]> {
    await this.start();
    if (!this.#client) throw new Error("Deputy's server has ended.");
    // A token that is undefined would be sent as a second parameter.
    const rest = token ? [token] : [];
    return this.#client.sendRequest<ClientRequests[M]["result"]>(method, params, ...rest);
  }

  /** Tells the server of changed settings. */
  async configure(): Promise<void> {
    if (this.#state !== "running") return;
    const settings = { [SECTION]: serverSettings() };
    await this.#client?.sendNotification("workspace/didChangeConfiguration", { settings });
  }

  dispose(): void {
    void this.stop();
    this.#events.dispose();
    this.#states.dispose();
    this.log.dispose();
  }

  async #start(): Promise<void> {
    this.#become("starting");
    const { command, args } = await findServer(launchSettings());
    const env = { ...process.env, ...(await this.#key.environment()) };
    this.log.info(`starting ${command} ${args.join(" ")}`);
    const run = { command, args: [...args], options: { env } };
    const client = new LanguageClient(SECTION, "Deputy", run, this.#options());
    client.registerFeature(new DeclaresDeputy());
    client.onRequest("deputy/permission/request", this.#handlers.question);
    const { diagnostics, definition, references, hover, symbols } = this.#handlers.language;
    client.onRequest("deputy/editor/diagnostics", diagnostics);
    client.onRequest("deputy/editor/definition", definition);
    client.onRequest("deputy/editor/references", references);
    client.onRequest("deputy/editor/hover", hover);
    client.onRequest("deputy/editor/symbols", symbols);
    client.onNotification("deputy/event", (event: EventParams) => this.#events.fire(event));
    client.onDidChangeState(({ newState }) => this.#follow(client, newState));
    this.#client = client;
    await client.start();
    this.#welcome(client);
  }

  #welcome(client: LanguageClient): void {
    const experimental = client.initializeResult?.capabilities.experimental as
      { deputy?: ServerCapabilities } | undefined;
    this.#capabilities = experimental?.deputy;
    this.#become("running");
  }

  #options(): LanguageClientOptions {
    return {
      documentSelector: [{ scheme: "file" }],
      initializationOptions: serverSettings,
      outputChannel: this.log,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      initializationFailedHandler: () => false,
      middleware: { workspace: { handleApplyEdit: applied } },
      errorHandler: this.#errorHandler(),
    };
  }

  #errorHandler(): ErrorHandler {
    return {
      error: () => ({ action: ErrorAction.Continue }),
      closed: () => {
        const now = Date.now();
        this.#crashes.push(now);
        const recent = this.#crashes.filter((time) => now - time < RESTART_WINDOW).length;
        if (recent <= RESTARTS) return { action: CloseAction.Restart, handled: true };
        return { action: CloseAction.DoNotRestart, message: "Deputy's server keeps ending; its log says why." };
      },
    };
  }

  #follow(client: LanguageClient, state: State): void {
    if (client !== this.#client) return;
    if (state === State.Running && this.#state !== "running") this.#welcome(client);
    if (state === State.Starting) this.#become("starting");
    if (state === State.Stopped) this.#become("stopped");
  }

  #become(state: ServerState): void {
    if (state === this.#state) return;
    this.#state = state;
    void vscode.commands.executeCommand("setContext", "deputy.server", state);
    this.#states.fire(state);
  }
}

/** Tells the server at `initialize` which parts this client handles. */
class DeclaresDeputy implements StaticFeature {
  fillClientCapabilities(capabilities: InitializeParams["capabilities"]): void {
    const deputy = {
      protocolVersion: PROTOCOL_VERSION,
      events: true,
      permissions: true,
      diffPreview: true,
      diagnostics: true,
      navigation: true,
    };
    capabilities.experimental = { ...(capabilities.experimental as object | undefined), deputy };
  }

  initialize(): void {}

  getState(): { kind: "static" } {
    return { kind: "static" };
  }

  clear(): void {}
}

/** Shows what went wrong, with what the user can do about it. */
export async function explain(error: unknown, server: Server): Promise<void> {
  const message = error instanceof Error ? error.message : String(error);
  server.log.error(message);
  const code = (error as { code?: unknown }).code;
  const actions: Record<string, () => unknown> = {};
  if (error instanceof NoServer) {
    actions["Open Settings"] = () => vscode.commands.executeCommand("workbench.action.openSettings", "deputy.server");
    actions["Try Again"] = () => vscode.commands.executeCommand("deputy.restartServer");
  }
  if (code === ErrorCode.NOT_CONFIGURED) {
    actions["Set API Key"] = () => vscode.commands.executeCommand("deputy.setApiKey");
    actions["Use Offline Model"] = () =>
      vscode.workspace.getConfiguration(SECTION).update("model", "offline", vscode.ConfigurationTarget.Global);
  }
  actions["Show Log"] = () => server.log.show();
  const chosen = await vscode.window.showErrorMessage(message, ...Object.keys(actions));
  if (chosen) await actions[chosen]?.();
}
