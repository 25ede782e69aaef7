/**
 * How far the settings of a workspace reach. Whoever writes the files of a workspace writes its settings too, so they
 * never give agents more power than the user has given them. This is enforced here in addition to the scopes in the
 * manifest, because the editor applies scopes only to settings written as one key, not to nested ones as in
 * `{"deputy": {"hooks": […]}}`.
 */

/** The values of a setting, undefined where it is not set. */
export interface Layers {
  readonly preset: unknown;
  readonly user: unknown;
  /** The values of the workspace; later ones are more specific. */
  readonly workspace: readonly unknown[];
}

export interface Effective {
  readonly value: unknown;
  /** Whether the workspace has a value, or a part of one, that does not apply. */
  readonly ignored: boolean;
}

/** The value that results when a workspace's value restricts the user's. */
type Restrict = (user: unknown, workspace: unknown) => Effective;

/** `user`: only the user's value applies. `any`: the workspace's value takes precedence. */
type Reach = "user" | "any" | Restrict;

/** Permission modes; each one asks less than the one before. */
const MODES: readonly unknown[] = ["plan", "default", "accept_edits", "bypass"];

const stricterMode: Restrict = (user, workspace) => {
  const at = MODES.indexOf(workspace);
  // An invalid value of the user is sent, because the server's error names the setting.
  const isStricter = at >= 0 && at <= MODES.indexOf(user ?? "default");
  return { value: isStricter ? workspace : user, ignored: !isStricter };
};

/** The user's rules, and those of the workspace that deny or ask. */
const moreRules: Restrict = (user, workspace) => {
  const rules: readonly unknown[] = Array.isArray(workspace) ? workspace : [workspace];
  const kept = rules.filter((rule) => ["deny", "ask"].includes((rule as { action?: string } | null)?.action ?? ""));
  const own = user ?? [];
  const value = kept.length > 0 && Array.isArray(own) ? [...(own as unknown[]), ...kept] : user;
  return { value, ignored: kept.length < rules.length };
};

/** A switch that the workspace can set to `value` but not to the opposite. */
const only =
  (value: boolean): Restrict =>
  (user, workspace) =>
    workspace === value ? { value, ignored: false } : { value: user, ignored: true };

/** A limit that the workspace can lower. Without a value there is no limit. */
const lower: Restrict = (user, workspace) => {
  const isLower = typeof workspace === "number" && workspace > 0 && !(typeof user === "number" && user < workspace);
  return { value: isLower ? workspace : user, ignored: !isLower };
};

/** Every setting in the manifest, without the prefix `deputy.`. One that is missing here reaches as `user`. */
export const REACH: Readonly<Record<string, Reach>> = {
  // Programs, and the environment that they get.
  "server.path": "user",
  "server.python": "user",
  hooks: "user",
  mcpServers: "user",
  "shell.env": "user",
  "shell.isolation": "user",
  "shell.sandboxHosts": "user",
  // Where the key and the prompts go.
  baseUrl: "user",
  providers: "user",
  "api.keyCommand": "user",
  "api.keyring": "user",
  "api.headers": "user",
  "api.proxy": "user",
  "api.connectTimeout": "user",
  "api.idleTimeout": "user",
  // What agents can reach, and what is deleted.
  roots: "user",
  "web.allowPrivate": "user",
  "sessions.keepDays": "user",
  // What agents may do.
  permissionMode: stricterMode,
  "permissions.rules": moreRules,
  "permissions.readingCommands": only(false),
  "shell.sandbox": only(true),
  "shell.autoApproveSandboxed": only(false),
  "web.enabled": only(false),
  "web.search": only(false),
  "agents.enabled": only(false),
  "budgets.agent.tokens": lower,
  "budgets.agent.cost": lower,
  "budgets.agent.toolCalls": lower,
  "budgets.agent.replies": lower,
  "budgets.agent.seconds": lower,
  "budgets.tree.tokens": lower,
  "budgets.tree.cost": lower,
  "budgets.tree.toolCalls": lower,
  "budgets.tree.replies": lower,
  "budgets.tree.seconds": lower,
  // How agents work.
  model: "any",
  smallModel: "any",
  fallbackModel: "any",
  effort: "any",
  thinking: "any",
  "agents.models": "any",
  maxTokens: "any",
  "agents.maxParallel": "any",
  "agents.maxParallelPerParent": "any",
  "agents.queue": "any",
  "agents.maxDepth": "any",
  "agents.parallelWriters": "any",
  "agents.timeout": "any",
  "agents.wakeOnTaskEnd": "any",
  "limits.resultBytes": "any",
  "limits.aggregateBytes": "any",
  "limits.promptQueue": "any",
  "limits.turnIterations": "any",
  "limits.cancelGrace": "any",
  "permissions.reconnectGrace": "any",
  "review.hints": "any",
  "shell.timeout": "any",
  // What the editor shows.
  "notifications.questions": "any",
  "trace.server": "any",
};

/** The value of a setting that applies. Nothing of an untrusted workspace does. */
export function effective(name: string, { preset, user, workspace }: Layers, isTrusted: boolean): Effective {
  const reach = isTrusted ? (REACH[name] ?? "user") : "user";
  let found: Effective = { value: user, ignored: false };
  for (const own of workspace) {
    if (own === undefined || isSame(own, found.value ?? preset)) continue;
    if (reach === "any") found = { ...found, value: own };
    else if (reach === "user") found = { ...found, ignored: true };
    else {
      const { value, ignored } = reach(found.value, own);
      found = { value, ignored: found.ignored || ignored };
    }
  }
  return found;
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/**
 * The names of settings in the text of a settings file that only the user can set. The editor itself ignores them there,
 * and does not report them to extensions.
 *
 * @param file the parsed content of the file
 */
export function settingsOfUserIn(file: unknown): readonly string[] {
  return Object.keys(REACH).filter((name) => REACH[name] === "user" && has(file, ["deputy", ...name.split(".")]));
}

/** Whether an object has a value at a path. A key can contain several parts of the path. */
function has(tree: unknown, path: readonly string[]): boolean {
  if (typeof tree !== "object" || tree === null) return false;
  return path.some((_, index) => {
    const [key, rest] = [path.slice(0, index + 1).join("."), path.slice(index + 1)];
    return Object.hasOwn(tree, key) && (rest.length === 0 || has((tree as Record<string, unknown>)[key], rest));
  });
}

/** The paths and values in `section`, the settings of the extension as the user wrote them, that are not `declared`. */
export function undeclared(
  declared: readonly string[],
  section: Readonly<Record<string, unknown>>,
  above: readonly string[] = [],
): readonly (readonly [readonly string[], unknown])[] {
  return Object.entries(section).flatMap(([key, value]) => {
    const path = [...above, key];
    const name = path.join(".");
    if (typeof value === "function" || declared.includes(name)) return [];
    if (declared.some((one) => one.startsWith(`${name}.`)) && typeof value === "object" && value !== null)
      return undeclared(declared, value as Readonly<Record<string, unknown>>, path);
    return [[path, value] as const];
  });
}
