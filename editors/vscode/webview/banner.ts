/** The banner above an agent's transcript: the agent, actions on it, and navigation. */
import { childrenOf, hasNotEnded } from "../src/state/session.ts";
import { calls, cost, modelOf, oneLine, reasonOf, runTime, signOf, tokens } from "../src/state/text.ts";
import { button, fill, h, icon } from "./dom.ts";
import type { Part, View } from "./view.ts";

export class TranscriptBanner implements Part {
  readonly element = h("header", { class: "banner", "aria-label": "Transcript" });
  #drawn = "";

  update(view: View): void {
    const { state, around, now, send } = view;
    const agent = around.agentId === undefined ? undefined : state.agents[around.agentId];
    this.element.hidden = !agent;
    if (!agent) return;
    const siblings = childrenOf(state, agent.parentAgentId);
    const index = siblings.findIndex(({ agentId }) => agentId === agent.agentId);
    const parent = agent.parentAgentId === undefined ? undefined : state.agents[agent.parentAgentId];
    const sign = signOf(agent);
    const facts = [
      sign.word === "completed" ? sign.word : reasonOf(agent) || sign.word,
      runTime(agent, now),
      calls(agent.toolCallCount),
      tokens(agent.usage),
      cost(agent.usage),
    ];
    const line = facts.filter(Boolean).join(" · ");
    const key = JSON.stringify([agent.label, modelOf(agent), line, siblings.length, index, parent?.label, around.can]);
    if (key === this.#drawn) return;
    this.#drawn = key;
    const go = (agentId: string | undefined) => () =>
      agentId !== undefined && send({ type: "openTranscript", agentId });
    const live = hasNotEnded(agent) && !state.snapshot;
    const isChildOfChild = parent?.parentAgentId !== undefined;
    fill(
      this.element,
      h(
        "div",
        { class: "banner-title" },
        h("span", { class: `sign ${sign.word}`, role: "img", "aria-label": sign.word }, icon(sign.icon, sign.spin)),
        h("span", { class: "label" }, oneLine(agent.label, 80)),
        h("span", { class: "muted" }, `${agent.definition} · ${modelOf(agent)} · ${line}`),
      ),
      h(
        "div",
        { class: "muted" },
        `Read-only transcript of [${oneLine(agent.label, 40)}], parent: ${parent && isChildOfChild ? oneLine(parent.label, 40) : "Deputy"}`,
      ),
      h(
        "div",
        { class: "answers" },
        live &&
          button("Cancel", () => send({ type: "cancelAgent", agentId: agent.agentId }), {
            class: "secondary",
            icon: "debug-stop",
          }),
        live &&
          around.can.message &&
          button("Send message…", () => send({ type: "steer", agentId: agent.agentId }), {
            class: "secondary",
            icon: "comment",
          }),
        !hasNotEnded(agent) &&
          !state.snapshot &&
          around.can.revert &&
          button("Revert edits", () => send({ type: "revert", agentId: agent.agentId }), {
            class: "secondary",
            icon: "discard",
          }),
        isChildOfChild && button("Parent", go(parent.agentId), { class: "secondary", icon: "arrow-up" }),
        index > 0 && button("Previous", go(siblings[index - 1]?.agentId), { class: "secondary", icon: "arrow-left" }),
        index < siblings.length - 1 &&
          button("Next", go(siblings[index + 1]?.agentId), { class: "secondary", icon: "arrow-right" }),
      ),
    );
  }
}
