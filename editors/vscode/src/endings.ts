/** How the last turns ended, across reloads of the window: a loaded session does not tell it. */
import type * as vscode from "vscode";

import type { SessionLoadResult, TurnFinished } from "./protocol.ts";
import type { SessionState } from "./state/session.ts";

const ENDED = "deputy.ended";
/** Sessions of which it is kept. */
const KEPT = 20;

type Ended = NonNullable<SessionState["ended"]>;

interface Ending {
  readonly sessionId: string;
  readonly seq: number;
  readonly ended: Ended;
}

export class Endings {
  readonly #memory: vscode.Memento;

  constructor(memory: vscode.Memento) {
    this.#memory = memory;
  }

  remember({ sessionId, seq, stopReason, error }: TurnFinished): void {
    const others = this.#all().filter((one) => one.sessionId !== sessionId);
    const ending: Ending = { sessionId, seq, ended: { stopReason, ...(error && { error }) } };
    void this.#memory.update(ENDED, [...others, ending].slice(-KEPT));
  }

  /** Undefined when another prompt came after the turn that is known of. */
  of({ session, transcript }: SessionLoadResult): Ended | undefined {
    const ending = this.#all().find(({ sessionId }) => sessionId === session.sessionId);
    if (!ending) return undefined;
    const goesOn = transcript.some(
      (entry) => entry.type === "message" && entry.role === "user" && entry.seq > ending.seq,
    );
    return goesOn ? undefined : ending.ended;
  }

  #all(): readonly Ending[] {
    return this.#memory.get<readonly Ending[]>(ENDED, []);
  }
}
