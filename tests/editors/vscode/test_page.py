"""Layout of the chat in narrow and low views, and of a snapshot of another window's session."""

import copy
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, ViewportSize, expect

from tests.editors.vscode.page import Json, chat, post, recorded

pytestmark = [
    pytest.mark.editors,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(120),
]

ASKED = 2
"""Steps of the recorded session until two permission requests are open."""
WORDS = "investigate every caller of the helper that retries in the whole of this repository and beyond"
NAME = "src/AbstractRetryBackoffStrategyFactoryBeanImplementation/ofTheWholeRepository/and_of_what_it_uses.py"
T0 = "2026-01-01T00:00:00Z"
LINE = f'    return translated(f"Good morning, {{name}}, and welcome to the {NAME}")'

ROOM = 50
"""Pixels for one or two words."""

TOO_WIDE = """() => {
  const isScrolled = (element) => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
  const isCut = (element) => getComputedStyle(element).textOverflow === "ellipsis";
  const boxes = [document.scrollingElement, ...document.querySelectorAll("body *:not(.unseen, .unseen *)")];
  return boxes
    .filter((box) => box.clientWidth > 0 && box.scrollWidth > box.clientWidth && !isCut(box))
    .map((box) => `${box.tagName}.${box.className}: ${box.scrollWidth} in ${box.clientWidth}, ${isScrolled(box)}`);
}"""
IN_SIGHT = """(part) => {
  const view = document.querySelector(".scroll").getBoundingClientRect();
  const { left, top, width, height, bottom } = part.getBoundingClientRect();
  const above = document.elementFromPoint(left + Math.min(width / 2, 20), top + height / 2);
  return top >= view.top - 1 && bottom <= view.bottom + 1 && (part === above || part.contains(above));
}"""
END_IN_SIGHT = """(part) => {
  const { bottom } = part.getBoundingClientRect();
  return bottom <= document.querySelector(".scroll").getBoundingClientRect().bottom + 1;
}"""
RENDERED = "(part) => part.checkVisibility({ contentVisibilityAuto: true })"
END = """() => {
  const { scrollHeight, scrollTop, clientHeight } = document.querySelector(".scroll");
  return scrollHeight - scrollTop - clientHeight < 2;
}"""
COVERED = """(card) => {
  const [seen, answers] = [".diff", ".answers"].map((part) => card.querySelector(part).getBoundingClientRect());
  return answers.top < seen.bottom - 1;
}"""
ANIMATIONS = """() => [...document.querySelectorAll(".codicon-modifier-spin")]
  .map((sign) => getComputedStyle(sign).animationName)"""


def wordy() -> list[Json]:
    """Permission requests with long labels, titles, reasons, file names and lines."""
    events = copy.deepcopy(recorded("permission_requests", ASKED))
    for event in events:
        if "agent" in event:
            event["agent"]["label"] = WORDS
        if event["type"] == "message":
            event["text"] = f"{WORDS}: `{NAME}`\n\n```python\n{LINE}\n```"
        if event["type"] in ("tool_call", "permission_requested"):
            event["title"] = f"[{WORDS}] edit_file({NAME})"
        if event["type"] == "permission_requested":
            event["reason"] = f"edit_file changes {NAME}; {WORDS}."
            event["preview"] |= {"oldText": f"{LINE}\n", "newText": f"{LINE}  # {WORDS} {NAME}\n"}
            for option in event["options"]:
                option["name"] = f"Always allow: edit_file({NAME})"
    return events


@pytest.mark.parametrize("width", [170, 300, 470])
async def test_no_element_is_wider_than_the_side_bar(browser: BrowserContext, tmp_path: Path, width: int) -> None:
    async with chat(browser, {"width": width, "height": 1200}, wordy()) as page:
        await expect(page.locator(".approval")).to_have_count(2)
        await page.screenshot(path=tmp_path / "page.png")
        assert await page.evaluate(TOO_WIDE) == []


@pytest.mark.parametrize("width", [170, 300, 470])
async def test_label_and_cancel_button_of_a_block_are_visible_at_any_width(
    browser: BrowserContext, tmp_path: Path, width: int
) -> None:
    async with chat(browser, {"width": width, "height": 900}, recorded("three_children", 5)) as page:
        await page.screenshot(path=tmp_path / "page.png")
        for block in await page.locator(".block").all():
            assert await block.locator(".label").evaluate("(label) => label.clientWidth") >= ROOM
            cancel = block.get_by_role("button", name="Cancel")
            assert await cancel.count() == 0 or await cancel.evaluate(IN_SIGHT)


@pytest.mark.parametrize("height", [120, 240])
async def test_low_view_shows_change_with_title_and_answers(
    browser: BrowserContext, tmp_path: Path, height: int
) -> None:
    async with chat(browser, {"width": 300, "height": height}, recorded("permission_requests", ASKED)) as page:
        card = page.locator(".approval").last
        await expect(page.locator("body.settling")).to_have_count(0)  # no click counts before
        await page.screenshot(path=tmp_path / "page.png")
        parts = [card.locator(".approval-title"), card.locator(".removed"), card.locator(".added")]
        parts += await card.locator(".answers .button").all()
        for part in parts:
            assert await part.evaluate(IN_SIGHT), await part.inner_text()
        assert await card.locator(".diff").evaluate("(diff) => diff.scrollHeight <= diff.clientHeight")


@pytest.mark.parametrize("height", [120, 240])
async def test_low_view_scrolls_to_the_reason_box(browser: BrowserContext, height: int) -> None:
    async with chat(browser, {"width": 300, "height": height}, recorded("permission_requests", ASKED)) as page:
        card = page.locator(".approval").last
        await card.get_by_role("button", name="Deny with reason…").click()
        row = card.locator(".note-row")
        reason = row.get_by_role("textbox")
        await expect(reason).to_be_focused()
        await page.wait_for_timeout(1_500)  # the clock is redrawn each second
        for part in (reason, row.get_by_role("button", name="Deny with this reason")):
            assert await part.evaluate(IN_SIGHT), await part.inner_text()


async def test_narrow_view_answers_do_not_cover_the_change(browser: BrowserContext) -> None:
    async with chat(browser, {"width": 170, "height": 420}, recorded("permission_requests", ASKED)) as page:
        card = page.locator(".approval").first
        await card.evaluate("(card) => card.scrollIntoView({ block: 'start' })")
        assert not await card.evaluate(COVERED)


async def test_snapshot_has_no_animations(browser: BrowserContext) -> None:
    size: ViewportSize = {"width": 300, "height": 900}
    async with chat(browser, size, recorded("three_children", 5), snapshot=True) as page:
        await page.emulate_media(reduced_motion="no-preference")
        assert set(await page.evaluate(ANIMATIONS)) == {"none"}
    async with chat(browser, size, recorded("three_children", 5)) as page:
        await page.emulate_media(reduced_motion="no-preference")
        assert set(await page.evaluate(ANIMATIONS)) == {"codicon-spin"}


def talk(turns: int) -> list[Json]:
    """A session with many prompts and long answers."""
    events = recorded("three_children", 1)
    for turn in range(turns):
        for role in ("user", "assistant"):
            seq = events[-1]["seq"] + 1
            event = {"type": "message", "seq": seq, "agentSeq": seq, "messageId": f"m{seq}", "role": role}
            text = f"{role} {turn}\n" * (1 if role == "user" else 20)
            events.append({**event, "sessionId": "session-1", "agentId": "agent-1", "run": 1, "time": T0, "text": text})
    return events


async def test_sending_while_scrolled_up_shows_the_end(browser: BrowserContext) -> None:
    async with chat(browser, {"width": 300, "height": 600}, talk(9)) as page:
        scroll, jump = page.locator(".scroll"), page.get_by_role("button", name="Jump to the latest message")
        await expect(jump).to_be_hidden()
        await scroll.evaluate("(scroll) => { scroll.scrollTop = 0; }")
        await expect(jump).to_be_visible()
        await jump.click()
        last = page.locator(".message").last
        assert await last.evaluate(END_IN_SIGHT)
        await expect(jump).to_be_hidden()
        await scroll.evaluate("(scroll) => { scroll.scrollTop = 0; }")
        await expect(jump).to_be_visible()
        await page.locator("textarea.prompt").fill("and now?")
        await page.keyboard.press("Enter")
        assert await last.evaluate(END_IN_SIGHT)


async def test_new_messages_do_not_move_what_the_user_reads(browser: BrowserContext) -> None:
    events = talk(9)
    async with chat(browser, {"width": 300, "height": 600}, events[:-2]) as page:
        scroll = page.locator(".scroll")
        await scroll.evaluate("(scroll) => { scroll.scrollTop = 300; }")
        await expect(page.get_by_role("button", name="Jump to the latest message")).to_be_visible()
        await post(page, {"type": "events", "events": events[-2:]})
        await expect(page.locator(".message")).to_have_count(18)
        assert await scroll.evaluate("(scroll) => scroll.scrollTop") == 300


async def test_messages_out_of_sight_are_not_rendered(browser: BrowserContext) -> None:
    async with chat(browser, {"width": 300, "height": 600}, talk(20)) as page:
        await page.wait_for_function(END)
        answers = page.locator(".assistant .markdown")
        assert await answers.last.evaluate(RENDERED)
        assert not await answers.first.evaluate(RENDERED)


async def test_unfolded_part_stays_where_it_is(browser: BrowserContext) -> None:
    async with chat(browser, {"width": 300, "height": 400}, recorded("three_children", 7)) as page:
        toggle = page.locator(".block-toggle").first
        await toggle.scroll_into_view_if_needed()
        await toggle.hover()  # which shows its buttons
        before = await toggle.bounding_box()
        await toggle.click()
        await expect(page.locator(".call").first).to_be_visible()
        assert await toggle.bounding_box() == before
