/** Messages between the extension and its webviews. */
import type { Card, CardButton } from "../install/card.ts";
import type {
  CompleteResult,
  EventParams,
  InputAnswerParams,
  PermissionMode,
  PermissionOption,
  Range,
} from "../protocol.ts";
import type { Stale } from "../state/proposal.ts";
import type { RewindPlan, ShownChanges } from "../state/changes.ts";
import type { Palette } from "../state/palette.ts";
import type { SessionState } from "../state/session.ts";

/** State of the window that the page shows beside the session. */
export interface Surroundings {
  readonly server: "stopped" | "starting" | "running";
  /** What to do while there is no server. */
  readonly card: Card | undefined;
  /** Why the server does not run, and whether settings are the cause. */
  readonly problem: { readonly message: string; readonly isSetting: boolean } | undefined;
  /** The agent whose transcript the page shows; undefined for the chat with the primary. */
  readonly agentId: string | undefined;
  readonly mode: PermissionMode;
  readonly model: string;
  readonly trusted: boolean;
  /** Whether the window has a folder for agents to work in. */
  readonly hasFolder: boolean;
  /** Name of the session's folder; empty if it is the only folder of the window. */
  readonly folder: string;
  readonly can: { readonly revert: boolean; readonly message: boolean; readonly rewind: boolean };
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
  | { readonly type: "changes"; readonly changes: ShownChanges | undefined }
  /** The answer to `planRewind`; without a plan if there is none. */
  | { readonly type: "rewindPlan"; readonly seq: number; readonly plan: RewindPlan | undefined }
  | { readonly type: "completions"; readonly text: string; readonly answer: CompleteResult }
  /** Colours of code by kind of token; kinds that the theme does not colour are missing. */
  | { readonly type: "palette"; readonly colours: Palette }
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
  /** Answers a question. */
  | ({ readonly type: "answer" } & InputAnswerParams)
  | { readonly type: "diff" | "place"; readonly requestId: string }
  | {
      readonly type: "cancelAgent" | "openTranscript" | "revert" | "steer" | "transcript" | "earlier";
      readonly agentId: string;
    }
  /** Opens the full output of a call as a document. */
  | { readonly type: "output"; readonly agentId: string; readonly toolCallId: string }
  /** Opens a full message as a document. */
  | { readonly type: "message"; readonly agentId: string; readonly messageId: string }
  | { readonly type: "unqueue"; readonly promptId: string }
  /** Opens the changes of a file to review, or keeps or undoes them. */
  | { readonly type: "openChange" | "keepFile" | "undoFile"; readonly uri: string }
  | { readonly type: "reviewAll" | "keepAll" | "undoAll" | "sendComments" }
  /** Requests what going back to before the message with that number would change. */
  | { readonly type: "planRewind"; readonly seq: number }
  | {
      readonly type: "rewind";
      readonly checkpointId: string;
      readonly files: boolean;
      readonly conversation: boolean;
    }
  /** Continues in a new session from before a prompt, whose text goes into its prompt box. */
  | { readonly type: "fork"; readonly checkpointId: string; readonly text: string }
  /** Opens the settings at the named one. */
  | { readonly type: "setting"; readonly name: string }
  | { readonly type: "open"; readonly uri: string; readonly range?: Range }
  /** Copies code, or inserts it at the cursor of the editor. */
  | { readonly type: "copy" | "insert"; readonly text: string }
  /** Requests the colours of code in the theme with that id. */
  | { readonly type: "theme"; readonly id: string }
  | { readonly type: "path"; readonly path: string; readonly line?: number }
  | {
      readonly type:
        | CardButton["act"]
        | "setApiKey"
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
