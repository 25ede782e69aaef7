/** The states of the installation: every phase with every event, and what the chat shows in each phase. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { cardOf } from "../src/install/card.ts";
import { INITIAL, next, type Phase, type SetupEvent, type SetupState } from "../src/install/machine.ts";

const UV = { kind: "uv", path: "/usr/bin/uv" } as const;
const PYTHON = { kind: "python", path: "/usr/bin/python3" } as const;
const PLACE = { version: "0.2.0", remote: undefined, home: "/home" };

const EVENTS = {
  found: { type: "found" },
  absent: { type: "absent", tool: UV },
  no_python: { type: "no_python" },
  mismatch: { type: "mismatch", path: "/bin/deputy", version: "0.1.0", tool: PYTHON },
  invalid: { type: "invalid", message: "There is no command." },
  install: { type: "install", tool: UV },
  step: { type: "step", step: 2, of: 4, text: "Install" },
  installed: { type: "installed" },
  failed: { type: "failed", cause: "offline", message: "The index cannot be reached." },
  cancelled: { type: "cancelled" },
} as const satisfies { readonly [T in SetupEvent["type"]]: Extract<SetupEvent, { type: T }> };

const SEARCHED = "found→ready absent→missing no_python→no_python mismatch→wrong_version invalid→wrong_setting";
const ALLOWED: Readonly<Record<Phase, string>> = {
  checking: SEARCHED,
  ready: `${SEARCHED} install→installing`,
  missing: `${SEARCHED} install→installing`,
  no_python: `${SEARCHED} install→installing`,
  wrong_version: `${SEARCHED} install→installing`,
  wrong_setting: SEARCHED,
  installing: "step→installing installed→ready failed→failed cancelled→checking",
  failed: "found→ready invalid→wrong_setting install→installing",
};

for (const [phase, allowed] of Object.entries(ALLOWED) as [Phase, string][]) {
  test(`${phase} changes only by its events`, () => {
    const targets = new Map(allowed.split(" ").map((pair) => pair.split("→") as [string, Phase]));
    const state: SetupState = { phase, tool: UV };
    for (const event of Object.values(EVENTS)) {
      const after = next(state, event);
      const target = targets.get(event.type);
      if (target === undefined) assert.equal(after, state, event.type);
      else assert.equal(after.phase, target, event.type);
    }
  });
}

const run = (...events: readonly SetupEvent[]): SetupState => events.reduce(next, INITIAL);

const CARDS: readonly (readonly [string, readonly SetupEvent[], string, readonly string[], string])[] = [
  [
    "without a server",
    [EVENTS.absent],
    "Install Deputy's server",
    ["Install Server", "Open Settings"],
    "with /usr/bin/uv, into a folder of this extension. Nothing else is changed.",
  ],
  [
    "without Python",
    [EVENTS.no_python],
    "Install Python and Deputy's server",
    ["Download and Install", "Check Again", "Open Settings"],
    "This downloads uv from astral.sh, and with it Python and the server's packages, into",
  ],
  [
    "with another version",
    [EVENTS.mismatch],
    "Install the server for version 0.2.0",
    ["Install Server 0.2.0", "Check Again", "Open Settings"],
    "/bin/deputy has version 0.1.0, which does not fit. It is not changed.",
  ],
  [
    "with a wrong setting",
    [EVENTS.invalid],
    "Deputy's server was not found",
    ["Open Settings", "Check Again"],
    "There is no command.",
  ],
  [
    "at the start of an installation",
    [EVENTS.absent, EVENTS.install],
    "Installing Deputy's server",
    ["Cancel", "Show Log"],
    "Preparing the installation",
  ],
  [
    "during an installation",
    [EVENTS.absent, EVENTS.install, EVENTS.step],
    "Installing Deputy's server",
    ["Cancel", "Show Log"],
    "Step 2 of 4: Install",
  ],
  [
    "after a failure",
    [EVENTS.absent, EVENTS.install, EVENTS.failed],
    "Deputy's server is not installed",
    ["Try Again", "Show Log", "Open Settings"],
    "The index cannot be reached.",
  ],
  [
    "with a Python that cannot make environments",
    [EVENTS.absent, EVENTS.install, { ...EVENTS.failed, cause: "venv" }],
    "Deputy's server is not installed",
    ["Download uv and Try Again", "Show Log", "Open Settings"],
    "The index cannot be reached.",
  ],
];

for (const [when, events, title, buttons, text] of CARDS) {
  test(`the card ${when} has one main button and the cause`, () => {
    const card = cardOf(run(...events), PLACE);
    assert.ok(card);
    assert.equal(card.title, title);
    assert.deepEqual(
      card.buttons.map((one) => one.text),
      buttons,
    );
    assert.ok(card.text.includes(text), card.text);
  });
}

test("there is no card once a server was found or installed", () => {
  assert.equal(cardOf(INITIAL, PLACE), undefined);
  assert.equal(cardOf(run(EVENTS.found), PLACE), undefined);
  assert.equal(cardOf(run(EVENTS.absent, EVENTS.install, EVENTS.step, EVENTS.installed), PLACE), undefined);
});

test("a failure keeps its cause while searches find nothing, and the tool for the next try", () => {
  const failed = run(EVENTS.absent, EVENTS.install, EVENTS.failed);
  assert.equal(next(next(failed, EVENTS.absent), EVENTS.no_python), failed);
  assert.equal(failed.tool, UV);
});

test("in a remote window the card names the remote machine", () => {
  const card = cardOf(run(EVENTS.absent), { ...PLACE, remote: "ssh-remote" });
  assert.ok(card?.text.includes("into a folder of this extension on the remote machine."));
});
