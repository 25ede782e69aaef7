/** Questions of agents and MCP servers: a notification leads to the chat, where the user answers them. */
import * as vscode from "vscode";

import type { InputRequest, InputResponse } from "../protocol.ts";
import { notifiesOfRequests } from "../settings.ts";
import { oneLine } from "../state/text.ts";

/**
 * Announces a question. The chat answers it with `deputy/input/answer`; the request stays pending until the server
 * withdraws it, because the question is settled, here or elsewhere.
 */
export function questioned(request: InputRequest, token: vscode.CancellationToken): Promise<InputResponse> {
  if (notifiesOfRequests()) void announce(request);
  return new Promise((resolve) => token.onCancellationRequested(() => resolve({ outcome: "cancelled" })));
}

async function announce({ requestId, sessionId, title }: InputRequest): Promise<void> {
  const chosen = await vscode.window.showInformationMessage(`Question: ${oneLine(title, 200)}`, "Show");
  if (chosen) await vscode.commands.executeCommand("deputy.input.show", { requestId, sessionId });
}
