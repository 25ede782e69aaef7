/** The state of the server's installation, as a table: what the extension found, and what the user can do about it. */
/** A program that installs packages of Python. */
export interface Tool {
  readonly kind: "uv" | "python";
  readonly path: string;
}

export type Phase =
  "checking" | "ready" | "missing" | "no_python" | "wrong_version" | "wrong_setting" | "installing" | "failed";

export type SetupEvent =
  /** The search found a server that fits. */
  | { readonly type: "found" }
  /** The search found none, but a tool that can install one. */
  | { readonly type: "absent"; readonly tool: Tool }
  /** The search found neither a server nor a tool. */
  | { readonly type: "no_python" }
  /** The search found only a server of another version. */
  | { readonly type: "mismatch"; readonly path: string; readonly version: string; readonly tool: Tool | undefined }
  /** A setting names a server that cannot be used. */
  | { readonly type: "invalid"; readonly message: string }
  /** The user agreed to the installation by that tool; undefined to download uv first. */
  | { readonly type: "install"; readonly tool: Tool | undefined }
  | { readonly type: "step"; readonly step: number; readonly of: number; readonly text: string }
  | { readonly type: "installed" }
  | { readonly type: "failed"; readonly cause: string; readonly message: string }
  | { readonly type: "cancelled" };

export interface SetupState {
  readonly phase: Phase;
  /** What installs; undefined to download uv first. */
  readonly tool?: Tool | undefined;
  /** A server of another version. */
  readonly other?: { readonly path: string; readonly version: string };
  readonly step?: { readonly step: number; readonly of: number; readonly text: string };
  /** Why there is no server. */
  readonly message?: string;
}

export const INITIAL: SetupState = { phase: "checking" };

type Row = Readonly<Partial<Record<SetupEvent["type"], Phase>>>;

/** Results of a search, which can be repeated at any time. */
const SEARCHED: Row = {
  found: "ready",
  absent: "missing",
  no_python: "no_python",
  mismatch: "wrong_version",
  invalid: "wrong_setting",
};

/** The next phase, by phase and event. All other events are ignored. */
export const TABLE: Readonly<Record<Phase, Row>> = {
  checking: SEARCHED,
  ready: { ...SEARCHED, install: "installing" },
  missing: { ...SEARCHED, install: "installing" },
  no_python: { ...SEARCHED, install: "installing" },
  wrong_version: { ...SEARCHED, install: "installing" },
  wrong_setting: SEARCHED,
  installing: { step: "installing", installed: "ready", failed: "failed", cancelled: "checking" },
  // A search that finds nothing keeps the cause.
  failed: { found: "ready", invalid: "wrong_setting", install: "installing" },
};

export function next(state: SetupState, event: SetupEvent): SetupState {
  const phase = TABLE[state.phase][event.type];
  return phase === undefined ? state : { phase, ...detailsOf(state, event) };
}

function detailsOf({ tool }: SetupState, event: SetupEvent): Omit<SetupState, "phase"> {
  switch (event.type) {
    case "absent":
    case "install":
      return { tool: event.tool };
    case "mismatch":
      return { tool: event.tool, other: { path: event.path, version: event.version } };
    case "invalid":
      return { tool, message: event.message };
    case "step":
      return { tool, step: { step: event.step, of: event.of, text: event.text } };
    case "failed":
      // uv needs no module of Python to make an environment.
      return { tool: event.cause === "venv" ? undefined : tool, message: event.message };
    case "no_python":
      return {};
    default:
      return { tool };
  }
}
