/** The block of a sub-agent: one line with its name, state and figures and, if unfolded, its calls below it. */
import type { AgentEntry } from "../src/protocol.ts";
import { activityOf } from "../src/state/calls.ts";
import { type AgentView, hasNotEnded, type SessionState } from "../src/state/session.ts";
import { calls, cost, oneLine, ownModelOf, reasonOf, runTime, signOf, tokens, visible } from "../src/state/text.ts";
import { button, fill, h, icon, iconButton, setText } from "./dom.ts";
import { markdown } from "./markdown.ts";
import { actsOf } from "./message.ts";
import { planList } from "./plan.ts";
import { Transcript } from "./transcript.ts";
import type { Part, View } from "./view.ts";

export class AgentBlock implements Part {
  entry: AgentEntry;
  readonly element: HTMLElement;
  readonly #agentId: string;
  readonly #toggle: HTMLButtonElement;
  readonly #chevron = icon("chevron-right");
  readonly #sign = h("span", { class: "sign", role: "img" });
  readonly #label = h("span", { class: "label" });
  readonly #figures = h("span", { class: "figures muted" });
  readonly #activity = h("div", { class: "activity muted" });
  readonly #actions = h("span", { class: "actions" });
  readonly #body = h("div", { class: "block-body" });
  readonly #plan = h("div");
  readonly #result = h("div", { class: "result markdown" });
  readonly #transcript: Transcript;
  readonly #unfoldedFor = new Set<string>();
  #open = false;
  #actionsFor = "";
  #resultFor: string | undefined;
  #view: View | undefined;

  constructor(entry: AgentEntry) {
    this.entry = entry;
    this.#agentId = entry.agentId;
    this.#transcript = new Transcript(entry.agentId, "calls");
    this.#toggle = h(
      "button",
      { type: "button", class: "block-toggle", onClick: () => this.#fold(!this.#open) },
      this.#chevron,
      this.#sign,
      this.#label,
    );
    this.#body.append(this.#plan, this.#transcript.element, this.#result);
    this.element = h(
      "section",
      { class: "block", "data-agent": entry.agentId },
      h("header", { class: "block-head" }, this.#toggle, this.#figures, this.#actions),
      this.#activity,
      this.#body,
    );
    this.#fold(false);
  }

  update(view: View): void {
    this.#view = view;
    const live = view.state.agents[this.#agentId];
    // A resumed sub-agent has a block for each run; blocks of earlier runs keep their final state.
    const agent: AgentView = live?.run === this.entry.run ? live : { ...this.entry.agent, openRequests: 0 };
    this.#head(view, agent);
    this.#unfoldForRequests(view);
    if (!this.#open) return;
    const plan = view.state.plans[this.#agentId];
    fill(this.#plan, plan && planList(plan));
    this.#transcript.update(view);
    this.#showResult(view, agent);
  }

  #head(view: View, agent: AgentView): void {
    const sign = signOf(agent);
    if (this.element.dataset["state"] !== sign.word) {
      this.element.dataset["state"] = sign.word;
      fill(this.#sign, icon(sign.icon, sign.spin));
      this.#sign.setAttribute("aria-label", sign.word);
    }
    setText(this.#label, oneLine(agent.label, 60));
    this.#label.title = visible(agent.label);
    setText(this.#figures, figures(view.state, agent, view.now));
    setText(this.#activity, activity(agent, this.#open));
    this.#activity.hidden = this.#activity.textContent === "";
    this.#drawActions(view, agent);
  }

  #drawActions(view: View, agent: AgentView): void {
    const isOthers = view.state.snapshot;
    const key = `${isOthers}/${hasNotEnded(agent)}/${view.around.can.revert}/${view.around.can.message}`;
    if (this.#actionsFor === key) return;
    this.#actionsFor = key;
    const name = oneLine(agent.label, 40);
    const { agentId } = agent;
    const live = hasNotEnded(agent);
    const hadFocus = this.#actions.contains(document.activeElement);
    fill(
      this.#actions,
      live &&
        !isOthers &&
        view.around.can.message &&
        iconButton("comment", `Send ${name} a message`, () => view.send({ type: "steer", agentId })),
      !live &&
        !isOthers &&
        agent.access !== "read_only" &&
        view.around.can.revert &&
        iconButton("discard", `Revert the edits of ${name}`, () => view.send({ type: "revert", agentId })),
      iconButton("link-external", `Open the transcript of ${name}`, () =>
        view.send({ type: "openTranscript", agentId }),
      ),
      live &&
        !isOthers &&
        button("Cancel", () => view.send({ type: "cancelAgent", agentId }), {
          class: "secondary small",
          label: `Cancel ${name}`,
        }),
    );
    if (hadFocus && !this.#actions.contains(document.activeElement)) this.#toggle.focus();
  }

  #showResult(view: View, agent: AgentView): void {
    const text =
      agent.status === "failed" && agent.error ? `${agent.error}\n\n${agent.summary ?? ""}` : (agent.summary ?? "");
    if (this.#resultFor === text) return;
    this.#resultFor = text;
    this.#result.hidden = text.trim() === "";
    this.#result.replaceChildren(markdown(text, actsOf(view)));
  }

  /** Unfolds the block once for a request of this agent or its descendants; the user may fold it again. */
  #unfoldForRequests(view: View): void {
    for (const { requestId, agent } of Object.values({ ...view.state.requests, ...view.state.inputs })) {
      const concerns =
        agent.agentId === this.#agentId || agent.ancestry.some(({ agentId }) => agentId === this.#agentId);
      if (!concerns || this.#unfoldedFor.has(requestId)) continue;
      this.#unfoldedFor.add(requestId);
      this.#fold(true);
    }
  }

  #fold(open: boolean): void {
    const opens = open && !this.#open;
    this.#open = open;
    this.#toggle.setAttribute("aria-expanded", String(open));
    this.#chevron.classList.toggle("open", open);
    this.#body.hidden = !open;
    if (!this.#view) return;
    if (!opens) return this.update(this.#view);
    if (!this.#view.state.whole[this.#agentId]) this.#view.send({ type: "transcript", agentId: this.#agentId });
    this.update(this.#view);
  }
}

function figures(state: SessionState, agent: AgentView, now: number): string {
  const time = agent.status === "pending" ? "" : runTime(agent, now);
  const count = agent.toolCallCount ? calls(agent.toolCallCount) : "";
  const model = ownModelOf(state, agent);
  return [agent.definition, model, time, count, tokens(agent.usage), cost(agent.usage)].filter(Boolean).join(" · ");
}

/**
 * The second line: the activity of a running agent, what it waits for, or why it did not complete. Unfolded, the rows of
 * calls show the activity.
 */
function activity(agent: AgentView, isOpen: boolean): string {
  if (agent.status === "completed") return "";
  if (agent.openRequests > 0 && hasNotEnded(agent)) return "waiting for you";
  const isLimit = agent.failureReason === "timed_out" || agent.failureReason === "budget_exceeded";
  if (isLimit && agent.error) return oneLine(`${reasonOf(agent)}: ${agent.error}`, 160);
  return oneLine(reasonOf(agent) || (isOpen ? "" : activityOf(agent.activity ?? "")), 120);
}
