/** What the extension and its webviews say to each other. */
import type { CompleteResult, EventParams, PermissionMode, PermissionOption, Range } from "../protocol.ts";
import type { Stale } from "../state/proposal.ts";
import type { SessionState } from "../state/session.ts";

/** What the page shows beside the session itself. */
export interface Surroundings {
  readonly server: "stopped" | "starting" | "running";
  /** The agent whose thread the page shows; undefined: the chat with the primary. */
  readonly agentId: string | undefined;
  readonly mode: PermissionMode;
  readonly model: string;
  readonly trusted: boolean;
  /** Whether the window has a folder that agents can work in. */
  readonly hasFolder: boolean;
  /** Name of the folder that the session works in; empty where it is the only one of the window. */
  readonly folder: string;
  readonly can: { readonly revert: boolean; readonly message: boolean };
  /** Proposals that the user has changed, by question. */
  readonly edits: Readonly<Record<string, string>>;
  /** Questions whose file is another one by now, or gone. */
  readonly stale: Readonly<Record<string, Stale>>;
}

/** A file, or a part of one, that a prompt is about. */
export interface Mention {
  readonly uri: string;
  readonly label: string;
  readonly range?: Range;
}

/** A picture that was pasted into a prompt. */
export interface Picture {
  readonly mimeType: "image/png" | "image/jpeg" | "image/gif" | "image/webp";
  /** Base64. */
  readonly data: string;
}

/** A prompt that goes back to where it was written. */
export interface Unsent {
  readonly text: string;
  readonly mentions?: readonly Mention[];
  readonly pictures?: readonly Picture[];
}

export type ToPage =
  | { readonly type: "state"; readonly state: SessionState | undefined; readonly around: Surroundings }
  | { readonly type: "around"; readonly around: Surroundings }
  | { readonly type: "events"; readonly events: readonly EventParams[] }
  /** The pictures of the user's messages, as far as they are known. */
  | { readonly type: "pictures"; readonly pictures: Readonly<Record<string, readonly Picture[]>> }
  | { readonly type: "mention"; readonly mentions: readonly Mention[]; readonly text?: string }
  | ({ readonly type: "unsent" } & Unsent)
  | { readonly type: "completions"; readonly text: string; readonly answer: CompleteResult }
  | { readonly type: "show"; readonly requestId: string };

export interface Prompt {
  readonly type: "prompt";
  readonly text: string;
  readonly mentions: readonly Mention[];
  readonly pictures: readonly Picture[];
}

export type FromPage =
  | { readonly type: "ready" }
  | Prompt
  /** What can `text`, a prompt up to the cursor, go on with? */
  | { readonly type: "complete"; readonly text: string }
  /** A picture was not taken; the limit is in bytes. */
  | { readonly type: "tooLarge"; readonly limit: number }
  | { readonly type: "choose"; readonly requestId: string; readonly option: PermissionOption }
  | { readonly type: "deny"; readonly requestId: string; readonly note: string }
  | { readonly type: "diff" | "place"; readonly requestId: string }
  | { readonly type: "cancelAgent" | "thread" | "revert" | "steer" | "transcript"; readonly agentId: string }
  /** All of a call's output, as a document. */
  | { readonly type: "output"; readonly agentId: string; readonly toolCallId: string }
  /** All of a message, as a document. */
  | { readonly type: "message"; readonly agentId: string; readonly messageId: string }
  | { readonly type: "unqueue"; readonly promptId: string }
  /** The settings, at one that the server names. */
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
