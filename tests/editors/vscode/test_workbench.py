"""Deputy in a real VS Code, used by mouse and keyboard."""

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, TimeoutError, expect

from tests.editors.vscode.model import BETTER, GREETING
from tests.editors.vscode.vscode import make_project, vscode, with_extension
from tests.editors.vscode.window import SIZE, Window
from tests.editors.vscode.window import window as open_window

pytestmark = [
    pytest.mark.editors,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
]

UNTRUSTED = {
    "security.workspace.trust.enabled": True,
    "security.workspace.trust.startupPrompt": "never",
    "workbench.editor.useModal": "off",
}
TIME_IS_IN_SIGHT = """(row) => {
  const words = row.querySelector(".label-description").firstChild;
  const time = new Range();
  time.setStart(words, 0);
  time.setEnd(words, words.textContent.indexOf(" s ·") + 2);
  const room = row.querySelector(".monaco-icon-label-container");
  return time.getBoundingClientRect().right < room.getBoundingClientRect().right;
}"""
PASTE_IMAGE = """async (prompt) => {
  const image = await new Promise((resolve) => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
    canvas.toBlob(resolve, "image/png");
  });
  const clipboardData = new DataTransfer();
  clipboardData.items.add(new File([image], "image.png", { type: "image/png" }));
  prompt.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
}"""


async def test_a_prompt_is_answered_in_the_chat(window: Window) -> None:
    await window.ask("hello")
    answer = window.chat.locator(".message.assistant")
    await expect(answer).to_contain_text("Hello! I am the scripted model.")
    await expect(answer.locator("strong")).to_have_text("scripted")


@pytest.mark.requirement("P5")
@pytest.mark.requirement("P7")
@pytest.mark.requirement("C6")
async def test_one_of_two_children_is_cancelled_while_a_change_is_approved_at_the_code(window: Window) -> None:
    await window.open_file("greet.py")
    await window.ask("look and improve")
    looking, improving = window.block("read the callers of retry"), window.block("improve the greeting")
    await expect(looking).to_have_attribute("data-state", "running")
    await expect(improving).to_have_attribute("data-state", "waiting for you")
    await expect(improving.locator(".approval")).to_contain_text("edit_file(greet.py)")
    row = window.row("improve the greeting").last
    await expect(row).to_contain_text("waiting for you")
    await expect(window.row("read the callers…")).to_be_visible()
    assert await row.evaluate(TIME_IS_IN_SIGHT)

    thread = window.comment_thread("improve the greeting")
    await expect(thread).to_contain_text(BETTER)
    assert GREETING in window.text("greet.py")
    await window.answer("improve the greeting", "Approve")
    await expect(improving).to_have_attribute("data-state", "completed")
    await expect(thread).to_be_hidden()
    assert BETTER in window.text("greet.py")

    await expect(looking).to_have_attribute("data-state", "running")
    await looking.get_by_role("button", name="Cancel").click()
    await expect(looking).to_have_attribute("data-state", "cancelled")
    await expect(window.chat.locator(".message.assistant").last).to_contain_text("One looked, one improved.")


async def test_denied_change_leaves_file_unchanged(window: Window) -> None:
    await window.open_file("greet.py")
    await window.ask("improve the greeting")
    thread = window.comment_thread("edit_file")
    await expect(thread).to_be_visible()
    await window.page.set_viewport_size({"width": SIZE["width"] // 2, "height": SIZE["height"] // 2})  # magnified
    await expect(window.approval("edit_file")).to_be_in_viewport()
    await window.page.set_viewport_size(SIZE)
    await window.answer("edit_file", "Deny")
    await expect(window.chat.locator(".message.assistant").last).to_contain_text("The greeting is better now.")
    await expect(thread).to_be_hidden()
    assert GREETING in window.text("greet.py")


async def test_denial_with_reason_at_the_code_focuses_the_file(window: Window) -> None:
    await window.open_file("greet.py")
    await window.ask("improve the greeting")
    thread = window.comment_thread("edit_file")
    await thread.get_by_role("button", name="Deny with a reason").click()
    await expect(thread.locator(".monaco-editor.focused")).to_be_visible()
    await window.page.keyboard.type("Leave it unchanged")
    await window.page.keyboard.press("Control+Enter")
    await expect(thread).to_be_hidden()
    await expect(window.page.locator(".editor-instance .monaco-editor.focused")).to_be_visible()
    assert GREETING in window.text("greet.py")


@pytest.mark.requirement("B9")
async def test_sub_agents_are_foldable_and_all_definitions_are_listed(window: Window) -> None:
    await window.ask("why does the retry loop give up")
    block = window.block("read the history of backoff")
    await expect(block).to_have_attribute("data-state", "completed")
    await expect(block.get_by_role("img", name="completed")).to_be_visible()
    await expect(block.locator(".figures")).to_have_text(re.compile(r"general · [\d.]+ s · 1 call · \d+ tok"))
    await expect(block.locator(".call")).to_be_hidden()
    await block.locator(".block-toggle").click()
    await expect(block.locator(".call-title")).to_have_text("read_file(greet.py)")

    for section in ("Agents", "Agent Definitions"):  # folds the one and unfolds the other: there is no room for both
        await window.page.locator(".pane-header", has_text=section).click()
    await expect(window.row("code_search").locator(".codicon-search")).to_be_visible()
    await window.row("code_review").click()
    for detail in ("Reviews files", "Tools: "):
        await expect(window.row(detail).first).to_be_visible()
    await window.page.keyboard.press("End")
    await expect(window.row("At most 6 model requests")).to_be_visible()


@pytest.mark.requirement("P7")
async def test_command_is_approved_in_its_notification(window: Window) -> None:
    await window.ask("count the files")
    notification = window.page.locator(
        ".notifications-toasts .notification-list-item", has_text="needs approval to run"
    )
    await expect(notification).to_contain_text("[Deputy] needs approval to run: ls *.py | sort (in ")
    await notification.get_by_role("link", name="Approve").click()
    await expect(window.chat.locator(".message.assistant")).to_contain_text("Two.")
    await expect(notification).to_be_hidden()


async def test_window_reloaded_during_a_turn_can_continue_it(window: Window) -> None:
    await window.ask("have the greeting improved")
    await expect(window.approval("edit_file")).to_be_visible()
    await window.page.reload()
    await window.chat.get_by_role("button", name="Continue").click()
    await expect(window.chat.locator(".message.assistant").last).to_contain_text("Continuing.")
    await expect(window.approval("edit_file")).to_be_hidden()
    assert GREETING in window.text("greet.py")


async def test_restored_diff_of_a_closed_permission_request_closes(window: Window) -> None:
    await window.ask("improve the greeting")
    await window.approval("edit_file").get_by_role("button", name="Open diff").click()
    tab = window.page.locator(".tab", has_text="proposed by Deputy")
    await expect(tab).to_be_visible()
    await window.page.reload()
    await expect(window.chat.get_by_role("button", name="Continue")).to_be_visible()
    await expect(tab).to_have_count(0)


async def test_session_of_another_window_is_read_only_until_that_closes_and_can_be_unarchived(
    browser: BrowserContext, workbench: str, window: Window
) -> None:
    await window.ask("look and improve")
    await expect(window.approval("edit_file")).to_be_visible()
    async with open_window(browser, workbench, window.project) as other:
        await other.open_chat()
        prompt, again = other.chat.locator("textarea.prompt"), other.chat.get_by_role("button", name="Read Again")
        await again.click()
        await expect(other.chat.locator(".notice")).to_contain_text("open in another window")
        await expect(prompt).to_be_disabled()
        signs = other.page.locator(".sidebar .monaco-list-row .codicon-sync")
        await expect(signs).to_have_count(3)
        await expect(other.page.locator(".sidebar .monaco-list-row .codicon-modifier-spin")).to_have_count(0)

        await window.page.close()
        for _ in range(30):  # until the server of that window has ended
            with suppress(TimeoutError):
                await again.click(timeout=1_000)
            with suppress(AssertionError):
                await expect(prompt).to_be_enabled(timeout=1_000)
                break
        await other.chat.get_by_role("button", name="Continue").click()
        await expect(other.chat.locator(".message.assistant").last).to_contain_text("Continuing.")

        row = other.page.locator(".quick-input-widget .monaco-list-row", has_text="look and improve")
        await other.command("Deputy: Archive Session")
        await other.command("Deputy: Open Session…")
        await row.hover()
        await row.get_by_role("button", name="Unarchive Session").click()
        await expect(row.get_by_role("button", name="Unarchive Session")).to_have_count(0)
        await other.page.keyboard.press("Escape")
        await other.page.locator(".pane-header", has_text="Sessions").click()
        await expect(other.row("look and improve")).to_be_visible()


async def test_pasted_image_is_sent_with_the_prompt(window: Window) -> None:
    await window.chat.locator("textarea.prompt").evaluate(PASTE_IMAGE)
    await expect(window.chat.get_by_alt_text("Pasted image")).to_be_visible()
    await window.ask("look at the image")
    await expect(window.chat.locator(".message.assistant")).to_contain_text("I see the image.")
    images = window.chat.locator(".message.user").get_by_alt_text("Image 1 of the prompt")
    await expect(images).to_be_visible()
    await window.chat.locator("textarea.prompt").evaluate(PASTE_IMAGE)
    await expect(window.chat.get_by_alt_text("Pasted image")).to_be_visible()
    await window.chat.locator("textarea.prompt").press("Enter")  # an image alone is a prompt too
    await expect(images).to_have_count(2)


async def test_quick_fix_sends_problem_to_deputy(window: Window) -> None:
    (window.project / "broken.json").write_text('{"a": }\n')
    await window.open_file("broken.json")
    await expect(window.page.locator(".squiggly-error")).to_be_visible()
    await window.command("Go to Next Problem in Files")
    await expect(window.page.locator(".marker-widget")).to_contain_text("Value expected")  # the cursor is there by now
    await window.choose_fix("Ask Deputy to fix")
    await expect(window.chat.locator(".message.user")).to_contain_text("Fix in broken.json:")
    await expect(window.chat.locator(".message.user")).to_contain_text("- line 1: Value expected")
    await expect(window.chat.locator(".message.assistant")).to_contain_text("There is nothing to fix.")


async def test_walkthrough_shows_completed_steps(window: Window) -> None:
    await window.ask("hello")  # the server runs by the time it is answered
    await expect(window.chat.locator(".message.assistant")).to_be_visible()
    await window.command("Welcome: Open Walkthrough...")
    await window.page.locator(".quick-input-widget .monaco-list-row", has_text="Get started with Deputy").click()
    step = window.page.locator(".getting-started-step", has_text="Install the server")
    await expect(step.locator(".codicon-getting-started-step-checked")).to_be_visible()


async def test_attachments_reach_hidden_chat_and_are_restored_from_the_queue(window: Window) -> None:
    prompt, chips = window.chat.locator("textarea.prompt"), window.chat.locator(".chip")
    await window.ask("take your time")
    await expect(window.chat.get_by_role("button", name="Stop all agents of this session")).to_be_visible()
    await window.open_file("greet.py")
    await window.command("View: Show Explorer")
    await expect(prompt).to_be_hidden()
    await window.command("View: Focus Active Editor Group")
    await window.page.keyboard.press("Control+A")
    await window.page.keyboard.press("Control+Alt+D")
    await expect(chips).to_contain_text(["greet.py:1-8"])
    await prompt.evaluate(PASTE_IMAGE)
    await expect(chips).to_have_count(2)
    await window.ask("later")
    await expect(chips).to_have_count(0)
    await window.chat.get_by_role("button", name="Remove from queue").click()
    await expect(prompt).to_have_value("later")
    await expect(chips).to_have_count(2)


async def test_session_uses_the_picked_folder(browser: BrowserContext, workbench: str, tmp_path: Path) -> None:
    names = ("first/app", "second/app")  # folders of one name are told apart by the one above
    first, second = (make_project(tmp_path / name) for name in names)
    folders = tmp_path / "both.code-workspace"
    folders.write_text(json.dumps({"folders": [{"path": name} for name in names]}))
    async with open_window(browser, workbench, folders) as window:
        await window.open_chat()
        prompt = window.chat.locator("textarea.prompt")
        second_folder = window.page.locator(".quick-input-widget .monaco-list-row", has_text="second")
        await window.ask("improve the greeting")
        await expect(second_folder).to_be_visible()
        await window.page.keyboard.press("Escape")
        await expect(prompt).to_have_value("improve the greeting")  # nothing was lost
        await prompt.press("Enter")
        await second_folder.click()
        await expect(window.chat.locator(".folder")).to_have_text("second/app")
        await window.page.locator(".pane-header", has_text="Approvals").click()
        await expect(window.row("edit_file(greet.py)")).to_contain_text("second/app")
        await window.approval("edit_file").get_by_role("button", name="Approve", exact=True).click()
        await expect(window.chat.locator(".message.assistant")).to_be_visible()
    assert GREETING in (first / "greet.py").read_text("utf-8")
    assert BETTER in (second / "greet.py").read_text("utf-8")


async def test_window_without_folder_asks_to_open_one(browser: BrowserContext, workbench: str) -> None:
    async with open_window(browser, workbench, None) as window:
        await window.open_chat()
        await expect(window.chat.locator(".notice")).to_contain_text("Open a folder")
        await expect(window.chat.get_by_role("button", name="Open Folder")).to_be_visible()
        await window.ask("hello")
        toast = window.page.locator(".notifications-toasts .notification-list-item")
        await expect(toast).to_contain_text("Open a folder first. Deputy works in a folder.")
        await expect(window.chat.locator("textarea.prompt")).to_have_value("hello")
        await expect(window.chat.locator(".message")).to_have_count(0)


async def test_a_folder_that_is_not_trusted_is_only_read_until_it_is(
    browser: BrowserContext, model: str, tmp_path: Path
) -> None:
    settings = {"deputy.model": "scripted", "deputy.baseUrl": model, **UNTRUSTED}
    environment = {"ANTHROPIC_API_KEY": "test-key"}
    with vscode(tmp_path / "home", *with_extension(), settings=settings, environment=environment) as url:
        async with open_window(browser, url, make_project(tmp_path / "project")) as window:
            await window.open_chat()
            await expect(window.chat.locator(".notice")).to_contain_text("This folder is not trusted")
            mode = window.chat.get_by_role("button", name="Permission mode")
            await expect(mode).to_have_text("Plan")
            await window.ask("improve the greeting")
            await expect(window.chat.locator(".message.assistant")).to_be_visible()
            assert GREETING in window.text("greet.py")

            await window.ask("take your time")
            stop = window.chat.get_by_role("button", name="Stop all agents of this session")
            await expect(stop).to_be_visible()
            await window.chat.get_by_role("button", name="Trust…").click()
            await window.page.locator(".workspace-trust-buttons-row").get_by_role("button", name="Trust").first.click()
            await expect(window.chat.locator(".notice")).to_be_hidden()
            await expect(mode).to_have_text("Ask")
            await stop.click()  # the turn has gone on
            await expect(window.chat.locator(".notice")).to_have_text("Cancelled.")
            await expect(window.page.locator(".notifications-toasts .notification-list-item")).to_have_count(0)
            await window.ask("improve the greeting")
            await expect(window.approval("edit_file")).to_be_visible()
