/** The server's process and the connection to it. */
import * as vscode from "vscode";
import {
  type CancellationToken,
  CloseAction,
  ErrorAction,
  ErrorCodes,
  type ErrorHandler,
  type Executable,
  type InitializeParams,
  LanguageClient,
  type LanguageClientOptions,
  ResponseError,
  RevealOutputChannelOn,
  State,
  type StaticFeature,
} from "vscode-languageclient/node";

import { NoFolder } from "./editor.ts";
import { applied } from "./edits.ts";
import { NoServer, type Setup } from "./install/setup.ts";
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
import { iconless } from "./state/text.ts";

export type ServerState = "stopped" | "starting" | "running";

type Navigation = "diagnostics" | "definition" | "references" | "hover" | "symbols";

/** Handlers of the server's requests. */
export interface Handlers {
  readonly permission: Handler<"deputy/permission/request">;
  readonly input: Handler<"deputy/input/request">;
  /** Handlers of `deputy/editor/*`. */
  readonly language: { readonly [M in Navigation]: Handler<`deputy/editor/${M}`> };
}

type Handler<M extends keyof ServerRequests> = (
  params: ServerRequests[M]["params"],
  token: CancellationToken,
) => Promise<ServerRequests[M]["result"]> | ServerRequests[M]["result"];

const START_TIMEOUT = 30_000;
const STOP_TIMEOUT = 5_000;
const RESTARTS = 3;
const RESTART_WINDOW = 3 * 60_000;

export class Server implements vscode.Disposable {
  readonly log: vscode.LogOutputChannel;
  readonly #setup: Setup;
  readonly #key: ApiKey;
  readonly #handlers: Handlers;
  readonly #events = new vscode.EventEmitter<EventParams>();
  readonly #states = new vscode.EventEmitter<ServerState>();
  readonly #crashes: number[] = [];
  #client: LanguageClient | undefined;
  #starting: Promise<void> | undefined;
  /** Resolves after all queued operations: starts and stops run one after the other. */
  #done: Promise<unknown> = Promise.resolve();
  #state: ServerState = "stopped";
  /** The start failed; it is retried after a change of settings. */
  #failed = false;
  /** Why the last start failed; the chat shows it. */
  #problem: NotStarted | undefined;
  /** The settings of the last start. */
  #launched: string | undefined;
  #capabilities: ServerCapabilities | undefined;

  readonly onEvent = this.#events.event;
  readonly onState = this.#states.event;

  constructor(log: vscode.LogOutputChannel, setup: Setup, key: ApiKey, handlers: Handlers) {
    this.log = log;
    this.#setup = setup;
    this.#key = key;
    this.#handlers = handlers;
  }

  get state(): ServerState {
    return this.#state;
  }

  get problem(): NotStarted | undefined {
    return this.#problem;
  }

  get capabilities(): ServerCapabilities | undefined {
    return this.#capabilities;
  }

  /** Whether the server supports a method. */
  has(method: keyof ClientRequests): boolean {
    return this.#capabilities?.methods.includes(method) ?? false;
  }

  /**
   * Starts the server if it is not running; concurrent calls start one.
   *
   * @throws NoServer if none was found, or NotStarted.
   */
  start(): Promise<void> {
    if (this.#starting) return this.#starting;
    this.#problem = undefined;
    const starting: Promise<void> = this.#inTurn(() => this.#start(starting)).catch((cause: unknown) => {
      const error = startError(cause);
      if (this.#starting === starting) {
        if (error instanceof NotStarted) this.#problem = error;
        this.#reset("stopped");
        this.#failed = true;
      }
      throw error;
    });
    this.#starting = starting;
    this.#setState("starting");
    return starting;
  }

  async stop(): Promise<void> {
    this.#reset("stopped");
    await this.#inTurn(() => this.#end());
  }

  async restart(): Promise<void> {
    await this.stop();
    this.#crashes.length = 0;
    await this.start();
  }

  /**
   * Sends a request and returns its result; starts the server if it is not running.
   *
   * @throws ResponseError from the server; ServerEnded if it ended before it answered.
   */
  async request<M extends keyof ClientRequests>(
    method: M,
    params: ClientRequests[M]["params"],
    token?: vscode.CancellationToken,
  ): Promise<ClientRequests[M]["result"]> {
    await this.start();
    if (!this.#client) throw new ServerEnded();
    // An undefined token would be sent as a second parameter.
    const rest = token ? [token] : [];
    return this.#client.sendRequest<ClientRequests[M]["result"]>(method, params, ...rest).catch((error: unknown) => {
      throw isLost(error) ? new ServerEnded() : error;
    });
  }

  /** Applies changed settings: restarts if the launch settings changed, otherwise notifies the running server. */
  async configure(): Promise<void> {
    const launched = this.#launched;
    if (launched !== undefined && launched !== JSON.stringify(launchSettings())) return this.restart();
    // After a start in progress, and never to a server that is stopping.
    await this.#inTurn(async () => {
      if (this.#state !== "running") return;
      const settings = { [SECTION]: serverSettings() };
      await this.#client?.sendNotification("workspace/didChangeConfiguration", { settings });
    });
    if (this.#failed) await this.start();
  }

  dispose(): void {
    void this.stop();
    this.#events.dispose();
    this.#states.dispose();
  }

  #inTurn<T>(run: () => Promise<T>): Promise<T> {
    const result = this.#done.then(run);
    this.#done = result.catch(() => undefined);
    return result;
  }

  /** Resets the state, so that the next request starts a new server. */
  #reset(state: ServerState): void {
    this.#starting = this.#capabilities = undefined;
    this.#setState(state);
  }

  /** Starts a server, unless this start was superseded. */
  async #start(starting: Promise<void>): Promise<void> {
    this.#failed = false;
    const wanted = launchSettings();
    this.#launched = JSON.stringify(wanted);
    const { command, args } = await this.#setup.locate();
    const env = { ...process.env, ...(await this.#key.environment()) };
    if (this.#starting !== starting) return;
    this.log.info(`starting ${command} ${args.join(" ")}`);
    const client = this.#connect({ command, args: [...args], options: { env } });
    this.#client = client;
    try {
      await bounded(client.start(), START_TIMEOUT);
    } catch (error) {
      await this.#end();
      throw error;
    }
    if (this.#starting === starting) this.#started(client);
  }

  /** Stops the process and disposes its client. */
  async #end(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    await client?.dispose(STOP_TIMEOUT).catch((error: unknown) => this.log.warn(String(error)));
  }

  #connect(run: Executable): LanguageClient {
    const client = new QuietClient(SECTION, "Deputy", run, this.#options());
    client.registerFeature(new DeclaresDeputy());
    client.onRequest("deputy/permission/request", this.#handlers.permission);
    client.onRequest("deputy/input/request", this.#handlers.input);
    const { diagnostics, definition, references, hover, symbols } = this.#handlers.language;
    client.onRequest("deputy/editor/diagnostics", diagnostics);
    client.onRequest("deputy/editor/definition", definition);
    client.onRequest("deputy/editor/references", references);
    client.onRequest("deputy/editor/hover", hover);
    client.onRequest("deputy/editor/symbols", symbols);
    client.onNotification("deputy/event", (event: EventParams) => this.#events.fire(event));
    client.onDidChangeState(({ newState }) => {
      if (newState === State.Stopped && client === this.#client && this.#state === "running") this.#crashed();
    });
    return client;
  }

  #started(client: LanguageClient): void {
    const experimental = client.initializeResult?.capabilities.experimental as
      { deputy?: ServerCapabilities } | undefined;
    this.#capabilities = experimental?.deputy;
    this.#setState("running");
  }

  #options(): LanguageClientOptions {
    return {
      documentSelector: [{ scheme: "file" }],
      initializationOptions: serverSettings,
      outputChannel: this.log,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      initializationFailedHandler: () => false,
      middleware: { workspace: { handleApplyEdit: applied }, handleWorkDoneProgress: withoutIcons },
      errorHandler: ERRORS,
    };
  }

  /** Restarts a crashed server, unless it has crashed too often. */
  #crashed(): void {
    const now = Date.now();
    this.#crashes.push(now);
    const recent = this.#crashes.filter((time) => now - time < RESTART_WINDOW).length;
    if (recent > RESTARTS) this.#problem = new NotStarted("Deputy's server keeps crashing. See its log for the cause.");
    this.#reset(recent > RESTARTS ? "stopped" : "starting");
    void this.#inTurn(() => this.#end());
    if (recent > RESTARTS) this.log.error(String(this.#problem));
    else this.start().catch((error: unknown) => void explain(error, this));
  }

  #setState(state: ServerState): void {
    if (state === this.#state) return;
    this.#state = state;
    void vscode.commands.executeCommand("setContext", "deputy.server", state);
    this.#states.fire(state);
  }
}

/** Removes icon syntax from a model's text in progress. Changes `params`, because the client ignores a copy. */
const withoutIcons: NonNullable<LanguageClientOptions["middleware"]>["handleWorkDoneProgress"] = (
  token,
  params,
  next,
) => {
  if ("title" in params) params.title = iconless(params.title);
  if (params.message !== undefined) params.message = iconless(params.message);
  next(token, params);
};

/** The server ended before it answered. */
export class ServerEnded extends Error {
  constructor() {
    super("Deputy's server ended before it answered.");
  }
}

/** Error codes of a lost or missing connection. */
const LOST: ReadonlySet<number | undefined> = new Set([
  ErrorCodes.PendingResponseRejected,
  ErrorCodes.ConnectionInactive,
  ErrorCodes.MessageWriteError,
]);

/** The server does not start. The chat shows why, and what to do. */
export class NotStarted extends Error {
  /** The settings to correct, if they are the cause. */
  readonly setting: string | undefined;

  constructor(message: string, setting?: string) {
    super(message);
    this.setting = setting;
  }
}

/** The user-visible error for a failed start. */
function startError(error: unknown): NoServer | NotStarted {
  if (error instanceof NoServer) return error;
  if (isLost(error)) return new NotStarted("Deputy's server exited while starting. See its log for the cause.");
  const message = error instanceof Error ? error.message : String(error);
  if (!(error instanceof ResponseError) || error.code !== ErrorCodes.InvalidParams) return new NotStarted(message);
  const named = message.replaceAll("initializationOptions.", "deputy.");
  return new NotStarted(`Deputy does not start: ${named}`, SECTION);
}

function isLost(error: unknown): boolean {
  return LOST.has((error as { code?: number }).code);
}

/** {@link Server} handles lost connections. */
const ERRORS: ErrorHandler = {
  error: () => ({ action: ErrorAction.Continue, handled: true }),
  closed: () => ({ action: CloseAction.DoNotRestart, handled: true }),
};

/** Logs errors without showing them; {@link explain} shows them to the user. */
class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}

/** @throws Error if the promise takes longer than `limit` milliseconds. */
async function bounded(promise: Promise<void>, limit: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((_, reject) => {
    timer = setTimeout(() => reject(new Error("Deputy's server does not answer. See its log for the cause.")), limit);
  });
  await Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Declares this client's capabilities at `initialize`. */
class DeclaresDeputy implements StaticFeature {
  fillClientCapabilities(capabilities: InitializeParams["capabilities"]): void {
    const deputy = {
      protocolVersion: PROTOCOL_VERSION,
      events: true,
      permissions: true,
      input: true,
      diffPreview: true,
      diagnostics: true,
      navigation: true,
      review: true,
    };
    capabilities.experimental = { ...(capabilities.experimental as object | undefined), deputy };
  }

  initialize(): void {}

  getState(): { kind: "static" } {
    return { kind: "static" };
  }

  clear(): void {}
}

/** Codes of errors with a complete message: the log has no further details. */
const SELF_EXPLANATORY: ReadonlySet<unknown> = new Set([
  ErrorCode.WRONG_STATE,
  ErrorCode.OVERLOADED,
  ErrorCode.NOT_CONFIGURED,
  ErrorCode.NOT_ALLOWED,
  ErrorCode.UNKNOWN_SESSION,
  ErrorCode.UNKNOWN_AGENT,
]);

/** Shows an error, with actions that may help. The chat shows why there is no server. */
export async function explain(error: unknown, server: Server): Promise<void> {
  if (error instanceof vscode.CancellationError) return;
  if (error instanceof NoFolder) {
    const chosen = await vscode.window.showErrorMessage(error.message, "Open Folder");
    if (chosen) await vscode.commands.executeCommand("vscode.openFolder");
    return;
  }
  const message = error instanceof Error ? error.message : String(error);
  server.log.error(message);
  if (isShownInChat(error)) return;
  const code = (error as { code?: unknown }).code;
  const actions: Record<string, () => unknown> = {};
  if (code === ErrorCode.NOT_CONFIGURED) {
    actions["Set API Key"] = () => vscode.commands.executeCommand("deputy.setApiKey");
    actions["Use Offline Model"] = () =>
      vscode.workspace.getConfiguration(SECTION).update("model", "offline", vscode.ConfigurationTarget.Global);
  }
  if (!SELF_EXPLANATORY.has(code)) actions["Show Log"] = () => server.log.show();
  const chosen = await vscode.window.showErrorMessage(message, ...Object.keys(actions));
  if (chosen) await actions[chosen]?.();
}

export function isShownInChat(error: unknown): boolean {
  return error instanceof NoServer || error instanceof NotStarted;
}
