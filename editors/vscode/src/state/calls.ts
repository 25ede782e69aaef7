/** Tool calls in words: what an agent does or did, and runs of calls as one line. */
import type { ToolCallEntry, ToolStatus } from "../protocol.ts";
import type { CallTimes, Entry } from "./session.ts";
import { elapsed, oneLine } from "./text.ts";

/** The words for a tool: `Could not ${base}`, while it runs, and after it ran. */
interface Verb {
  readonly base: string;
  readonly doing: string;
  readonly done: string;
  /** What a group of such calls counts, in singular and plural. */
  readonly counted?: readonly [string, string];
}

const VERBS: Readonly<Record<string, Verb>> = {
  read_file: { base: "read", doing: "Reading", done: "Read", counted: ["file", "files"] },
  list_dir: { base: "list", doing: "Listing", done: "Listed", counted: ["folder", "folders"] },
  glob: { base: "find", doing: "Finding", done: "Found", counted: ["pattern", "patterns"] },
  grep: { base: "search", doing: "Searching", done: "Searched", counted: ["pattern", "patterns"] },
  lookup: { base: "look up", doing: "Looking up", done: "Looked up", counted: ["symbol", "symbols"] },
  diagnostics: { base: "check problems", doing: "Checking problems", done: "Checked problems" },
  edit_file: { base: "edit", doing: "Editing", done: "Edited" },
  write_file: { base: "write", doing: "Writing", done: "Wrote" },
  shell: { base: "run", doing: "Running", done: "Ran" },
  process: { base: "check process", doing: "Checking process", done: "Checked process" },
  web_fetch: { base: "fetch", doing: "Fetching", done: "Fetched", counted: ["page", "pages"] },
  web_search: { base: "search the web for", doing: "Searching the web for", done: "Searched the web for" },
  todo: { base: "update the plan", doing: "Updating the plan", done: "Updated the plan" },
  ask_user: { base: "ask", doing: "Asking", done: "Asked" },
  tool_search: { base: "find tools", doing: "Finding tools", done: "Found tools" },
  skill: { base: "use skill", doing: "Using skill", done: "Used skill" },
};

/** Fewer calls are shown one by one. */
const MIN_GROUP = 3;
/** Milliseconds from which the time of an ended command is shown. */
const NOTICEABLE = 1000;

export interface Phrase {
  readonly verb: string;
  /** What the tool is used on, such as a path or a command. */
  readonly target: string;
}

/** `Read` and `a.py`, `Running` and `make test`, `Could not edit` and `a.py`. */
export function phraseOf({ tool, title, status }: Pick<ToolCallEntry, "tool" | "title" | "status">): Phrase {
  const verb = VERBS[tool] ?? { base: `use ${tool}`, doing: `Using ${tool}`, done: `Used ${tool}` };
  return { verb: inStatus(verb, status, tool), target: targetOf(title, tool) };
}

/** The activity of an agent, `tool target`, in the same words. */
export function activityOf(text: string): string {
  const [, tool = "", target = ""] = /^(\w+)\s*(.*)$/s.exec(text) ?? [];
  const verb = VERBS[tool];
  return verb ? `${verb.doing} ${target}`.trim() : text;
}

/** What came of a call, such as `exit 1` and `4 s`. */
export function outcomeOf(entry: ToolCallEntry, times: CallTimes | undefined, now: number): readonly string[] {
  const { tool, status, content = "" } = entry;
  if (status === "failed" && content.startsWith("Denied")) return ["denied"];
  if (tool !== "shell") return [];
  const [, code] = /\[exit code (\d+)\]/.exec(content.slice(-500)) ?? [];
  const exit = code ?? (status === "completed" && entry.input["background"] !== true ? "0" : "");
  return [exit && `exit ${exit}`, timeOf(times, now)].filter(Boolean);
}

/** A run of completed calls that only read. */
export interface CallGroup {
  readonly type: "calls";
  readonly seq: number;
  readonly calls: readonly ToolCallEntry[];
}

/** The entries, with one group in place of each run of at least three completed calls that only read. */
export function grouped(entries: readonly Entry[]): readonly (Entry | CallGroup)[] {
  const items: (Entry | CallGroup)[] = [];
  let run: ToolCallEntry[] = [];
  const close = (): void => {
    const [first] = run;
    if (first && run.length >= MIN_GROUP) items.push({ type: "calls", seq: first.seq, calls: run });
    else items.push(...run);
    run = [];
  };
  for (const entry of entries) {
    if (entry.type === "tool_call" && entry.status === "completed" && VERBS[entry.tool]?.counted) run.push(entry);
    else {
      close();
      items.push(entry);
    }
  }
  close();
  return items;
}

/** `Read 10 files, searched 4 patterns`. A file that was read twice counts once. */
export function summaryOf(calls: readonly ToolCallEntry[]): string {
  const targets = new Map<string, Set<string>>();
  for (const { tool, title } of calls) {
    const target = targetOf(title, tool).replace(/:\d+(-\d+)?$| \d+-\d+$/, "");
    targets.set(tool, (targets.get(tool) ?? new Set()).add(target));
  }
  const parts = [...targets].map(([tool, { size }]) => {
    const { done, counted: [one, many] = ["", ""] } = VERBS[tool] ?? { done: "" };
    return `${done} ${size} ${size === 1 ? one : many}`;
  });
  const [first = "", ...rest] = parts;
  return [first, ...rest.map((part) => part.charAt(0).toLowerCase() + part.slice(1))].join(", ");
}

function inStatus({ base, doing, done }: Verb, status: ToolStatus, tool: string): string {
  if (status === "pending" || status === "in_progress") return doing;
  // A command that fails did run.
  return status === "failed" && tool !== "shell" ? `Could not ${base}` : done;
}

/** The target in a title such as `[label] tool(target)`. */
function targetOf(title: string, tool: string): string {
  const start = title.indexOf(`${tool}(`);
  const target = start < 0 || !title.endsWith(")") ? title : title.slice(start + tool.length + 1, -1);
  return oneLine(target, 300);
}

function timeOf(times: CallTimes | undefined, now: number): string {
  if (!times) return "";
  const took = (times.ended === undefined ? now : Date.parse(times.ended)) - Date.parse(times.began);
  return took < NOTICEABLE ? "" : elapsed(took);
}
