"""Speed of the chat page in headless Chromium: `python -m tests.editors.vscode.bench`.

The page shows a session with 460 tool calls while 8 sub-agents stream. Prints frames per second, the longest task, the
time in tasks of more than 50 ms, and the size of the heap.
"""

import asyncio
import sys
from itertools import count
from typing import Any

from playwright.async_api import async_playwright

from tests.editors.vscode.page import Json, chat, post
from tests.editors.vscode.vscode import chromium

CALLS = 460
CHILDREN = 8
SECONDS = 10
TIME = "2026-01-01T00:00:00Z"
USAGE = {"inputTokens": 9, "outputTokens": 9, "cacheReadTokens": 0, "cacheWriteTokens": 0}

MEASURE = """([children, seconds]) => new Promise((resolve) => {
  const [frames, tasks] = [[], []];
  new PerformanceObserver((list) => tasks.push(...list.getEntries().map((task) => task.duration)))
    .observe({ type: "longtask" });
  const start = performance.now();
  const words = "Reads the `retry` loop and its **callers**, then compares both sides.\\n\\n- one\\n- two\\n\\n";
  let [at, seq] = [0, 100_000];
  const base = (agentId) => ({ sessionId: "session-1", agentId, run: 1, time: new Date().toISOString() });
  const stream = setInterval(() => {
    at += 1;
    const events = ["agent-1", ...children].map((agentId) => ({
      ...base(agentId), type: "message_delta", afterSeq: seq, messageId: `stream-${agentId}`,
      text: words.slice((at * 7) % words.length, (at * 7) % words.length + 7),
    }));
    const busy = children[at % children.length];
    const activity = { afterSeq: seq, text: `read_file ${at}.py`, toolCallCount: at };
    events.push({ ...base(busy), type: "agent_activity", ...activity });
    window.postMessage({ type: "events", events });
  }, 16);
  const frame = (now) => {
    frames.push(now);
    if (now - start < seconds * 1000) return requestAnimationFrame(frame);
    clearInterval(stream);
    const gaps = frames.slice(1).map((time, index) => time - frames[index]);
    resolve({
      fps: 1000 * gaps.length / (frames.at(-1) - frames[0]), frame: Math.max(...gaps), task: Math.max(0, ...tasks),
      long: tasks.reduce((sum, task) => sum + task, 0), heap: performance.memory.usedJSHeapSize / 2 ** 20,
      nodes: document.querySelectorAll("*").length,
    });
  };
  requestAnimationFrame(frame);
})"""


def session() -> list[Json]:
    """Agents that have made all the calls. Each third call is an edit, so that few are grouped."""
    events: list[Json] = []
    numbers = count(1)

    def add(by: str, **event: object) -> None:
        seq = next(numbers)
        events.append(
            {"sessionId": "session-1", "agentId": by, "run": 1, "time": TIME, "seq": seq, "agentSeq": seq, **event}
        )

    def start(agent: str, **node: object) -> None:
        of = {
            "definition": "general",
            "model": "m",
            "access": "default",
            "run": 1,
            "status": "running",
            "toolCallCount": 0,
        }
        times = {"startedAt": TIME, "updatedAt": TIME}
        add(
            agent, type="agent_started", agent={"agentId": agent, "label": agent, **of, **times, "usage": USAGE, **node}
        )

    start("agent-1", depth=0)
    add("agent-1", type="turn_started", turnId="turn-1", origin="user")
    add("agent-1", type="message", messageId="m1", role="user", text="Look at everything")
    for child in children():
        start(child, depth=1, parentAgentId="agent-1")
    for number in range(CALLS):
        agent = "agent-1" if number % 2 else children()[number // 2 % CHILDREN]
        tool, kind = ("edit_file", "edit") if number % 3 == 0 else ("read_file", "read")
        call = {"toolCallId": f"call-{number}"}
        title = f"{tool}(src/file_{number}.py)"
        add(
            agent, type="tool_call", tool=tool, title=title, kind=kind, status="pending", input={}, locations=[], **call
        )
        add(agent, type="tool_call_update", status="completed", content="line\n" * 40, **call)
    return events


def children() -> list[str]:
    return [f"child-{number}" for number in range(CHILDREN)]


async def measure() -> dict[str, Any]:
    arguments = ["--no-sandbox", "--disable-gpu", "--no-proxy-server", "--enable-precise-memory-info"]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=arguments)
        context = await browser.new_context(reduced_motion="reduce")
        async with chat(context, {"width": 470, "height": 950}, session()) as page:
            for toggle in await page.locator(".block-toggle").all():
                await toggle.evaluate("(toggle) => toggle.click()")
            figures = await page.evaluate(MEASURE, [children(), SECONDS])
            await post(
                page, {"type": "state", "around": {"server": "running", "mode": "default", "edits": {}, "stale": {}}}
            )
            await page.request_gc()
            after = await page.evaluate("performance.memory.usedJSHeapSize / 2 ** 20")
        await browser.close()
        return {**figures, "after": after}


def main() -> None:
    found = asyncio.run(measure())
    print(f"{CALLS} tool calls, {CHILDREN} streaming sub-agents, {SECONDS} s, {found['nodes']} elements")
    print(f"frames per second    {found['fps']:6.1f}")
    print(f"longest frame        {found['frame']:6.0f} ms")
    print(f"longest task         {found['task']:6.0f} ms")
    print(f"tasks above 50 ms    {found['long']:6.0f} ms in total")
    print(f"heap                 {found['heap']:6.1f} MB, {found['after']:.1f} MB in a new session")


if __name__ == "__main__":
    sys.exit(main())
