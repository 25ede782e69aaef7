"""Questions of agents in the chat of a real window."""

import pytest
from playwright.async_api import expect

from tests.editors.vscode.window import Window

pytestmark = [
    pytest.mark.editors,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
    pytest.mark.requirement("Q5"),
]


async def test_a_question_is_answered_by_keyboard_in_its_card(window: Window) -> None:
    await window.ask("ask which colour")
    card = window.chat.locator(".question")
    await expect(card).to_contain_text("Which colour?")
    await card.get_by_role("radio", name="green").focus()
    await window.page.keyboard.press("Space")
    await window.page.keyboard.press("Control+Enter")
    await expect(window.chat.locator(".message.assistant").last).to_contain_text("It is chosen.")
    await expect(card).to_have_count(0)
    await expect(window.chat.locator(".call").first).to_contain_text("Asked Which colour?")
