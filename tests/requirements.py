"""What Deputy promises, row by row.

A row that is ``PROVEN`` has at least one test marked ``@pytest.mark.requirement("<id>")``; a ``PLANNED`` one has
none yet. ``tests/test_requirements.py`` keeps the two in step.
"""

from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    PROVEN = "proven"
    PLANNED = "planned"


class Requirement(NamedTuple):
    sentence: str
    state: State


PROVEN = frozenset(
    """
    A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11 A12
    B1 B2 B3 B4 B5 B6 B7 B8 B9 B10
    C1 C2 C3 C4 C5 C6 C7 C8 C9 C10
    D1 D2 D3 D4 D5 D6 D7 D8 D9 D10 D11 D12 D13
    E1 E2 E3 E4 E5 E6 E7 E8 E9 E10 E11 E12 E13 E14 E15 E16 E17 E18 E19 E20
    L1 L2 L3 L4
    M1 M2 M3 M4 M5 M6 M7 M8 M9 M10 M11
    P1 P2 P3 P4 P5 P6 P7 P8
    X1 X2 X3 X4 X5 X6 X7 X8 X9 X10 X11 X12 X13 X14 X15 X16 X17 X18 X19 X20 X21 X22 X23 X25 X26 X27 X28
    R1 R2 R3 R4 R5 R6 R7 R8 R9 R10
    N1 N2 N3 N4
    Q1 Q2 Q3 Q4 Q5 Q6 Q7 Q8 Q9 Q10
    """.split()  # noqa: SIM905 - a list of them would fill a page
)
"""Ids that tests prove. Everything else is planned."""

SENTENCES: dict[str, str] = {
    # M · models
    "M1": (
        "Models think as the setting says, as far as they can; thinking survives tool loops, resume and compaction, is "
        "left out after a change of the model, and stays visible after the turn, folded"
    ),
    "M2": (
        "Effort and model are set by the user, for a session, by a definition and for a child; a child inherits only "
        "what its definition does not set; the tree shows both"
    ),
    "M3": "`deputy/model/list` has the models of the service with their capabilities, else those on the cards",
    "M4": "Models of several providers behind one port, chosen by a prefix of the name; one suite for every adapter",
    "M5": "A conversation's requests start with the same bytes, and its cache outlives waits for children and users",
    "M6": "Many MCP tools cost few bytes of each request",
    "M7": "Use of the context window is visible; compaction keeps the task, decisions, open work and files",
    "M8": (
        "At the start, agents know system, date, Git state, languages and folders; the built-in definitions say how to "
        "verify, delegate and report"
    ),
    "M9": "The first request leaves within 30 ms of the first prompt; an idle server stays small",
    "M10": "A fallback model replaces one that stays overloaded, and the user is told; off by default",
    "M11": "A child's label is the title that its parent gave it; without one, the beginning of its task",
    # P · the product
    "P1": "A pygls 2 language server runs the agent loop; stdio is the default, TCP and WebSocket are options",
    "P2": "Each running sub-agent block streams to the editor as custom notifications and as LSP work-done progress",
    "P3": (
        "A permission request reaches the editor as a request naming the agent that asks (id, label, definition, "
        "model, ancestry)"
    ),
    "P4": (
        "Each running sub-agent block can be cancelled: `deputy/agent/cancel`, the command `deputy.cancelAgent`, "
        "and the cancel button of its work-done progress, all with the same effect"
    ),
    "P5": "A VS Code extension: chat, agent tree, inline approval in the editor, cancel per block",
    "P6": "A Neovim plugin: the same four",
    "P7": "Approval prompts appear inline, beside the code that they concern, with the diff or the command to be run",
    "P8": (
        "With no plugin at all, any LSP client can prompt, see progress, approve and cancel (executeCommand, code "
        "actions, showMessageRequest, progress)"
    ),
    # L · the release
    "L1": (
        "The wheel alone is enough: demo, run, serve and acp work in a fresh environment of every supported Python "
        "that is there; wheel and source distribution are complete and the same in every build"
    ),
    "L2": (
        "The workflows are valid and safe, and a release needs that tag, version, changelog and repository agree; the "
        "version is stated once"
    ),
    "L3": "The documentation is a site with every document and no broken link",
    "L4": (
        "What a new user meets explains itself: a server at a terminal, an address without a key, an unsupported "
        "system, a full disk; an error names the file or the address that it is about"
    ),
    # A · sub-agents as first-class members of one event stream
    "A1": (
        "A registry holds every agent, primary and child, with id, label (task cut to 30 characters), parent, "
        "creation time, status"
    ),
    "A2": (
        "Events of all agents of a session arrive in one ordered stream; the primary is not special-cased in the loop"
    ),
    "A3": "Spawning is an effect that the session carries out, never a loop run inside the tool",
    "A4": (
        "A child's result is the text of its last assistant message that has text (text blocks joined by "
        "newlines; tool-use blocks skipped), unless the child submitted a result"
    ),
    "A5": (
        "Child reads are auto-approved; child edits, writes and shell commands ask the user exactly as the "
        "primary's do; nothing is auto-approved because it came from a child"
    ),
    "A6": (
        "Approval prompts and tool blocks of a child show its label: `[research codebase] edit_file(src/lib.rs)` "
        "with the old and new text"
    ),
    "A7": "Tools `list_agents` and `get_agent` report all agents of the session, and a finished agent's result",
    "A8": (
        "Effects that the editor performs (reading unsaved buffers, applying edits) work for children as for the "
        "primary"
    ),
    "A9": "A status line: `Agents: 1 primary, 2 running, 1 finished`, kept up to date live",
    "A10": "Finished agents stay listed, with their outcome, for the life of the session",
    "A11": (
        "Deadline per child, cascade on cancel, concurrency caps, nesting limit, result size limit, approvals of "
        "one turn shown together"
    ),
    "A12": "A spawn can carry context beside its task; it reaches the child's first message, not the parent's history",
    # B · typed sub-agents as tools
    "B1": (
        "An agent definition: name, description, icon, system prompt, allowed tools, max iterations, model, "
        "temperature, input schema, result formatter"
    ),
    "B2": (
        "Every definition with an input schema is a tool of the primary; the primary's system prompt describes "
        "those available"
    ),
    "B3": "Children run the same loop as the primary",
    "B4": "A definition's tool list is enforced: a call outside it is rejected with an error result, never run",
    "B5": "Lifecycle events start, progress, end; progress wraps the child's own events",
    "B6": (
        "A child's result carries success, output, tool-call count, iterations, token usage and, on request, its "
        "messages"
    ),
    "B7": (
        "Built in: `code_search {query, scope?}` (read, glob, grep, list; 8 iterations), `code_review {target, "
        "focus?: bugs/style/performance/security/all}` (read, glob, grep; 6), `planner {task, constraints?}` "
        "(read, glob, grep, list; 6)"
    ),
    "B8": "A definition can name a cheaper or faster model than its parent's",
    "B9": (
        "The editor shows each child as a collapsible group: icon, name, state, elapsed time, nested tool calls; "
        "and a list of all definitions with description, tools, limits"
    ),
    "B10": "By default a child cannot spawn",
    # C · `spawn_agent`
    "C1": (
        '`spawn_agent(instructions, require_file_references=false, mode="read_only"/"default")` returns to the '
        "parent only the final answer"
    ),
    "C2": "The parent's message history holds the tool result alone; nothing of the child's transcript",
    "C3": (
        "The block's live view (compact list of the child's tool calls with their state) is for the user only, "
        "and is stored so that a re-opened session draws the same block again"
    ),
    "C4": (
        "Several `spawn_agent` calls in one response run truly at once when read-only; results go back in the "
        "order of the calls"
    ),
    "C5": (
        "Cancelling one child aborts its model request and its tools, yields exactly `Sub-agent cancelled by "
        "user.`, and leaves its siblings running"
    ),
    "C6": "A permission request made inside a child is shown in, or anchored to, its block",
    "C7": (
        "With `require_file_references`, an answer without valid file references with line ranges is sent back to "
        "the same child with a correction, at most twice; then it is returned with a warning"
    ),
    "C8": (
        "Tool scopes: read-only children get read, search, list, glob, web fetch and web search (asking per "
        "host); never edit, write, delete, shell or spawn"
    ),
    "C9": "The runner takes a model factory; nothing needs a model client to be cloned",
    "C10": "Over the Agent Client Protocol the same sessions work in ACP editors, children included",
    # D · `spawn_agents`: fan-out and fan-in
    "D1": (
        "The conversation is a pure state machine: (state, input) -> (state, effects); every transition is in one table"
    ),
    "D2": (
        "Property tests: pending + completed stays N; pending only shrinks; completed only grows; terminal states "
        "accept nothing; unknown and duplicate ids are rejected"
    ),
    "D3": (
        "`spawn_agents(tasks: [{task, cwd?}], at least one)` runs them in parallel and returns one aggregated "
        "JSON object"
    ),
    "D4": "`submit_result` and `submit_error` exist for children only and end them",
    "D5": "Tools are filtered by context; a child never sees spawn tools unless nesting is enabled",
    "D6": "Cancel while waiting: every pending child is cancelled and acknowledges it, then the parent is idle again",
    "D7": "A child past its time limit ends as `timed_out`, with what it had",
    "D8": (
        "Conversations are stored with parent id and `user_initiated`; lists show only the user's own; deleting a "
        "parent deletes its children"
    ),
    "D9": "A child's task is its first user message",
    "D10": "Spawns mix with other tools in one turn; one child's failure does not fail the rest; each outcome is typed",
    "D11": "A child's unrecoverable error reaches the parent as a failure with its kind",
    "D12": "Images in the workspace can be read by agents, and images can be part of a prompt",
    "D13": "Sessions can be archived; lists leave archived ones out unless asked",
    # E · background tasks, persistence, replay
    "E1": (
        "`task(description, prompt, subagent_type, task_id?)` answers at once `{task_id, status: queued/running, "
        "message}`; with `task_id` it continues that child"
    ),
    "E2": "Agent ids are UUIDv7",
    "E3": "`subagent_type` must name a definition with mode `subagent`; otherwise a clear error lists those that exist",
    "E4": (
        "Per run of an agent: exactly one start, any number of progress events with rising sequence number, "
        "exactly one result; start is emitted at acceptance, queued or not"
    ),
    "E5": "Caps per process and per parent, with a bounded queue; `queued` carries its position",
    "E6": (
        "States pending, running, completed, failed, cancelled; terminal ones never change within a run; a second "
        "terminal report is logged and changes nothing"
    ),
    "E7": (
        "After a restart, a child that had not ended is `failed` with reason `interrupted_by_restart`; a child of "
        "another live server process is left alone"
    ),
    "E8": "Resume by `task_id` works only inside the session that owns it",
    "E9": "Session lists show root sessions; children only on request",
    "E10": (
        "Payloads are bounded: progress, result, summary, each with a truncation marker and a way to read the "
        "rest; progress is coalesced"
    ),
    "E11": (
        "Replaying the stored events rebuilds tree and states, is idempotent, and loads sessions written by older "
        "versions"
    ),
    "E12": (
        "The parent continues while background children run, and is notified of each end with `{task_id, status, "
        "summary, error?}`"
    ),
    "E13": (
        "Agent tree in the editor: indented by depth, state marks, ordered by start then id; a child opens as a "
        "read-only transcript with input disabled; the parent stays selectable; keys cycle through threads"
    ),
    "E14": (
        "`task` is a separate permission; a child runs under its own definition's permissions, never more than "
        "its parent's"
    ),
    "E15": "Failure reasons are a closed set, with free detail",
    "E16": "Primary and children are built by the same code, skills included",
    "E17": "Child output is cleaned of control and escape characters before it is stored or shown",
    "E18": "Counters: spawns, failures by reason, queue depth and wait percentiles, reconciliations",
    "E19": "A burst of completions neither deadlocks nor corrupts; nothing awaits I/O while holding a lock",
    "E20": "All limits are settings, documented with their defaults; one setting turns sub-agents off",
    # X · beyond
    "X1": "Agents read what the user sees: unsaved buffers win over disk",
    "X2": (
        "Edits to open files go through `workspace/applyEdit` with document versions: native undo, stale edits "
        "rejected; other files are written atomically"
    ),
    "X3": "The user can change a proposed edit before approving it",
    "X4": "Undo one agent: all edits that one child made are reverted together, conflicts shown, nothing else touched",
    "X5": (
        "All pending approvals of a session in one inbox; answered singly, per agent, or all at once; first "
        "answer wins; stale prompts vanish in every client"
    ),
    "X6": (
        "File references in answers are checked against the real text and returned as locations that the editor "
        "can jump to"
    ),
    "X7": "Review findings appear as diagnostics with code actions",
    "X8": (
        "One policy gate for every agent; deny rules union down the tree; shell commands are parsed and every "
        "part must pass; what cannot be parsed asks"
    ),
    "X9": (
        "No path escapes the roots through a file tool, by symlink or otherwise; further roots are a setting; no "
        "secret of the environment reaches a tool, a log or an answer"
    ),
    "X10": "Token, turn, time and cost budgets per agent and per tree, visible live",
    "X11": "One limiter for all children: a 429 or 529 slows everyone once, honours Retry-After, loses nothing",
    "X12": "Nothing survives that should not: no orphan process after cancel, crash or disconnect",
    "X13": "Every tool call has a result in history whatever happened, so the next turn is always valid",
    "X14": "A running child can be steered by a message",
    "X15": (
        "Agents, skills and instructions that users already have are found: `AGENTS.md`, `CLAUDE.md`, "
        "`.claude/agents/*.md`, `.deputy/agents/*.md`, skills folders, `.mcp.json`"
    ),
    "X16": "MCP servers give tools, under the same permission gate",
    "X17": "Headless use: `deputy run`, JSON lines out, exit code by outcome",
    "X18": (
        "With no API key everything can be tried: a built-in offline model that searches and edits by rules, and "
        "is marked as one"
    ),
    "X19": "Long sessions compact themselves without losing the task",
    "X20": "Several clients can be attached to one server and see the same session",
    "X21": "Agents keep a plan (todo list) that the editor shows live",
    "X22": "A prompt typed while a turn runs is queued, shown, and can be withdrawn",
    "X23": "Context by mention: files, ranges, symbols, diagnostics, images",
    "X24": "(later) Checkpoint per turn: what changed since, as one review with accept and reject per hunk",
    "X25": (
        "Agents can ask the editor's own language servers: definition, references, symbols, diagnostics after an edit"
    ),
    "X26": "Slash commands and reusable prompts from Markdown files",
    "X27": "Hooks: a user's command before and after tools, at the end of a turn (format, test, notify)",
    "X28": "Open permission requests are noticed: one quiet notification, never a flood",
    # R · review, checkpoints, rewind
    "R1": (
        "After any turn `review/list` shows every file agents changed, by tool or by command, as hunks with agent, "
        "turn, tool call; counts in `review_status` live"
    ),
    "R2": (
        "Keep and undo: one hunk, a file, an agent, a turn, all; user-typed lines are never touched; conflicts are "
        "named, nothing half done"
    ),
    "R3": "In any LSP client: lenses, code actions, hover with who, why and approval, next and previous by command",
    "R4": (
        "VS Code: a changes bar above the input, per-file rows, gutter and inline hunk widgets with keys, the "
        "multi-diff editor for the whole review, comments on hunks collected and sent as one prompt"
    ),
    "R5": (
        "Neovim: signs and virtual text, `]h` `[h`, keep and undo maps (`<Plug>`), `:DeputyReview` (quickfix plus "
        "diff), blame on hover; works beside gitsigns and fugitive"
    ),
    "R6": (
        "Each turn has a checkpoint; preview, rewind of files, of the conversation, of both; the prompt of the turn "
        "gone back over is put into the input for editing; rewind can itself be undone"
    ),
    "R7": "Fork a session at a checkpoint; both go on independently",
    "R8": "Changes made by shell commands are covered (own object store), the user's git repository is never touched",
    "R9": (
        "Headless and ACP: `deputy sessions diff, keep, undo, rewind, fork`, and a diff in the exported transcript; "
        'edits stay visible in the transcript of every front end as a diff, not as "Changed lines 18-26"'
    ),
    "R10": (
        "With review in place `accept_edits` is a good default for trusted folders: the docs and the mode picker "
        "explain the two ways (ask first, review after)"
    ),
    # Q · permission requests
    "Q1": (
        "Every permission request can be answered once, for the session, for the project, always; each answer shows "
        "its rule; the files keep their comments; rules are listed and removed in every front end"
    ),
    "Q2": "Commands that only read do not ask, by an exact grammar that a fuzzer tests; whatever it does not name asks",
    "Q3": (
        "A command that a working sandbox confines may run without asking; what fails because of it is offered to run "
        "outside, with a request"
    ),
    "Q4": (
        "Many edits of one agent are approved in one gesture, after their combined diff, also for the rest of the turn"
    ),
    "Q5": (
        "Agents and MCP servers can ask the user: attributed, answered in every front end that can show the form, "
        "never answered by anything but the user; headless: refused with a clear result"
    ),
    "Q6": (
        "Sign-in at MCP servers with OAuth: code flow with PKCE over loopback, registration, renewal; tokens in the "
        "keyring or a private file, never in tools, logs, stores and answers; nothing opens without the user"
    ),
    "Q7": "Why a request asks is one short sentence, which names the rule or mode and how to change it",
    "Q8": "Modes are changed and requests answered by keys in every front end, never by text typed before",
    "Q9": (
        "Hooks run at the events that Claude Code has, with the same JSON and exit codes, so that existing ones work; "
        "none allows what a rule denies"
    ),
    "Q10": "An open request never expires by itself; after a restart of the server its loss is shown",
    # N · installed by an editor
    "N1": (
        "What an editor installs is what was tested: packages are pinned by hash, nothing is left of a failed or "
        "cancelled installation, and its cause is named"
    ),
    "N2": (
        "The VS Code extension alone is enough: after a click it installs its server, and the chat shows "
        "progress, causes, retry and repair"
    ),
    "N3": (
        "The Neovim plugin works from a plain repository URL; `:Deputy` without a server offers to install it, and "
        "`:checkhealth deputy` names one command for each problem"
    ),
    "N4": "Documented configurations of editors are run in the editor or checked against its schema, and say which",
}

REQUIREMENTS: dict[str, Requirement] = {
    id: Requirement(sentence, State.PROVEN if id in PROVEN else State.PLANNED) for id, sentence in SENTENCES.items()
}
