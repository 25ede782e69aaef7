"""The behaviour of a plain editor for documents shown by the server: it opens them, and reloads them after changes."""

import asyncio
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.support.model_replies import Json
from tests.support.rpc import PATIENCE, RpcClient

VIEWING: Json = {
    "window": {"workDoneProgress": True, "showDocument": {"support": True}},
    "workspace": {
        "applyEdit": True,
        "workspaceEdit": {"documentChanges": True},
        "codeLens": {"refreshSupport": True},
    },
    "textDocument": {"codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": [""]}}}},
}


class Viewer:
    """Shows documents for a client with the capabilities ``VIEWING``."""

    def __init__(self, client: RpcClient) -> None:
        self.client = client
        self.focused: list[str] = []
        """The documents that were shown with focus."""
        self._versions: dict[str, int] = {}
        self._changed = asyncio.Event()
        client.handlers["window/showDocument"] = self._show
        client.handlers["workspace/codeLens/refresh"] = lambda _: self._changed.set()

    @property
    def shown(self) -> list[str]:
        return list(self._versions)

    async def until(self, uri: str, *wanted: str, gone: str = "") -> str:
        """Waits until a document contains all ``wanted`` parts and not ``gone``; returns its text."""
        async with asyncio.timeout(PATIENCE):
            while True:
                self._changed.clear()
                text = self.reload(uri)
                if all(part in text for part in wanted) and not (gone and gone in text):
                    return text
                await self._changed.wait()

    async def opened(self, number: int = 0) -> str:
        """Waits for the document that was shown as number ``number``, from 0."""
        async with asyncio.timeout(PATIENCE):
            while len(self._versions) <= number:
                self._changed.clear()
                await self._changed.wait()
        return self.shown[number]

    def reload(self, uri: str) -> str:
        text = path_of(uri).read_text("utf-8")
        self._versions[uri] += 1
        identifier = {"uri": uri, "version": self._versions[uri]}
        self.client.notify("textDocument/didChange", {"textDocument": identifier, "contentChanges": [{"text": text}]})
        return text

    async def lenses(self, uri: str) -> list[tuple[int, str, Json]]:
        """Line, title and command of each code lens."""
        lenses = await self.client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
        return [(lens["range"]["start"]["line"], lens["command"]["title"], lens["command"]) for lens in lenses]

    async def until_lenses(self, uri: str, wanted: list[tuple[int, str]]) -> None:
        """Waits until the code lenses of a document have these lines and titles."""
        async with asyncio.timeout(PATIENCE):
            while True:
                self._changed.clear()
                self.reload(uri)
                if [(line, title) for line, title, _ in await self.lenses(uri)] == wanted:
                    return
                await self._changed.wait()

    async def press(self, uri: str, title: str, number: int = 0) -> Json:
        """Runs the command of a code lens; returns its result."""
        command = [command for _, name, command in await self.lenses(uri) if name == title][number]
        return await self.client.command(command["command"], *command["arguments"])

    def _show(self, params: Json) -> Json:
        uri = params["uri"]
        if uri not in self._versions:
            self._versions[uri] = 1
            item = {"uri": uri, "languageId": "markdown", "version": 1, "text": path_of(uri).read_text("utf-8")}
            self.client.notify("textDocument/didOpen", {"textDocument": item})
        if params["takeFocus"]:
            self.focused.append(uri)
        self._changed.set()
        return {"success": True}


def path_of(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))
