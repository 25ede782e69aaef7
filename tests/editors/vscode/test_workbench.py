"""Deputy in a real VS Code, used by mouse and keyboard."""

import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.editors.vscode.model import BETTER, GREETING
from tests.editors.vscode.window import SIZE, Window

pytestmark = [
    pytest.mark.editors,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
]

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
    await expect(block.locator(".call-title")).to_have_text("Read greet.py")

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
    await expect(notification.get_by_role("button", name="Deny", exact=True)).to_be_visible()
    await expect(notification.get_by_role("button", name="Cancel")).to_have_count(0)
    await notification.get_by_role("link", name="Approve").click()
    await expect(window.chat.locator(".message.assistant")).to_contain_text("Two.")
    await expect(notification).to_be_hidden()


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


@pytest.mark.requirement("R4")
async def test_a_change_is_found_at_the_code_commented_on_by_keys_and_gone_back_over(
    window: Window, tmp_path: Path
) -> None:
    await window.open_file("greet.py")
    await window.ask("improve the greeting")
    await window.answer("edit_file", "Approve")
    bar, prompt = window.chat.locator(".changes"), window.chat.locator("textarea.prompt")
    await expect(bar).to_contain_text("1 file+1 −1")
    await expect(window.page.locator(".codelens-decoration", has_text="Keep")).to_be_visible()
    await bar.locator(".changes-toggle").click()
    await expect(bar.locator(".change-row")).to_contain_text("greet.py+1 −1")

    await window.command("View: Focus Active Editor Group")
    await window.page.keyboard.press("Control+Alt+J")  # to the change
    await expect(window.page.locator(".statusbar-item", has_text="Ln 5")).to_be_visible()
    await window.shot(tmp_path / "change.png")
    await window.page.keyboard.press("Control+Alt+M")
    thread = window.page.locator(".review-widget")
    await expect(thread.locator(".monaco-editor.focused")).to_be_visible()
    await window.page.keyboard.type("Say good day.")
    await thread.get_by_role("button", name="Add Comment").click()
    await bar.get_by_role("button", name="Send comment").click()
    await expect(window.chat.locator(".message.user").last).to_contain_text("Say good day.")
    await expect(window.chat.get_by_role("button", name="Stop all agents")).to_be_hidden()

    await bar.locator(".change-name").click()
    await expect(window.page.locator(".tab.active", has_text="changes to review")).to_be_visible()
    first = window.chat.locator(".prompted").first
    await first.hover()
    await first.get_by_role("button", name="Rewind to here").click()
    await expect(first.locator(".rewind-row")).to_contain_text("greet.py+1 −1")
    await window.shot(tmp_path / "rewind.png")
    await first.get_by_role("button", name="Files and conversation").click()
    await expect(prompt).to_have_value("improve the greeting")
    await expect(window.chat.locator(".message")).to_have_count(0)
    await expect(bar).to_be_hidden()
    assert GREETING in window.text("greet.py")
