/** What stands at the code and in a notification to answer a question with. Each link names its question by its id. */
import type { OptionKind, PermissionRequest } from "../protocol.ts";
import { type DiffRequest, nameOfOption, withoutLabel } from "../state/proposal.ts";
import { hides, nameOf, oneLine, pathOf } from "../state/words.ts";

/** Commands that the links of {@link answersAtCode} call. */
export const AT_CODE = ["approve", "approveAlways", "deny", "openDiff", "openBatch"].map(commandOf);

const MAX_NOTICE = 240;

/** What stands over a question. The editor shows it as text, and escapes it as if it were HTML, so nothing may be escaped. */
export function labelAtCode({ title }: PermissionRequest): string {
  const like: Readonly<Record<string, string>> = { "<": "‹", ">": "›", "&": "＆" };
  return oneLine(title, 120).replace(/[<>&]/g, (character) => like[character] ?? character);
}

/** The answers as links of Markdown, with icons. */
export function answersAtCode(request: DiffRequest): string {
  const option = (icon: string, kind: OptionKind, verb: string): string => {
    const offered = request.options.find((one) => one.kind === kind);
    return offered ? link(request, `$(${icon}) ${nameOfOption(request, offered)}`, verb) : "";
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
 * Who wants what and where, with links to the answers, of one question among `more` others. Only an agent's own command
 * that is shown whole can be approved there: not a file's text, a long command or one with hidden characters, nor a
 * program that stays and gives agents tools.
 */
export function notice(request: PermissionRequest, more: number): string {
  const { preview, reason = "" } = request;
  const isCommand = request.tool === "shell" && preview?.type === "command";
  const what = isCommand
    ? `[${nameOf(request.agent)}] wants to run: ${preview.command} (in ${pathOf(preview.cwd)})`
    : `[${nameOf(request.agent)}] asks: ${withoutLabel(request)}. ${reason}`.trim();
  const short = unlinked(oneLine(what, MAX_NOTICE));
  const approval = isCommand && short === what && !hides(preview.command) ? optionLink(request) : "";
  const answers = [approval, link(request, "Show", "show"), "Cancel denies it."].filter(Boolean).join("  ");
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

/** Notifications make links of Markdown links: words of a model must not become one. */
function unlinked(text: string): string {
  return text.replaceAll("](", "] (");
}
