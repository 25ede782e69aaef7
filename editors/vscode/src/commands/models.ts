/** The model of a session, its effort and its thinking. */
import * as vscode from "vscode";

import type { Effort, ListedModel, Thinking } from "../protocol.ts";
import { iconless, oneLine } from "../state/text.ts";
import type { Deputy } from "./deputy.ts";

const EFFORTS: readonly (readonly [Effort, string])[] = [
  ["low", "Fast and cheap"],
  ["medium", "For simple tasks"],
  ["high", "For most tasks"],
  ["xhigh", "For hard tasks"],
  ["max", "As much as the model can"],
];
const THINKING: readonly (readonly [Thinking, string, string])[] = [
  ["auto", "Auto", "Thinks when it helps"],
  ["off", "Off", "Answers without thinking, where the model can"],
  ["always", "Always", "Thinks before every answer, where the model can"],
];

/** Offers the models of the service; any other name can be entered. */
export async function setModel({ server, sessions }: Deputy): Promise<void> {
  await server.start();
  const listed = server.has("deputy/model/list") ? server.request("deputy/model/list", {}) : undefined;
  const current = sessions.current?.info?.model;
  let problem: string | undefined;
  const items = Promise.resolve(listed).then((answer) => {
    problem = answer?.problem;
    const models = answer?.models ?? (server.capabilities?.models ?? []).map(({ name }) => ({ name, provider: "" }));
    return [
      ...models.map((model) => ({ ...rowOf(model, model.name === current), id: model.name })),
      { label: "Other…", description: "Enter the name of a model", id: "" },
    ];
  });
  const chosen = await vscode.window.showQuickPick(items, { title: "Model of this session", matchOnDetail: true });
  if (problem) server.log.warn(problem);
  if (!chosen) return;
  const model = chosen.id || (await vscode.window.showInputBox({ title: "Name of the model" }))?.trim();
  if (!model) return;
  const state = await sessions.present();
  await sessions.setModel(state.sessionId, { model });
}

function rowOf(model: ListedModel, isCurrent: boolean): vscode.QuickPickItem {
  const { window, price, efforts } = model;
  const detail = [
    window ? `${window >= 1_000_000 ? `${window / 1_000_000}M` : `${Math.round(window / 1000)}k`} tokens` : "",
    price ? `$${price.input} in, $${price.output} out per million` : "",
    efforts?.length ? `effort ${efforts.join(", ")}` : "",
  ];
  return {
    label: `${isCurrent ? "$(check) " : ""}${iconless(oneLine(model.displayName ?? model.name, 80))}`,
    description: model.displayName ? iconless(oneLine(model.name, 80)) : "",
    detail: detail.filter(Boolean).join(" · "),
  };
}

/** Offers the levels that the model of the session has. */
export async function setEffort({ server, sessions }: Deputy): Promise<void> {
  const state = await sessions.present();
  const { models } = await server.request("deputy/model/list", {});
  const known = models.find(({ name }) => name === state.info?.model)?.efforts;
  if (known?.length === 0) {
    void vscode.window.showInformationMessage("This model has no levels of effort.");
    return;
  }
  const items = [
    { label: "Default", description: "From the agent definition or the settings", effort: "default" as const },
    ...EFFORTS.filter(([effort]) => known?.includes(effort) ?? true).map(([effort, description]) => ({
      label: effort,
      description,
      effort,
    })),
  ];
  const chosen = await vscode.window.showQuickPick(items, { title: "Effort of this session" });
  if (chosen) await sessions.setModel(state.sessionId, { effort: chosen.effort });
}

/** Offers the modes of thinking. */
export async function setThinking({ sessions }: Deputy): Promise<void> {
  const state = await sessions.present();
  const items = THINKING.map(([thinking, label, description]) => ({ label, description, thinking }));
  const chosen = await vscode.window.showQuickPick(items, { title: "When does the model think?" });
  if (chosen) await sessions.setModel(state.sessionId, { thinking: chosen.thinking });
}
