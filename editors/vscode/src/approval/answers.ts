/** Texts and links that answer a permission request at the code and in a notification. */
import type { OptionKind, PermissionRequest } from "../protocol.ts";
import { type DiffRequest, nameOfOption, rulesToList, withoutLabel } from "../state/proposal.ts";
import { hides, nameOf, oneLine, pathOf } from "../state/text.ts";

/** Commands that the links of {@link answersAtCode} call. */
export const AT_CODE = ["approve", "approveAlways", "deny", "openDiff", "openBatch"].map(commandOf);

const MAX_NOTICE = 240;

/** The title of a request at the code, without characters that the editor HTML-escapes. */
export function labelAtCode({ title }: PermissionRequest): string {
  const like: Readonly<Record<string, string>> = { "<": "‹", ">": "›", "&": "＆" };
  return oneLine(title, 120).replace(/[<>&]/g, (character) => like[character] ?? character);
}

/** The answers as links of Markdown, with icons. */
export function answersAtCode(request: DiffRequest): string {
  const option = (icon: string, kind: OptionKind, verb: string): string => {
    const offered = request.options.find((one) => one.kind === kind);
    // Rules that its label does not contain are listed in the chat.
    return offered && rulesToList(request, offered).length === 0
      ? link(request, `$(${icon}) ${nameOfOption(request, offered)}`, verb)
      : "";
  };
  return [
    option("check", "allow_once", "approve"),
    option("check-all", "allow_always", "approveAlways"),
    option("close", "reject_once", "deny"),
    link(request, "$(diff) Open diff", "openDiff"),
    request.batch.size > 1 ? link(request, "$(files) Open all files", "openBatch") : "",
  ]
    .filter(Boolean)
    .join("&nbsp;&nbsp;&nbsp;");
}

/**
 * The text of the notification: agent, action and folder, with a link that approves, for one request among `more`
 * others. Its button denies. Only an agent's own command that is completely visible can be approved there: not a file's text, a long
 * command, one with hidden characters, or the start of an MCP server.
 */
export function notice(request: PermissionRequest, more: number): string {
  const { preview, reason = "" } = request;
  const isCommand = request.tool === "shell" && preview?.type === "command";
  const what = isCommand
    ? `[${nameOf(request.agent)}] needs approval to run: ${preview.command} (in ${pathOf(preview.cwd)})`
    : `[${nameOf(request.agent)}] needs approval: ${withoutLabel(request)}. ${reason}`.trim();
  const short = unlinked(oneLine(what, MAX_NOTICE));
  const approval = isCommand && short === what && !hides(preview.command) ? optionLink(request) : "";
  const answers = [approval, link(request, "Show", "show")].filter(Boolean).join("  ");
  return `${short} — ${answers}${more > 0 ? `  (${more} more)` : ""}`;
}

function optionLink(request: PermissionRequest): string {
  const offered = request.options.find(({ kind }) => kind === "allow_once");
  return offered ? link(request, nameOfOption(request, offered), "approve") : "";
}

function link({ requestId }: PermissionRequest, text: string, verb: string): string {
  return `[${text}](command:${commandOf(verb)}?${encodeURIComponent(JSON.stringify([requestId]))})`;
}

function commandOf(verb: string): string {
  return `deputy.question.${verb}`;
}

/** Notifications render Markdown links: text from a model must not become one. */
function unlinked(text: string): string {
  return text.replaceAll("](", "] (");
}
