/** Commands about the server: install, repair, remove, restart. */
import { homedir } from "node:os";

import * as vscode from "vscode";

import { downloadOf } from "../install/card.ts";
import type { Tool } from "../install/machine.ts";
import type { CommandTable, Deputy } from "./deputy.ts";

export function serverCommands(deputy: Deputy): CommandTable {
  const { server, sessions, setup } = deputy;
  return {
    "deputy.server.install": async () => {
      if (setup.state.phase !== "installing") {
        await setup.check();
        const isRepair = setup.state.phase === "ready";
        const title = isRepair ? "Repair Deputy's installed server?" : (setup.card?.title ?? "Install Deputy's server");
        const tool = await setup.findTool();
        const stopped = sessions.isAnyBusy ? "Running agents are stopped. " : "";
        const detail = stopped + downloadOf({ tool }, { remote: vscode.env.remoteName, home: homedir() });
        const choice = isRepair ? "Repair" : "Install";
        if ((await vscode.window.showInformationMessage(title, { modal: true, detail }, choice)) !== choice) return;
        void installServer(deputy, tool);
      }
      await vscode.commands.executeCommand("deputy.chat.focus");
    },
    "deputy.server.remove": async () => {
      const message = "Remove the server that Deputy has installed?";
      const detail = "Its folder is deleted. Sessions and settings stay. Running agents are stopped.";
      if ((await vscode.window.showWarningMessage(message, { modal: true, detail }, "Remove")) !== "Remove") return;
      await server.stop();
      await setup.remove();
    },
    "deputy.restartServer": async () => {
      const message = "Restart Deputy's server while agents are working?";
      const detail =
        "Running turns are interrupted and open approvals are closed. You can continue the turns afterwards.";
      if (
        sessions.isAnyBusy &&
        server.state === "running" &&
        (await vscode.window.showWarningMessage(message, { modal: true, detail }, "Restart")) !== "Restart"
      )
        return;
      deputy.requests.clear();
      await server.restart();
    },
    "deputy.showLog": () => server.log.show(),
  };
}

/** Installs the server, and starts it, without a question: the user has read what is downloaded. */
export async function installServer({ server, setup }: Deputy, tool: Tool | undefined): Promise<void> {
  await server.stop();
  await setup.install(tool);
  if (setup.state.phase === "ready") await server.start();
}
