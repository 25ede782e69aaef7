/** Messages between the extension and its webviews. */
import type { CompleteResult, EventParams, PermissionMode, PermissionOption, Range } from "../protocol.ts";
import type { Stale } from "../state/proposal.ts";
import type { SessionState } from "../state/session.ts";

/** State of the window that the page shows beside the session. */
export interface Surroundings {
  readonly server: "stopped" | "starting" | "running";
  /** The agent whose transcript the page shows; undefined for the chat with the primary. */
  readonly agentId: string | undefined;
  readonly mode: PermissionMode;
  readonly model: string;
  readonly trusted: boolean;
  /** Whether the window has a folder for agents to work in. */
  readonly hasFolder: boolean;
  /** Name of the session's folder; empty if it is the only folder of the window. */
  readonly folder: string;
  readonly can: { readonly revert: boolean; readonly message: boolean };
  /** Edited proposals, by request. */
  readonly edits: Readonly<Record<string, string>>;
  /** Requests whose file has changed or was deleted. */
  readonly stale: Readonly<Record<string, Stale>>;
}

/** A file or range that a prompt mentions. */
export interface Mention {
  readonly uri: string;
  readonly label: string;
  readonly range?: Range;
}

/** An image pasted into a prompt. */
export interface PastedImage {
  readonly mimeType: "image/png" | "image/jpeg" | "image/gif" | "image/webp";
  /** Base64. */
  readonly data: string;
}

/** A prompt to restore in the prompt box. */
export interface Unsent {
  readonly text: string;
  readonly mentions?: readonly Mention[];
  readonly images?: readonly PastedImage[];
}

export type ToPage =
  | { readonly type: "state"; readonly state: SessionState | undefined; readonly around: Surroundings }
  | { readonly type: "around"; readonly around: Surroundings }
  | { readonly type: "events"; readonly events: readonly EventParams[] }
  /** The known images of the user's messages, by message. */
  | { readonly type: "images"; readonly images: Readonly<Record<string, readonly PastedImage[]>> }
  | { readonly type: "mention"; readonly mentions: readonly Mention[]; readonly text?: string }
  | ({ readonly type: "unsent" } & Unsent)
  | { readonly type: "completions"; readonly text: string; readonly answer: CompleteResult }
  | { readonly type: "show"; readonly requestId: string };

export interface Prompt {
  readonly type: "prompt";
  readonly text: string;
  readonly mentions: readonly Mention[];
  readonly images: readonly PastedImage[];
}

export type FromPage =
  | { readonly type: "ready" }
  | Prompt
  /** Requests completions of `text`, the prompt up to the cursor. */
  | { readonly type: "complete"; readonly text: string }
  /** An image was rejected; the limit is in bytes. */
  | { readonly type: "tooLarge"; readonly limit: number }
  | { readonly type: "choose"; readonly requestId: string; readonly option: PermissionOption }
  | { readonly type: "deny"; readonly requestId: string; readonly note: string }
  | { readonly type: "diff" | "place"; readonly requestId: string }
  | { readonly type: "cancelAgent" | "openTranscript" | "revert" | "steer" | "transcript"; readonly agentId: string }
  /** Opens the full output of a call as a document. */
  | { readonly type: "output"; readonly agentId: string; readonly toolCallId: string }
  /** Opens a full message as a document. */
  | { readonly type: "message"; readonly agentId: string; readonly messageId: string }
  | { readonly type: "unqueue"; readonly promptId: string }
  /** Opens the settings at the named one. */
  | { readonly type: "setting"; readonly name: string }
  | { readonly type: "open"; readonly uri: string; readonly range?: Range }
  | { readonly type: "path"; readonly path: string; readonly line?: number }
  | {
      readonly type:
        | "setApiKey"
        | "showLog"
        | "attach"
        | "cancelTurn"
        | "newSession"
        | "pickMode"
        | "pickModel"
        | "continue"
        | "refresh"
        | "start"
        | "trust"
        | "openFolder";
    };
