"""What a person does with Deputy in VS Code, done by mouse and keyboard in a real one."""

import pytest
from playwright.async_api import expect

from tests.editors.vscode.model import BETTER, GREETING
from tests.editors.vscode.window import Window

pytestmark = [
    pytest.mark.editors,
    pytest.mark.xdist_group("vscode"),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
]


async def test_a_prompt_is_answered_in_the_chat(window: Window) -> None:
    await window.ask("hello")
    answer = window.chat.locator(".message.assistant")
    await expect(answer).to_contain_text("Hello! I am the scripted model.")
    await expect(answer.locator("strong")).to_have_text("scripted")


async def test_one_of_two_children_is_cancelled_while_a_change_is_approved_at_the_code(window: Window) -> None:
    await window.open_file("greet.py")
    await window.ask("look and improve")
    looking, improving = window.block("read the callers of retry"), window.block("improve the greeting")
    await expect(looking).to_have_attribute("data-state", "running")
    await expect(improving).to_have_attribute("data-state", "waiting for you")

    thread = window.thread("improve the greeting")
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


async def test_a_denied_change_leaves_the_file_as_it_was(window: Window) -> None:
    await window.open_file("greet.py")
    await window.ask("improve the greeting")
    thread = window.thread("edit_file")
    await window.answer("edit_file", "Deny")
    await expect(window.chat.locator(".message.assistant").last).to_contain_text("The greeting is better now.")
    await expect(thread).to_be_hidden()
    assert GREETING in window.text("greet.py")
