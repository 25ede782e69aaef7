/** Going back to the checkpoint before a prompt, and continuing from one in a new session. */
import * as vscode from "vscode";

import type { Mention, PastedImage, Unsent } from "../page/messages.ts";
import type { Checkpoint, SessionRewindParams, SessionRewindResult } from "../protocol.ts";
import type { Server } from "../server.ts";
import type { Sessions } from "../sessions.ts";
import { changedFile, type RewindPlan } from "../state/changes.ts";
import { lines, oneLine } from "../state/text.ts";

type Blocks = NonNullable<SessionRewindResult["prompt"]>;

export class Rewinds {
  readonly #server: Server;
  readonly #sessions: Sessions;

  constructor(server: Server, sessions: Sessions) {
    this.#server = server;
    this.#sessions = sessions;
  }

  /** The checkpoints of a session, newest first. */
  async list(sessionId: string): Promise<readonly Checkpoint[]> {
    return (await this.#server.request("deputy/checkpoint/list", { sessionId })).checkpoints;
  }

  /** What a rewind to before the message with that number would do; undefined if there is no checkpoint. */
  async planBefore(sessionId: string, seq: number): Promise<RewindPlan | undefined> {
    const { checkpoints, notes } = await this.#server.request("deputy/checkpoint/list", { sessionId });
    const [checkpoint] = checkpoints.filter((one) => one.seq < seq).sort((one, other) => other.seq - one.seq);
    return checkpoint && this.plan(sessionId, checkpoint, notes);
  }

  async plan(sessionId: string, checkpoint: Checkpoint, notes: readonly string[] = []): Promise<RewindPlan> {
    const { checkpointId, title } = checkpoint;
    const { files } = await this.#server.request("deputy/checkpoint/preview", { sessionId, checkpointId });
    return {
      checkpointId,
      title: oneLine(title, 120),
      notes,
      files: files.map((file) => ({
        ...changedFile(file, relativePath),
        ...(file.conflict && { conflict: oneLine(file.conflict, 300) }),
      })),
    };
  }

  /** Goes back, and returns the prompt that was gone back over, for the prompt box. */
  async rewind(params: SessionRewindParams): Promise<{ result: SessionRewindResult; prompt: Unsent | undefined }> {
    const result = await this.#server.request("deputy/session/rewind", params);
    return { result, prompt: result.prompt && unsent(result.prompt) };
  }

  /** Continues in a new session, from a checkpoint or from now, and shows it. */
  async fork(sessionId: string, checkpointId?: string): Promise<void> {
    const params = { sessionId, ...(checkpointId !== undefined && { checkpointId }) };
    const forked = await this.#server.request("deputy/session/fork", params);
    await this.#sessions.open(forked.sessionId);
  }
}

export function relativePath(uri: string): string {
  return vscode.workspace.asRelativePath(vscode.Uri.parse(uri));
}

/** A sent prompt as the prompt box has it. */
export function unsent(blocks: Blocks): Unsent {
  const mentions: Mention[] = [];
  const images: PastedImage[] = [];
  const texts: string[] = [];
  for (const block of blocks) {
    if (block.type === "text") texts.push(block.text);
    else if (block.type === "image") images.push({ mimeType: block.mimeType, data: block.data });
    else {
      const { uri, range } = block;
      const name = relativePath(uri);
      mentions.push(range ? { uri, label: `${name}:${lines(range)}`, range } : { uri, label: name });
    }
  }
  return { text: texts.join("\n\n"), mentions, images };
}
