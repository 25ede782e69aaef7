/** Commands about sessions, and the key. */
import * as vscode from "vscode";

import { exact, iconless, modeOf, oneLine, PERMISSION_MODES } from "../state/text.ts";
import type { PermissionMode, SessionInfo } from "../protocol.ts";
import { isBusy, type SessionState } from "../state/session.ts";
import type { CommandTable, Deputy } from "./deputy.ts";
import { setEffort, setModel, setThinking } from "./models.ts";

const FORMATS = [
  { label: "Markdown", format: "markdown", language: "markdown" },
  { label: "JSON", format: "json", language: "json" },
] as const;

export function sessionCommands(deputy: Deputy): CommandTable {
  const { server, sessions, history } = deputy;
  const sessionOf = (item?: SessionInfo): SessionInfo | undefined => item ?? sessions.current?.info;
  const archiving = (archived: boolean) => async (item?: SessionInfo) => {
    const session = sessionOf(item);
    if (!session) return;
    await server.request("deputy/session/archive", { sessionId: session.sessionId, archived });
    history.refresh();
  };
  return {
    "deputy.session.new": async () => {
      const before = sessions.current;
      await sessions.create();
      await vscode.commands.executeCommand("deputy.chat.focus");
      if (before && isBusy(before)) void notifyStillRunning(deputy, before);
    },
    "deputy.session.open": async (item?: SessionInfo) => {
      const chosen = item ?? (await pickSession(deputy));
      if (!chosen) return;
      await sessions.open(chosen.sessionId);
      await vscode.commands.executeCommand("deputy.chat.focus");
    },
    "deputy.session.more": () => history.showMore(),
    "deputy.session.rename": async (item?: SessionInfo) => {
      const session = sessionOf(item);
      if (!session) return;
      const title = await vscode.window.showInputBox({ title: "Rename session", value: session.title });
      if (!title?.trim()) return;
      await server.request("deputy/session/rename", { sessionId: session.sessionId, title: title.trim() });
      history.refresh();
    },
    "deputy.session.archive": archiving(true),
    "deputy.session.unarchive": archiving(false),
    "deputy.session.delete": async (item?: SessionInfo) => {
      const session = sessionOf(item);
      if (!session) return;
      const message = `Delete the session "${oneLine(session.title, 60)}"?`;
      const detail = "Its agents are stopped and its transcripts are deleted permanently. Files are not changed.";
      if ((await vscode.window.showWarningMessage(message, { modal: true, detail }, "Delete")) !== "Delete") return;
      await server.request("deputy/session/delete", { sessionId: session.sessionId });
      sessions.forget(session.sessionId);
      history.refresh();
    },
    "deputy.session.export": async (item?: SessionInfo) => {
      const session = sessionOf(item);
      const chosen = session && (await vscode.window.showQuickPick(FORMATS, { title: "Export the session as" }));
      if (!session || !chosen) return;
      const { text } = await server.request("deputy/session/export", {
        sessionId: session.sessionId,
        format: chosen.format,
      });
      const document = await vscode.workspace.openTextDocument({ content: text, language: chosen.language });
      await vscode.window.showTextDocument(document);
    },
    "deputy.setMode": () => setMode(deputy),
    "deputy.cycleMode": () => cycleMode(deputy),
    "deputy.setModel": () => setModel(deputy),
    "deputy.setEffort": () => setEffort(deputy),
    "deputy.setThinking": () => setThinking(deputy),
    "deputy.rules": () => showRules(deputy),
    "deputy.setApiKey": () => deputy.key.ask(),
  };
}

const UNARCHIVE: vscode.QuickInputButton = {
  iconPath: new vscode.ThemeIcon("discard"),
  tooltip: "Unarchive Session",
};

/** Lists archived sessions below the others, each with an unarchive button. */
async function pickSession({ sessions: known }: Deputy): Promise<SessionInfo | undefined> {
  const picker = vscode.window.createQuickPick<vscode.QuickPickItem & { readonly session?: SessionInfo }>();
  const list = async (): Promise<void> => {
    const { sessions, problem } = await known.list(100, true);
    if (problem) picker.placeholder = oneLine(problem, 200);
    const rows = (archived: boolean): typeof picker.items =>
      sessions
        .filter((session) => session.archived === archived)
        .map((session) => ({
          label: iconless(oneLine(session.title, 80)) || "New session",
          description: new Date(session.updatedAt).toLocaleString(),
          buttons: archived ? [UNARCHIVE] : [],
          session,
        }));
    const archive = rows(true);
    const head = { label: "Archived", kind: vscode.QuickPickItemKind.Separator };
    picker.items = archive.length ? [...rows(false), head, ...archive] : rows(false);
  };
  picker.title = "Open session";
  await list();
  picker.onDidTriggerItemButton(async ({ item }) => {
    await vscode.commands.executeCommand("deputy.session.unarchive", item.session);
    await list();
  });
  const chosen = new Promise<SessionInfo | undefined>((resolve) => {
    picker.onDidAccept(() => resolve(picker.selectedItems[0]?.session));
    picker.onDidHide(() => resolve(undefined));
  });
  picker.show();
  return chosen.finally(() => picker.dispose());
}

async function setMode({ sessions, requests }: Deputy): Promise<void> {
  // Until the folder is trusted, the mode is always plan.
  if (!vscode.workspace.isTrusted) return vscode.commands.executeCommand("workbench.trust.manage");
  const state = await sessions.present();
  const items = PERMISSION_MODES.map((mode) => ({ label: modeOf(mode).name, description: modeOf(mode).about, mode }));
  const chosen = await vscode.window.showQuickPick(items, { title: "What may agents do without approval?" });
  if (!chosen) return;
  const open = requests.list().filter(({ sessionId }) => sessionId === state.sessionId);
  if (!(await isConfirmed(chosen.mode, open.length))) return;
  await sessions.setMode(state.sessionId, chosen.mode);
}

/** Goes to the next mode by key; never to the one that asks for nothing. */
async function cycleMode({ sessions, requests }: Deputy): Promise<void> {
  if (!vscode.workspace.isTrusted) return vscode.commands.executeCommand("workbench.trust.manage");
  const state = await sessions.present();
  const modes: readonly PermissionMode[] = PERMISSION_MODES.filter((mode) => mode !== "bypass");
  const at = modes.indexOf(state.info?.permissionMode ?? "default");
  const next = modes[(at + 1) % modes.length] ?? "default";
  const open = requests.list().filter(({ sessionId }) => sessionId === state.sessionId);
  if (!(await isConfirmed(next, open.length))) return;
  await sessions.setMode(state.sessionId, next);
  vscode.window.setStatusBarMessage(`$(shield) Permission mode: ${modeOf(next).name}`, 4000);
}

/** Asks for confirmation of a mode that asks less, because it also approves open requests. */
async function isConfirmed(mode: PermissionMode, open: number): Promise<boolean> {
  if (mode !== "bypass" && !(mode === "accept_edits" && open > 0)) return true;
  const { name, about } = modeOf(mode);
  const effect = `It also approves what it allows of the ${open === 1 ? "open request" : `${open} open requests`}.`;
  const detail = `From now on: ${about}.${open ? ` ${effect}` : ""}`;
  return (await vscode.window.showWarningMessage(`Switch to ${name}?`, { modal: true, detail }, name)) === name;
}

async function showRules({ server, sessions }: Deputy): Promise<void> {
  const sessionId = sessions.current?.sessionId;
  if (!sessionId) return;
  const { rules } = await server.request("deputy/rule/list", { sessionId });
  const items = rules.map((rule) => ({
    label: iconless(`${rule.action}: ${rule.tool}${rule.pattern ? `(${exact(rule.pattern, "")})` : ""}`),
    description: `from ${oneLine(rule.source)}`,
    rule,
  }));
  const title = items.length ? "Permission rules: select one to remove it" : "This session has no permission rules";
  const chosen = await vscode.window.showQuickPick(items, { title });
  if (!chosen) return;
  const { ruleId, source, saved: isSaved = false } = chosen.rule;
  const where = [
    { label: "Remove for this session", saved: false },
    { label: `Remove from ${oneLine(source)}`, saved: true },
  ];
  const removed = isSaved ? await vscode.window.showQuickPick(where, { title: iconless(chosen.label) }) : where[0];
  if (removed) await server.request("deputy/rule/remove", { sessionId, ruleId, saved: removed.saved });
}

/** Reports that the session shown before is still running. */
async function notifyStillRunning({ sessions }: Deputy, { sessionId, info }: SessionState): Promise<void> {
  const message = `"${oneLine(info?.title ?? "", 60) || "The previous session"}" is still running. Find it in Sessions.`;
  if ((await vscode.window.showInformationMessage(message, "Show")) === "Show") await sessions.open(sessionId);
}
