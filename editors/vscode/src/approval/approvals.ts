/** What the user can do with a question. Only the gestures here answer one. */
import * as vscode from "vscode";

import { isOpenAt, isThere } from "../editor.ts";
import type { PermissionOption, PermissionRequest } from "../protocol.ts";
import { optionOf, type Questions } from "../questions.ts";
import {
  editedInput,
  firstLine,
  hasPlace,
  hunksOf,
  isDiff,
  isOpenNotebook,
  inList,
  isSeenInList,
  STALE,
  type DiffRequest,
  withoutHunk,
} from "../state/proposal.ts";
import { nameOf, oneLine } from "../state/words.ts";
import type { Diffs } from "./diffs.ts";
import type { Proposals } from "./proposals.ts";
import type { Staleness } from "./staleness.ts";

/** Questions that a dialog lists. */
const MAX_LISTED = 20;

export class Approvals {
  readonly #questions: Questions;
  readonly #proposals: Proposals;
  readonly #staleness: Staleness;
  readonly #diffs: Diffs;

  constructor(questions: Questions, proposals: Proposals, staleness: Staleness, diffs: Diffs) {
    this.#questions = questions;
    this.#proposals = proposals;
    this.#staleness = staleness;
    this.#diffs = diffs;
  }

  /** Answers with one of the question's own options. */
  async choose(requestId: string, option: PermissionOption): Promise<void> {
    const request = this.#questions.get(requestId);
    if (!request) return this.#tooLate();
    const allows = option.kind === "allow_once" || option.kind === "allow_always";
    try {
      const input = allows && isDiff(request) ? this.#edited(request) : undefined;
      this.#questions.answer(requestId, option, input && { input });
    } catch (error) {
      void vscode.window.showInformationMessage((error as Error).message);
    }
  }

  /** Ends when the diffs of questions that were settled so far are closed. */
  get closing(): Promise<void> {
    return this.#diffs.closing;
  }

  async approve(requestId: string): Promise<void> {
    await this.#chooseKind(requestId, "allow_once");
  }

  /** Refuses, with words for the agent if there are any. */
  async deny(requestId: string, note = ""): Promise<void> {
    const request = this.#questions.get(requestId);
    if (!request) return this.#tooLate();
    this.#questions.answer(requestId, "reject_once", note.trim() ? { feedback: note.trim() } : {});
  }

  /** Asks for the reason first; closing the box leaves the question open. */
  async denyWithReason(requestId: string): Promise<void> {
    const request = this.#questions.get(requestId);
    if (!request) return this.#tooLate();
    const note = await vscode.window.showInputBox({
      title: `Deny ${oneLine(request.title, 80)}`,
      placeHolder: "What should the agent do instead?",
      prompt: "The agent reads this as the reason. Escape leaves the question open.",
    });
    if (note !== undefined) await this.deny(requestId, note);
  }

  /** Denies what one agent asks now. */
  async denyAgent(agentId: string): Promise<void> {
    for (const { requestId } of this.#of(agentId)) await this.deny(requestId);
  }

  /** Approves what one agent asks now, as much of it as can be seen whole in a list of it, which is shown first. */
  async approveAgent(agentId: string): Promise<void> {
    const asked = this.#of(agentId);
    const listed = asked.filter(isSeenInList).slice(0, MAX_LISTED);
    const [first] = listed;
    if (first) {
      const count = listed.length === 1 ? "this" : `these ${listed.length}`;
      const question = `Approve ${count} of ${nameOf(first.agent, 60)}?`;
      const detail = listed.map((request) => `• ${inList(request)}`).join("\n");
      if ((await vscode.window.showWarningMessage(question, { modal: true, detail }, "Approve")) !== "Approve") return;
      for (const { requestId } of listed) if (this.#questions.get(requestId)) await this.approve(requestId);
    }
    const [left] = asked.filter((request) => !listed.includes(request));
    if (!left) return;
    const words = `${oneLine(left.title, 100)} has to be looked at before it is approved.`;
    if ((await vscode.window.showInformationMessage(words, "Show")) === "Show")
      await vscode.commands.executeCommand("deputy.question.show", left.requestId);
  }

  #of(agentId: string): readonly PermissionRequest[] {
    return this.#questions.list().filter(({ agent }) => agent.agentId === agentId);
  }

  /**
   * The tool's input for what the user made of a proposal, if anything.
   *
   * @throws Error where that would come to nothing: the question stays, and what was typed with it.
   */
  #edited(request: DiffRequest): Readonly<Record<string, unknown>> | undefined {
    const input = editedInput(request, this.#proposals.text(request));
    const stale = this.#staleness.of(request.requestId);
    if (!input || !stale) return input;
    throw new Error(`${STALE[stale]} What you typed stays in the diff until you deny the change.`);
  }

  /** Goes to the place that a question is about: the code with the question at it, or, for a new file, its text. */
  async show(requestId: string): Promise<void> {
    const request = this.#questions.get(requestId);
    if (!request) return this.#tooLate();
    if (!isDiff(request)) {
      await vscode.commands.executeCommand("deputy.chat.focus");
      return;
    }
    const uri = vscode.Uri.parse(request.preview.uri);
    const isCell = isOpenNotebook(request.preview);
    if (!hasPlace(request) && !isCell) return this.openDiff(requestId);
    if (!(await isThere(uri))) {
      const name = vscode.workspace.asRelativePath(uri);
      void vscode.window.showWarningMessage(`${name} is not there any more: this is the change proposed for it.`);
      return this.openDiff(requestId);
    }
    if (isCell) {
      // As text it would be another document, with other lines than the agent has read.
      await vscode.commands.executeCommand("vscode.open", uri);
      return;
    }
    const line = firstLine(request);
    await vscode.window.showTextDocument(uri, { selection: new vscode.Range(line, 0, line, 0), preview: true });
  }

  /** The change as a diff, whose right side can be edited before it is approved. */
  async openDiff(requestId: string): Promise<void> {
    const request = this.#questions.get(requestId);
    if (!request || !isDiff(request)) return this.#tooLate();
    await this.#diffs.open(request);
  }

  /** All changes of the question's batch in one editor. */
  async openBatch(requestId: string): Promise<void> {
    const batch = this.#questions.get(requestId)?.batch.id;
    const requests = this.#questions.list().filter((request) => request.batch.id === batch);
    if (batch === undefined) return this.#tooLate();
    await this.#diffs.openAll(requests.filter(isDiff));
  }

  /** Puts one hunk of the proposal back to what the file has. */
  async rejectHunk(uri: vscode.Uri, index: number): Promise<void> {
    const request = this.#proposals.request(uri);
    if (!request) return this.#tooLate();
    const [before, after] = [request.preview.oldText ?? "", this.#proposals.text(request)];
    const hunk = hunksOf(before, after)[index];
    if (!hunk) return;
    const text = withoutHunk(before, after, hunk);
    const shown = vscode.workspace.textDocuments.find(isOpenAt(uri));
    // A save would let others change more than this, such as white space at the ends of lines.
    if (!shown?.isDirty) {
      this.#proposals.replace(request, text);
      return;
    }
    const edit = new vscode.WorkspaceEdit();
    edit.replace(uri, shown.validateRange(new vscode.Range(0, 0, shown.lineCount, 0)), text);
    await vscode.workspace.applyEdit(edit);
  }

  async #chooseKind(requestId: string, kind: PermissionOption["kind"]): Promise<void> {
    const option = optionOf(this.#questions.get(requestId), kind);
    if (option) await this.choose(requestId, option);
    else await this.#tooLate();
  }

  #tooLate(): Promise<void> {
    vscode.window.setStatusBarMessage("$(info) That question is settled already.", 4000);
    return Promise.resolve();
  }
}
