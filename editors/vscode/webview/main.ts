/** The page: the transcript, the plan, notices and the prompt box. */
import type { FromPage, PastedImage, Surroundings, ToPage } from "../src/page/messages.ts";
import { clockOf, emptySession, isBusy, reduce, type SessionState } from "../src/state/session.ts";
import { endingOf, oneLine, signOf } from "../src/state/text.ts";
import { Composer, type Draft } from "./composer.ts";
import { ChangesBar } from "./changes.ts";
import { button, fill, h, icon } from "./dom.ts";
import { Notices, StatusRow } from "./notices.ts";
import { SetupCard } from "./setup.ts";
import { planList } from "./plan.ts";
import { TranscriptBanner } from "./banner.ts";
import { applyPalette, watchTheme } from "./theme.ts";
import { Transcript } from "./transcript.ts";
import type { View } from "./view.ts";

interface Host {
  postMessage(message: FromPage): void;
  getState(): Draft | undefined;
  setState(draft: Draft): void;
}

declare function acquireVsCodeApi(): Host;

const SECOND = 1000;
/** Milliseconds after which a redraw is noticeable. */
const SLOW = 50;
/** Distance from the end in pixels within which the page follows new content. */
const NEAR_END = 40;

class PageView {
  readonly #host: Host;
  readonly #banner = new TranscriptBanner();
  readonly #scroll = h("main", { class: "scroll", tabindex: "0", "aria-label": "Transcript" });
  readonly #welcome = h("div", { class: "welcome" });
  readonly #plan = h("details", { class: "plan-box" });
  readonly #setup = new SetupCard();
  readonly #changesBar = new ChangesBar();
  readonly #notices = new Notices();
  readonly #status = new StatusRow();
  readonly #jump = button("Latest", () => this.#goToEnd(), {
    class: "secondary small jump",
    icon: "arrow-down",
    label: "Jump to the latest message",
  });
  readonly #announcements = h("div", { class: "unseen", "aria-live": "polite" });
  readonly #composer: Composer;
  #transcript: Transcript | undefined;
  #shownAgent = "";
  #state = emptySession("");
  #around: Surroundings | undefined;
  #images: Readonly<Record<string, readonly PastedImage[]>> = {};
  #changes: View["changes"];
  #rewind: View["rewind"];
  readonly #send = (message: FromPage): void => {
    this.#host.postMessage(message);
    if (message.type === "prompt") this.#goToEnd();
  };
  /** Parts that come into sight get their size only then. */
  readonly #resizes = new ResizeObserver(() => this.#follow());
  #scheduled = false;
  #pause = 0;
  #followsEnd = true;
  /** Scroll position set by the page itself. */
  #followedTo: number | undefined;
  #planDrawn: unknown;
  /** Plans of turns before the current or last one. */
  #earlierPlans = new Set<unknown>();

  constructor(host: Host, root: HTMLElement) {
    this.#host = host;
    this.#composer = new Composer(host.getState(), (draft) => host.setState(draft), this.#send);
    this.#plan.open = true;
    this.#plan.hidden = true;
    fill(
      this.#welcome,
      h("h2", {}, "What do you want to do?"),
      h(
        "p",
        {},
        "Deputy runs sub-agents in parallel. You see each of them work and can stop any one. Nothing is changed without your approval.",
      ),
    );
    this.#scroll.append(h("h1", { class: "unseen" }, "Deputy"), this.#welcome);
    const below = [
      this.#plan,
      this.#status.element,
      this.#setup.element,
      this.#notices.element,
      this.#changesBar.element,
      this.#composer.element,
    ];
    root.append(
      this.#banner.element,
      this.#scroll,
      h("div", { class: "jump-place" }, this.#jump),
      h("section", { class: "below", "aria-label": "Prompt, and state of the session" }, ...below),
      this.#announcements,
    );
    this.#scroll.addEventListener("scroll", () =>
      this.#noteEnd(this.#scroll.scrollTop === this.#followedTo ? Infinity : NEAR_END),
    );
    this.#scroll.addEventListener("click", ({ target }) => {
      if ((target as Element).closest("[aria-expanded], summary")) this.#stay();
    });
    this.#jump.hidden = true;
    this.#resizes.observe(this.#scroll);
    window.addEventListener("focus", () => this.#takeFocus());
    if (document.hasFocus()) this.#takeFocus();
    window.addEventListener("message", ({ data }: MessageEvent<ToPage>) => this.#handle(data));
    setInterval(() => isBusy(this.#state) && this.#schedule(), SECOND);
    host.postMessage({ type: "ready" });
    watchTheme(this.#send);
    host.postMessage({ type: "start" });
  }

  #handle(message: ToPage): void {
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
      case "images":
        this.#images = message.images;
        break;
      case "changes":
        this.#changes = message.changes;
        break;
      case "rewindPlan":
        if (this.#rewind?.seq === message.seq) this.#rewind = message.plan && { seq: message.seq, plan: message.plan };
        break;
      case "mention":
        this.#composer.add(message.mentions, message.text);
        break;
      case "unsent":
        this.#composer.add(message.mentions ?? [], message.text, message.images);
        break;
      case "palette":
        applyPalette(message.colours);
        return;
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
   * Redraws at most once a frame. After a slow redraw it pauses for longer than the redraw took, so that typing stays
   * responsive. A hidden page redraws when it is shown.
   */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    if (this.#pause > 0) setTimeout(() => this.#drawInFrame(), this.#pause);
    else this.#drawInFrame();
  }

  #drawInFrame(): void {
    requestAnimationFrame(() => {
      this.#scheduled = false;
      const start = performance.now();
      this.#draw();
      const took = performance.now() - start;
      this.#pause = took > SLOW ? 2 * took : 0;
    });
  }

  #draw(): void {
    const around = this.#around;
    if (!around) return;
    const view: View = {
      state: this.#state,
      around,
      images: this.#images,
      changes: this.#changes,
      rewind: this.#rewind,
      setRewind: (seq) => this.#setRewind(seq),
      now: clockOf(this.#state),
      send: this.#send,
    };
    document.body.classList.toggle("still", this.#state.snapshot);
    this.#chooseTranscript(around.agentId ?? this.#state.primaryId);
    this.#transcript?.update(view);
    this.#banner.update(view);
    this.#setup.update(view);
    this.#notices.update(view);
    this.#changesBar.update(view);
    this.#status.update(view);
    this.#composer.update(view);
    this.#drawPlan(around.agentId ?? this.#state.primaryId);
    const isTranscript = around.agentId !== undefined;
    document.body.classList.toggle("read-only", isTranscript || this.#state.snapshot);
    this.#composer.element.hidden = isTranscript;
    this.#notices.element.hidden = isTranscript;
    this.#changesBar.element.hidden ||= isTranscript;
    this.#status.element.hidden ||= isTranscript;
    this.#welcome.hidden =
      isTranscript || around.card !== undefined || this.#transcript?.element.childNodes.length !== 0;
    this.#follow();
  }

  /**
   * Scrolls to the end, unless the user has scrolled away or is writing a reason. For an approval that is higher than
   * the page, scrolls to the start of the change; its buttons stay at the edge.
   */
  #follow(): void {
    const isWriting = document.activeElement?.matches(".note, .question *") ?? false;
    if (!this.#followsEnd || this.#rewind || isWriting) return;
    this.#scroll.scrollTop = this.#scroll.scrollHeight;
    const { requests, inputs } = this.#state;
    const isAsked = Object.keys(requests).length + Object.keys(inputs).length > 0;
    if (isAsked) this.#showTallCard();
    this.#followedTo = this.#scroll.scrollTop;
  }

  #showTallCard(): void {
    const card = [...this.#scroll.querySelectorAll<HTMLElement>(".approval")].findLast((one) => one.offsetHeight > 0);
    if (card && card.offsetHeight > this.#scroll.clientHeight)
      (card.querySelector(".added, .removed") ?? card).scrollIntoView({ block: "start" });
  }

  /** Follows the end if it is in sight, or at most `near` pixels away. */
  #noteEnd(near: number): void {
    const below = this.#scroll.scrollHeight - this.#scroll.scrollTop - this.#scroll.clientHeight;
    this.#followsEnd = below < near;
    this.#jump.hidden = this.#followsEnd;
  }

  /** Keeps what the user folds or unfolds where it is. */
  #stay(): void {
    this.#followsEnd = false;
    requestAnimationFrame(() => this.#noteEnd(1));
  }

  /** Shows the end, and follows what is added to it. */
  #goToEnd(): void {
    this.#followsEnd = true;
    this.#jump.hidden = true;
    this.#follow();
  }

  #chooseTranscript(agentId: string | undefined): void {
    const shown = `${this.#state.sessionId}/${agentId ?? ""}`;
    if (shown === this.#shownAgent) return;
    this.#shownAgent = shown;
    if (this.#transcript) this.#resizes.unobserve(this.#transcript.element);
    this.#transcript?.element.remove();
    this.#transcript = new Transcript(agentId ?? "", "whole");
    this.#scroll.append(this.#transcript.element);
    this.#resizes.observe(this.#transcript.element);
  }

  #setRewind(seq: number | undefined): void {
    this.#rewind = seq === undefined ? undefined : { seq, plan: undefined };
    if (seq !== undefined) this.#send({ type: "planRewind", seq });
    this.#schedule();
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

  /** Focuses the prompt box, or the transcript if there is no box, when the page gets the focus. */
  #takeFocus(): void {
    if (document.activeElement !== document.body) return;
    if (this.#composer.element.hidden) this.#scroll.focus();
    else this.#composer.focus();
  }

  /** Applies the next state, and announces new approvals and finished agents to screen readers. */
  #announce(next: SessionState): void {
    const before = this.#state;
    this.#state = next;
    if (next.turn && next.turn.turnId !== before.turn?.turnId)
      this.#earlierPlans = new Set(Object.values(before.plans));
    const requested = Object.values(next.requests).filter(({ requestId }) => !(requestId in before.requests));
    const asked = Object.values(next.inputs).filter(({ requestId }) => !(requestId in before.inputs));
    const ended = Object.values(next.agents).filter((agent) => agent.endedAt && !before.agents[agent.agentId]?.endedAt);
    const messages = [
      ...requested.map((request) => `${oneLine(request.title)} needs your approval`),
      ...asked.map((input) => `Question: ${oneLine(input.title)}`),
      ...ended.map((agent) => `${oneLine(agent.label)} ${signOf(agent).word}`),
    ];
    if (before.turn && !next.turn && next.ended)
      messages.push(
        next.ended.error ? oneLine(next.ended.error.message) : endingOf(next.ended) || "Deputy has answered",
      );
    if (messages.length) this.#announcements.textContent = messages.join(". ");
  }

  #show(requestId: string): void {
    this.#draw();
    const card = [...this.#scroll.querySelectorAll<HTMLElement>(".approval")].find(
      (one) => one.dataset["request"] === requestId,
    );
    card?.scrollIntoView({ block: "nearest" });
    card?.focus();
  }
}

const root = document.getElementById("deputy");
if (root) new PageView(acquireVsCodeApi(), root);
