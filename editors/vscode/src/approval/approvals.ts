/** The user's actions on permission requests. Requests are answered only here. */
import * as vscode from "vscode";

import { isOpenAt, isThere } from "../editor.ts";
import type { PermissionOption, PermissionRequest } from "../protocol.ts";
import { optionOf, type OpenRequests } from "../requests.ts";
import {
  editedInput,
  firstLine,
  hasPlace,
  hunksOf,
  isDiff,
  isLargeDiff,
  isOpenNotebook,
  inList,
  isSeenInList,
  STALE,
  type DiffRequest,
  withoutHunk,
} from "../state/proposal.ts";
import { shownSides } from "../state/shown.ts";
import { nameOf, oneLine } from "../state/text.ts";
import type { Server } from "../server.ts";
import type { Diffs } from "./diffs.ts";
import type { Proposals } from "./proposals.ts";
import type { Staleness } from "./staleness.ts";

/** Maximum number of requests in a dialog. */
const MAX_LISTED = 20;

export class Approvals {
  readonly #requests: OpenRequests;
  readonly #proposals: Proposals;
  readonly #staleness: Staleness;
  readonly #diffs: Diffs;
  readonly #server: Pick<Server, "request">;

  constructor(
    requests: OpenRequests,
    proposals: Proposals,
    staleness: Staleness,
    diffs: Diffs,
    server: Pick<Server, "request">,
  ) {
    this.#requests = requests;
    this.#proposals = proposals;
    this.#staleness = staleness;
    this.#diffs = diffs;
    this.#server = server;
  }

  /** Answers with one of the request's own options. */
  async choose(requestId: string, option: PermissionOption): Promise<void> {
    const request = this.#requests.get(requestId);
    if (!request) return this.#tooLate();
    const allows = option.kind === "allow_once" || option.kind === "allow_always";
    try {
      const input = allows && isDiff(request) ? this.#edited(request) : undefined;
      this.#requests.answer(requestId, option, input && { input });
    } catch (error) {
      void vscode.window.showInformationMessage((error as Error).message);
    }
  }

  /** Resolves when the diffs of settled requests are closed. */
  get closing(): Promise<void> {
    return this.#diffs.closing;
  }

  async approve(requestId: string): Promise<void> {
    await this.#chooseKind(requestId, "allow_once");
  }

  /** Denies, with a reason for the agent if there is one. */
  async deny(requestId: string, note = ""): Promise<void> {
    const request = this.#requests.get(requestId);
    if (!request) return this.#tooLate();
    this.#requests.answer(requestId, "reject_once", note.trim() ? { feedback: note.trim() } : {});
  }

  /** Asks for the reason first; closing the box leaves the request open. */
  async denyWithReason(requestId: string): Promise<void> {
    const request = this.#requests.get(requestId);
    if (!request) return this.#tooLate();
    const note = await vscode.window.showInputBox({
      title: `Deny ${oneLine(request.title, 80)}`,
      placeHolder: "What should the agent do instead?",
      prompt: "The agent reads this reason. Press Escape to leave the approval open.",
    });
    if (note !== undefined) await this.deny(requestId, note);
  }

  /** Denies all open requests of one agent. */
  async denyAgent(agentId: string): Promise<void> {
    for (const { requestId } of this.#of(agentId)) await this.deny(requestId);
  }

  /** Approves the open requests of one agent that a dialog can show completely, after the user confirms it. */
  async approveAgent(agentId: string): Promise<void> {
    const open = this.#of(agentId);
    const listed = open.filter(isSeenInList).slice(0, MAX_LISTED);
    const [first] = listed;
    const changes = listed.filter(isDiff);
    if (changes.length > 1) await this.#diffs.openAll(changes);
    if (first) {
      const count = listed.length === 1 ? "this request" : `these ${listed.length} requests`;
      const message = `Approve ${count} of ${nameOf(first.agent, 60)}?`;
      const detail = listed.map((request) => `• ${inList(request)}`).join("\n");
      if ((await vscode.window.showWarningMessage(message, { modal: true, detail }, "Approve")) !== "Approve") return;
      for (const { requestId } of listed) if (this.#requests.get(requestId)) await this.approve(requestId);
    }
    const [left] = open.filter((request) => !listed.includes(request));
    if (!left) return;
    const message = `Review ${oneLine(left.title, 100)} before you approve it.`;
    if ((await vscode.window.showInformationMessage(message, "Show")) === "Show")
      await vscode.commands.executeCommand("deputy.question.show", left.requestId);
  }

  /** Approves all edits of one agent until the turn ends, after the user has seen the open ones and confirms it. */
  async approveEdits(agentId: string): Promise<void> {
    const changes = this.#of(agentId).filter(isDiff);
    const [first] = changes;
    if (!first) return this.#tooLate();
    await (changes.length > 1 ? this.#diffs.openAll(changes) : this.#diffs.open(first));
    const message = `Approve all edits of ${nameOf(first.agent, 60)} for this turn?`;
    const detail = "Commands and protected files still need your approval.";
    if ((await vscode.window.showWarningMessage(message, { modal: true, detail }, "Approve")) !== "Approve") return;
    try {
      await this.#server.request("deputy/permission/approveEdits", { requestId: first.requestId });
    } catch (error) {
      void vscode.window.showInformationMessage((error as Error).message);
    }
  }

  #of(agentId: string): readonly PermissionRequest[] {
    return this.#requests.list().filter(({ agent }) => agent.agentId === agentId);
  }

  /**
   * The tool input for an edited proposal; undefined if it was not edited.
   *
   * @throws Error if the file has changed, so that the approval would fail; the request and the edits stay.
   */
  #edited(request: DiffRequest): Readonly<Record<string, unknown>> | undefined {
    const input = editedInput(request, this.#proposals.text(request));
    const stale = this.#staleness.of(request.requestId);
    if (!input || !stale) return input;
    throw new Error(`${STALE[stale]} Your edits stay in the diff until you deny the change.`);
  }

  /** Opens the location of a request: the code with the approval, or the proposed text of a new file. */
  async show(requestId: string): Promise<void> {
    const request = this.#requests.get(requestId);
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
      void vscode.window.showWarningMessage(`${name} no longer exists. This is the proposed change.`);
      return this.openDiff(requestId);
    }
    if (isCell) {
      // Opened as text, the lines would differ from those that the agent read.
      await vscode.commands.executeCommand("vscode.open", uri);
      return;
    }
    const line = firstLine(request);
    await vscode.window.showTextDocument(uri, { selection: new vscode.Range(line, 0, line, 0), preview: true });
  }

  /** Opens the change as a diff; its right side can be edited before it is approved. */
  async openDiff(requestId: string): Promise<void> {
    const shortened = this.#requests.get(requestId);
    if (shortened && isLargeDiff(shortened)) {
      const { preview } = await this.#server.request("deputy/permission/preview", { requestId });
      this.#requests.complete(requestId, preview);
    }
    const request = this.#requests.get(requestId);
    if (!request || !isDiff(request)) return this.#tooLate();
    await this.#diffs.open(request);
  }

  /** Opens all changes of the request's batch in one editor. */
  async openBatch(requestId: string): Promise<void> {
    const batch = this.#requests.get(requestId)?.batch.id;
    const requests = this.#requests.list().filter((request) => request.batch.id === batch);
    if (batch === undefined) return this.#tooLate();
    await this.#diffs.openAll(requests.filter(isDiff));
  }

  /** Resets one hunk of the proposal to the text of the file. */
  async rejectHunk(uri: vscode.Uri, index: number): Promise<void> {
    const request = this.#proposals.request(uri);
    if (!request) return this.#tooLate();
    const [{ before }, after] = [shownSides(request.preview), this.#proposals.shownText(request)];
    const hunk = hunksOf(before, after)[index];
    if (!hunk) return;
    const text = withoutHunk(before, after, hunk);
    const shown = vscode.workspace.textDocuments.find(isOpenAt(uri));
    // Without saving, because other extensions may change more on save, such as trailing white space.
    if (!shown?.isDirty) {
      this.#proposals.replace(request, text);
      return;
    }
    const edit = new vscode.WorkspaceEdit();
    edit.replace(uri, shown.validateRange(new vscode.Range(0, 0, shown.lineCount, 0)), text);
    await vscode.workspace.applyEdit(edit);
  }

  async #chooseKind(requestId: string, kind: PermissionOption["kind"]): Promise<void> {
    const option = optionOf(this.#requests.get(requestId), kind);
    if (option) await this.choose(requestId, option);
    else await this.#tooLate();
  }

  #tooLate(): Promise<void> {
    vscode.window.setStatusBarMessage("$(info) That request is already settled.", 4000);
    return Promise.resolve();
  }
}
