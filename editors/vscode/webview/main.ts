/** The page: a transcript, what stands in the way, the plan, and where prompts are written. */
import type { FromPage, Picture, Surroundings, ToPage } from "../src/page/messages.ts";
import { clockOf, emptySession, isBusy, reduce, type SessionState } from "../src/state/session.ts";
import { endingOf, oneLine, signOf } from "../src/state/words.ts";
import { Composer, type Draft } from "./composer.ts";
import { fill, h, icon } from "./dom.ts";
import { Notices, StatusRow } from "./notices.ts";
import { planList } from "./plan.ts";
import { ThreadBanner } from "./thread.ts";
import { Transcript } from "./transcript.ts";
import type { View } from "./view.ts";

interface Host {
  postMessage(message: FromPage): void;
  getState(): Draft | undefined;
  setState(draft: Draft): void;
}

declare function acquireVsCodeApi(): Host;

const SECOND = 1000;
/** Milliseconds from which on a drawing is felt. */
const SLOW = 50;
/** Pixels from the end within which the page follows what is new. */
const NEAR_END = 40;

class PageView {
  readonly #host: Host;
  readonly #banner = new ThreadBanner();
  readonly #scroll = h("main", { class: "scroll", tabindex: "0", "aria-label": "Conversation" });
  readonly #welcome = h("div", { class: "welcome" });
  readonly #plan = h("details", { class: "plan-box" });
  readonly #notices = new Notices();
  readonly #status = new StatusRow();
  readonly #news = h("div", { class: "unseen", "aria-live": "polite" });
  readonly #composer: Composer;
  #transcript: Transcript | undefined;
  #shownAgent = "";
  #state = emptySession("");
  #around: Surroundings | undefined;
  #pictures: Readonly<Record<string, readonly Picture[]>> = {};
  readonly #send = (message: FromPage): void => this.#host.postMessage(message);
  #scheduled = false;
  #rest = 0;
  #followsEnd = true;
  /** Where the page has scrolled by itself. */
  #followedTo: number | undefined;
  #planDrawn: unknown;
  /** Plans of turns before the one that runs or ran last. */
  #earlierPlans = new Set<unknown>();

  constructor(host: Host, root: HTMLElement) {
    this.#host = host;
    this.#composer = new Composer(host.getState(), (draft) => host.setState(draft), this.#send);
    this.#plan.open = true;
    this.#plan.hidden = true;
    fill(
      this.#welcome,
      h("h2", {}, "What should be done?"),
      h(
        "p",
        {},
        "Deputy sends sub-agents to look into different sides of a question at the same time. You see each of them work, can stop any one, and nothing is changed before you said yes.",
      ),
    );
    this.#scroll.append(h("h1", { class: "unseen" }, "Deputy"), this.#welcome);
    const below = [this.#plan, this.#status.element, this.#notices.element, this.#composer.element];
    root.append(
      this.#banner.element,
      this.#scroll,
      h("section", { class: "below", "aria-label": "Prompt, and state of the session" }, ...below),
      this.#news,
    );
    this.#scroll.addEventListener("scroll", () => {
      const below = this.#scroll.scrollHeight - this.#scroll.scrollTop - this.#scroll.clientHeight;
      this.#followsEnd = below < NEAR_END || this.#scroll.scrollTop === this.#followedTo;
    });
    new ResizeObserver(() => this.#follow()).observe(this.#scroll);
    window.addEventListener("focus", () => this.#takeFocus());
    if (document.hasFocus()) this.#takeFocus();
    window.addEventListener("message", ({ data }: MessageEvent<ToPage>) => this.#hear(data));
    setInterval(() => isBusy(this.#state) && this.#schedule(), SECOND);
    host.postMessage({ type: "ready" });
    host.postMessage({ type: "start" });
  }

  #hear(message: ToPage): void {
    switch (message.type) {
      case "state":
        this.#state = message.state ?? emptySession("");
        this.#around = message.around;
        break;
      case "around":
        this.#around = message.around;
        break;
      case "events":
        this.#announce(message.events.reduce(reduce, this.#state));
        break;
      case "pictures":
        this.#pictures = message.pictures;
        break;
      case "mention":
        this.#composer.add(message.mentions, message.text);
        break;
      case "unsent":
        this.#composer.add(message.mentions ?? [], message.text, message.pictures);
        break;
      case "completions":
        this.#composer.complete(message.text, message.answer);
        break;
      case "show":
        this.#show(message.requestId);
        break;
    }
    this.#schedule();
  }

  /**
   * Draws at most once a frame, however much is told, and after a slow drawing rests for longer than it took, so that
   * one can always type. A page that is not seen draws when it is.
   */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    if (this.#rest > 0) setTimeout(() => this.#drawInFrame(), this.#rest);
    else this.#drawInFrame();
  }

  #drawInFrame(): void {
    requestAnimationFrame(() => {
      this.#scheduled = false;
      const begun = performance.now();
      this.#draw();
      const took = performance.now() - begun;
      this.#rest = took > SLOW ? 2 * took : 0;
    });
  }

  #draw(): void {
    const around = this.#around;
    if (!around) return;
    const view: View = {
      state: this.#state,
      around,
      pictures: this.#pictures,
      now: clockOf(this.#state),
      send: this.#send,
    };
    document.body.classList.toggle("still", this.#state.snapshot);
    this.#chooseTranscript(around.agentId ?? this.#state.primaryId);
    this.#transcript?.update(view);
    this.#banner.update(view);
    this.#notices.update(view);
    this.#status.update(view);
    this.#composer.update(view);
    this.#drawPlan(around.agentId ?? this.#state.primaryId);
    const isThread = around.agentId !== undefined;
    this.#composer.element.hidden = isThread;
    this.#notices.element.hidden = isThread;
    this.#status.element.hidden ||= isThread;
    this.#welcome.hidden = isThread || this.#transcript?.element.childNodes.length !== 0;
    this.#follow();
  }

  /**
   * Keeps the end in sight, unless the user has gone elsewhere or writes a reason; of a question that is higher than the
   * page, the begin of the change: its answers stay at the edge.
   */
  #follow(): void {
    if (!this.#followsEnd || this.#scroll.querySelector(".note:focus")) return;
    this.#scroll.scrollTop = this.#scroll.scrollHeight;
    const card = [...this.#scroll.querySelectorAll<HTMLElement>(".question")].findLast((one) => one.offsetHeight > 0);
    if (card && card.offsetHeight > this.#scroll.clientHeight)
      (card.querySelector(".added, .removed") ?? card).scrollIntoView({ block: "start" });
    this.#followedTo = this.#scroll.scrollTop;
  }

  #chooseTranscript(agentId: string | undefined): void {
    const shown = `${this.#state.sessionId}/${agentId ?? ""}`;
    if (shown === this.#shownAgent) return;
    this.#shownAgent = shown;
    this.#transcript?.element.remove();
    this.#transcript = new Transcript(agentId ?? "", "whole");
    this.#scroll.append(this.#transcript.element);
  }

  #drawPlan(agentId: string | undefined): void {
    const known = agentId === undefined ? undefined : this.#state.plans[agentId];
    const plan = this.#earlierPlans.has(known) ? undefined : known;
    if (plan === this.#planDrawn) return;
    this.#planDrawn = plan;
    this.#plan.hidden = !plan?.length;
    const done = plan?.filter((entry) => entry.status === "completed").length ?? 0;
    fill(
      this.#plan,
      h("summary", {}, icon("checklist"), ` Plan: ${done} of ${plan?.length ?? 0} done`),
      plan && planList(plan),
    );
  }

  /** Whoever comes to the page by a command can write at once, and in a thread scroll. */
  #takeFocus(): void {
    if (document.activeElement !== document.body) return;
    if (this.#composer.element.hidden) this.#scroll.focus();
    else this.#composer.focus();
  }

  /** Goes on to the next state, and tells those who listen what matters: who asks, and who has ended. */
  #announce(next: SessionState): void {
    const before = this.#state;
    this.#state = next;
    if (next.turn && next.turn.turnId !== before.turn?.turnId)
      this.#earlierPlans = new Set(Object.values(before.plans));
    const asked = Object.values(next.questions).filter(({ requestId }) => !(requestId in before.questions));
    const ended = Object.values(next.agents).filter((agent) => agent.endedAt && !before.agents[agent.agentId]?.endedAt);
    const words = [
      ...asked.map((request) => `${oneLine(request.title)} waits for you`),
      ...ended.map((agent) => `${oneLine(agent.label)} ${signOf(agent).word}`),
    ];
    if (before.turn && !next.turn && next.ended)
      words.push(next.ended.error ? oneLine(next.ended.error.message) : endingOf(next.ended) || "Deputy has answered");
    if (words.length) this.#news.textContent = words.join(". ");
  }

  #show(requestId: string): void {
    this.#draw();
    const card = [...this.#scroll.querySelectorAll<HTMLElement>(".question")].find(
      (one) => one.dataset["request"] === requestId,
    );
    card?.scrollIntoView({ block: "nearest" });
    card?.focus();
  }
}

const root = document.getElementById("deputy");
if (root) new PageView(acquireVsCodeApi(), root);
