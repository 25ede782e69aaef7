/** Commands about one agent. */
import * as vscode from "vscode";

import { iconless, nameOf } from "../state/text.ts";
import type { AgentItem } from "../views/agents.ts";
import type { CommandTable, Deputy } from "./deputy.ts";
import { unqueue } from "./queue.ts";

export function agentCommands(deputy: Deputy): CommandTable {
  const { server, sessions, panels } = deputy;
  const labelOf = ({ sessionId, agentId }: AgentItem): string => {
    const agent = sessions.get(sessionId)?.agents[agentId];
    return agent ? nameOf(agent, 40) : "the agent";
  };
  return {
    "deputy.agent.open": (item: AgentItem) => panels.open(item),
    "deputy.agent.cancel": (item: AgentItem) => server.request("deputy/agent/cancel", ids(item)),
    "deputy.agent.steer": async (item: AgentItem) => {
      const text = await vscode.window.showInputBox({
        title: `Message to ${labelOf(item)}`,
        prompt: "The agent reads it after its next tool results.",
      });
      if (!text?.trim()) return;
      await server.request("deputy/agent/message", { ...ids(item), text });
      vscode.window.setStatusBarMessage(
        `$(check) ${iconless(labelOf(item))} reads it after its next tool results.`,
        6000,
      );
    },
    "deputy.agent.revert": async (item: AgentItem) => {
      const message = `Revert all edits of ${labelOf(item)}?`;
      const detail = "Lines that were changed since are left alone, and their files are listed.";
      if ((await vscode.window.showWarningMessage(message, { modal: true, detail }, "Revert")) !== "Revert") return;
      const { reverted, conflicts } = await server.request("deputy/agent/revert", ids(item));
      const files = (uris: readonly string[]): string =>
        uris.map((uri) => vscode.workspace.asRelativePath(vscode.Uri.parse(uri))).join(", ");
      const done = reverted.length ? `Reverted ${files(reverted)}.` : "There was nothing to revert.";
      if (conflicts.length === 0) void vscode.window.showInformationMessage(done);
      else
        void vscode.window.showWarningMessage(
          `${done} Not reverted, because they were changed since: ${files(conflicts.map(({ uri }) => uri))}.`,
        );
    },
    "deputy.cancel": async () => {
      const state = sessions.current;
      if (!state) return;
      // Otherwise queued prompts would be lost with the turn.
      await unqueue(deputy, state.sessionId, state.queue);
      await server.request("deputy/session/cancel", { sessionId: state.sessionId });
    },
  };
}

/** Only the ids: menus may pass additional fields. */
function ids({ sessionId, agentId }: AgentItem): AgentItem {
  return { sessionId, agentId };
}
