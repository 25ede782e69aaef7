"""Answering permission requests and stopping agents, by mouse and by keyboard."""

import re

import pytest
from playwright.async_api import expect

from tests.editors.vscode.model import BETTER, GREETING
from tests.editors.vscode.window import Window

pytestmark = [
    pytest.mark.editors,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
]


@pytest.mark.requirement("X5")
async def test_permission_requests_are_answered_in_the_inbox_one_by_one_and_all_of_an_agent(window: Window) -> None:
    for section in ("Agents", "Approvals"):  # folds the one and unfolds the other: there is no room for both
        await window.page.locator(".pane-header", has_text=section).first.click()
    await window.ask("improve both")
    await window.press(window.row("2 approvals"), "Deny All of This Agent")
    await expect(window.row("edit_file")).to_have_count(0)
    await expect(window.chat.locator(".message.assistant")).to_have_count(1)
    assert GREETING in window.text("greet.py")

    await window.ask("improve both")
    await expect(window.row("edit_file")).to_have_count(2)
    await window.settle(window.row("edit_file(greet.py)"), "Approve")
    await expect(window.row("edit_file")).to_have_count(1)
    assert "limit - 1" in window.text("backoff.py")
    await window.press(window.row("1 approval"), "Approve All of This Agent")
    dialog = window.page.get_by_role("dialog")
    await expect(dialog).to_contain_text("edit_file(backoff.py)")
    await dialog.get_by_role("button", name="Approve").click()
    await expect(window.chat.locator(".message.assistant")).to_have_count(2)
    assert BETTER in window.text("greet.py")
    assert "limit - 1" not in window.text("backoff.py")


async def test_a_file_that_was_approved_for_good_has_a_rule_that_can_be_removed(window: Window) -> None:
    await window.open_file("greet.py")
    await window.ask("improve the greeting")
    await window.answer("edit_file", "Approve for this file")
    await expect(window.chat.locator(".message.assistant")).to_have_count(1)
    assert BETTER in window.text("greet.py")
    rule = window.page.locator(".quick-input-widget .monaco-list-row", has_text="allow: edit_file(greet.py)")
    await window.command("Deputy: Permission Rules…")
    await rule.click()
    await window.command("Deputy: Permission Rules…")
    await expect(window.page.locator(".quick-input-title")).to_contain_text("no permission rules")
    await expect(rule).to_be_hidden()


@pytest.mark.requirement("P4")
async def test_progress_cancels_one_sub_agent_and_its_sibling_continues(window: Window) -> None:
    await window.ask("why does the retry loop give up")
    callers, tests = window.block("read the callers of retry"), window.block("read the tests about retries")
    for block in (callers, tests):
        await expect(block.locator(".activity")).to_contain_text("Reading")
    await window.page.locator(".statusbar-item", has_text="general: read the").click()
    progress = window.page.locator(".notification-list-item", has_text="general: read the callers of retry")
    await progress.get_by_role("button", name="Cancel").click()
    await expect(callers).to_have_attribute("data-state", "cancelled")
    await expect(tests).to_have_attribute("data-state", "running")


async def test_progress_shows_no_icons_from_model_text(window: Window) -> None:
    await window.ask("pretend")
    await expect(window.block("all is done").locator(".activity")).to_contain_text("$(pass)")
    item = window.page.locator(".statusbar-item", has_text="all is done")
    await expect(item).to_contain_text("general: $ (check) all is done: grep $ (pass)")
    await item.click()
    progress = window.page.locator(".notification-list-item", has_text="general: $ (check) all is done")
    for place in (item, progress):
        await expect(place.locator(".codicon-check, .codicon-pass")).to_have_count(0)


async def test_approvals_can_be_viewed_and_answered_by_keyboard_only(window: Window) -> None:
    keys = window.page.keyboard
    await window.command("Deputy: Focus on Chat View")
    await expect(window.chat.locator("textarea.prompt")).to_be_focused()
    await keys.type("Have the greeting improved as in @bac")
    await expect(window.chat.get_by_role("option", name="backoff.py")).to_have_attribute("aria-selected", "true")
    await keys.press("Tab")
    await expect(window.chat.locator("textarea.prompt")).to_have_value("Have the greeting improved as in @backoff.py ")
    await keys.press("Enter")
    await expect(window.approval("edit_file")).to_be_visible()
    await keys.press("Control+Alt+Q")
    await expect(window.comment_thread("improve the greeting")).to_be_visible()
    await window.command("Deputy: Open Diff")
    await expect(window.page.locator(".tab.active")).to_contain_text("greet.py (proposed by improve the greeting)")
    await expect(window.page.locator(".modified-in-monaco-diff-editor.focused")).to_be_visible()
    await window.command("Deputy: Approve")
    await expect(window.block("improve the greeting")).to_have_attribute("data-state", "completed")
    assert await window.page.evaluate("document.activeElement !== document.body")
    assert BETTER in window.text("greet.py")

    await window.command("Deputy: Focus on Chat View")
    await expect(window.chat.locator("textarea.prompt")).to_be_focused()
    await keys.type("Count the files")
    await keys.press("Enter")
    await expect(window.approval("shell")).to_be_visible()
    await keys.press("Control+Alt+Q")
    await expect(window.approval("shell")).to_be_focused()
    await keys.press("Tab")
    await keys.press("Tab")
    await expect(window.approval("shell").get_by_role("button", name="Approve")).to_be_focused()
    await keys.press("Enter")
    await expect(window.chat.locator(".message.assistant").last).to_contain_text("Two.")

    await expect(window.chat.get_by_role("button", name="Stop all agents of this session")).to_be_hidden()
    await window.command("Deputy: Focus on Agents View")
    await expect(window.page.get_by_role("tree", name="Agents")).to_be_focused()
    await keys.press("End")
    await expect(window.page.locator(".sidebar .monaco-list-row.focused")).to_contain_text("improve the greeting")
    await keys.press("Enter")
    await expect(window.page.locator(".tab.active")).to_have_text(re.compile("improve the greeting"))
