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
import { iconless } from "./state/words.ts";

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

const START_TIMEOUT = 30_000;
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
  /** Ends when all is done that was asked for so far: starts and stops come one after the other. */
  #done: Promise<unknown> = Promise.resolve();
  #state: ServerState = "stopped";
  /** It did not start, which other settings may mend. */
  #failed = false;
  /** The settings that it was started by last. */
  #launched: string | undefined;
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

  /**
   * Starts the server if it does not run; several callers start one.
   *
   * @throws NoServer, or what keeps the server from starting.
   */
  start(): Promise<void> {
    if (this.#starting) return this.#starting;
    const starting: Promise<void> = this.#inTurn(() => this.#start(starting)).catch((error: unknown) => {
      if (this.#starting === starting) {
        this.#forget("stopped");
        this.#failed = true;
      }
      throw error;
    });
    this.#starting = starting;
    this.#become("starting");
    return starting;
  }

  async stop(): Promise<void> {
    this.#forget("stopped");
    await this.#inTurn(() => this.#end());
  }

  async restart(): Promise<void> {
    await this.stop();
    this.#crashes.length = 0;
    await this.start();
  }

  /**
   * The answer to a request; starts the server when it does not run.
   *
   * @throws ResponseError as the server says it; ServerEnded when it ended before it answered.
   */
  async request<M extends keyof ClientRequests>(
    method: M,
    params: ClientRequests[M]["params"],
    token?: vscode.CancellationToken,
  ): Promise<ClientRequests[M]["result"]> {
    await this.start();
    if (!this.#client) throw new ServerEnded();
    // A token that is undefined would be sent as a second parameter.
    const rest = token ? [token] : [];
    return this.#client.sendRequest<ClientRequests[M]["result"]>(method, params, ...rest).catch((error: unknown) => {
      throw isLost(error) ? new ServerEnded() : error;
    });
  }

  /** Takes changed settings: starts another server where another one is named, else tells the one that runs. */
  async configure(): Promise<void> {
    const launched = this.#launched;
    if (launched !== undefined && launched !== JSON.stringify(launchSettings())) return this.restart();
    // After a start that is under way, and never to a server that is being ended.
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
    this.log.dispose();
  }

  #inTurn<T>(run: () => Promise<T>): Promise<T> {
    const result = this.#done.then(run);
    this.#done = result.catch(() => undefined);
    return result;
  }

  /** From now on another server has to be started. */
  #forget(state: ServerState): void {
    this.#starting = this.#capabilities = undefined;
    this.#become(state);
  }

  /** Starts a server, unless another one is wanted by now. */
  async #start(starting: Promise<void>): Promise<void> {
    this.#failed = false;
    const wanted = launchSettings();
    this.#launched = JSON.stringify(wanted);
    const { command, args } = await findServer(wanted);
    const env = { ...process.env, ...(await this.#key.environment()) };
    if (this.#starting !== starting) return;
    this.log.info(`starting ${command} ${args.join(" ")}`);
    const client = this.#connect({ command, args: [...args], options: { env } });
    this.#client = client;
    try {
      await bounded(client.start(), START_TIMEOUT);
    } catch (error) {
      await this.#end();
      throw startError(error);
    }
    if (this.#starting === starting) this.#welcome(client);
  }

  /** Ends the process and what belongs to it. */
  async #end(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    await client?.dispose(STOP_TIMEOUT).catch((error: unknown) => this.log.warn(String(error)));
  }

  #connect(run: Executable): LanguageClient {
    const client = new QuietClient(SECTION, "Deputy", run, this.#options());
    client.registerFeature(new DeclaresDeputy());
    client.onRequest("deputy/permission/request", this.#handlers.question);
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
      middleware: { workspace: { handleApplyEdit: applied }, handleWorkDoneProgress: withoutIcons },
      errorHandler: ERRORS,
    };
  }

  /** The process ended by itself: it is started again, unless that helps nothing. */
  #crashed(): void {
    const now = Date.now();
    this.#crashes.push(now);
    const recent = this.#crashes.filter((time) => now - time < RESTART_WINDOW).length;
    this.#forget(recent > RESTARTS ? "stopped" : "starting");
    void this.#inTurn(() => this.#end());
    if (recent > RESTARTS) void explain(new Error("Deputy's server keeps ending; its log says why."), this);
    else this.start().catch((error: unknown) => void explain(error, this));
  }

  #become(state: ServerState): void {
    if (state === this.#state) return;
    this.#state = state;
    void vscode.commands.executeCommand("setContext", "deputy.server", state);
    this.#states.fire(state);
  }
}

/** Progress is told in words of a model: who does what. The value is changed, for the client hands on no other one. */
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

/** Codes of requests whose connection was lost, or is not there. */
const LOST: ReadonlySet<number | undefined> = new Set([
  ErrorCodes.PendingResponseRejected,
  ErrorCodes.ConnectionInactive,
  ErrorCodes.MessageWriteError,
]);

/** Why a server does not start, in words for people. */
function startError(error: unknown): unknown {
  if (isLost(error)) return new Error("Deputy's server ended while it started; its log says why.");
  if (!(error instanceof ResponseError) || error.code !== ErrorCodes.InvalidParams) return error;
  return new NoServer(
    `Deputy does not start: ${error.message.replaceAll("initializationOptions.", "deputy.")}`,
    SECTION,
  );
}

function isLost(error: unknown): boolean {
  return LOST.has((error as { code?: number }).code);
}

/** What becomes of a lost connection is for {@link Server} to decide. */
const ERRORS: ErrorHandler = {
  error: () => ({ action: ErrorAction.Continue, handled: true }),
  closed: () => ({ action: CloseAction.DoNotRestart, handled: true }),
};

/** Says in the log what goes wrong; the user is told by {@link explain}, in words for people. */
class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}

/** @throws Error when the promise takes longer than so many milliseconds. */
async function bounded(promise: Promise<void>, limit: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((_, reject) => {
    timer = setTimeout(() => reject(new Error("Deputy's server does not answer; its log says why.")), limit);
  });
  await Promise.race([promise, late]).finally(() => clearTimeout(timer));
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

/** Codes of answers whose message is all that there is to say: the log knows no more. */
const SAYS_ALL: ReadonlySet<unknown> = new Set([
  ErrorCode.WRONG_STATE,
  ErrorCode.OVERLOADED,
  ErrorCode.NOT_CONFIGURED,
  ErrorCode.NOT_ALLOWED,
  ErrorCode.UNKNOWN_SESSION,
  ErrorCode.UNKNOWN_AGENT,
]);

/** Shows what went wrong, with what the user can do about it. */
export async function explain(error: unknown, server: Server): Promise<void> {
  if (error instanceof vscode.CancellationError) return;
  if (error instanceof NoFolder) {
    const chosen = await vscode.window.showErrorMessage(error.message, "Open Folder");
    if (chosen) await vscode.commands.executeCommand("vscode.openFolder");
    return;
  }
  const message = error instanceof Error ? error.message : String(error);
  server.log.error(message);
  const code = (error as { code?: unknown }).code;
  const actions: Record<string, () => unknown> = {};
  if (error instanceof NoServer) {
    actions["Open Settings"] = () => vscode.commands.executeCommand("workbench.action.openSettings", error.settings);
    actions["Try Again"] = () => vscode.commands.executeCommand("deputy.restartServer");
  }
  if (code === ErrorCode.NOT_CONFIGURED) {
    actions["Set API Key"] = () => vscode.commands.executeCommand("deputy.setApiKey");
    actions["Use Offline Model"] = () =>
      vscode.workspace.getConfiguration(SECTION).update("model", "offline", vscode.ConfigurationTarget.Global);
  }
  if (!SAYS_ALL.has(code)) actions["Show Log"] = () => server.log.show();
  const chosen = await vscode.window.showErrorMessage(message, ...Object.keys(actions));
  if (chosen) await actions[chosen]?.();
}
