"""Windows of VS Code that are reloaded, opened twice, and opened on several folders, none, or one without trust."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, TimeoutError, expect

from tests.editors.vscode.model import BETTER, GREETING
from tests.editors.vscode.vscode import make_project, scripted_settings, vscode, with_extension
from tests.editors.vscode.window import Window
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

        await window.page.goto("about:blank")  # to close it at once may keep its farewell from VS Code's server
        await window.page.close()
        proceed = other.chat.get_by_role("button", name="Continue")
        for _ in range(60):  # until the server of that window has ended
            with suppress(TimeoutError):
                await again.click(timeout=5_000)
            with suppress(AssertionError):
                await expect(proceed).to_be_visible(timeout=1_000)
                break
        await expect(prompt).to_be_enabled()
        await proceed.click()
        await expect(other.chat.locator(".message.assistant").last).to_contain_text("Continuing.")

        listed = other.page.locator(".quick-input-widget .monaco-list-row", has_text="look and improve")
        unarchive = listed.get_by_role("button", name="Unarchive Session")
        await other.command("Deputy: Archive Session")
        await other.command("Deputy: Open Session…")
        await expect(listed.first).to_be_visible()
        for row in await listed.all():  # other sessions of the project may have the same title
            await row.hover()
            if await unarchive.count():
                break
        await unarchive.click()
        await expect(unarchive).to_have_count(0)
        await other.page.keyboard.press("Escape")
        await other.page.locator(".pane-header", has_text="Sessions").click()
        await expect(other.row("look and improve").first).to_be_visible()


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
    settings = {**scripted_settings(model), **UNTRUSTED}
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
