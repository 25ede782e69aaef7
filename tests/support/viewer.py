"""What a plain editor does with documents that the server shows: it opens them, and reads them again when told."""

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
    """Shows documents for a client that declares ``VIEWING``."""

    def __init__(self, client: RpcClient) -> None:
        self.client = client
        self.focused: list[str] = []
        """The documents that came with the focus."""
        self._versions: dict[str, int] = {}
        self._news = asyncio.Event()
        client.handlers["window/showDocument"] = self._show
        client.handlers["workspace/codeLens/refresh"] = lambda _: self._news.set()

    @property
    def shown(self) -> list[str]:
        return list(self._versions)

    async def until(self, uri: str, *wanted: str, gone: str = "") -> str:
        """The text of a document, as soon as all that is ``wanted`` is in it, and nothing that should be ``gone``."""
        async with asyncio.timeout(PATIENCE):
            while True:
                self._news.clear()
                text = self.read_again(uri)
                if all(part in text for part in wanted) and not (gone and gone in text):
                    return text
                await self._news.wait()

    async def opened(self, number: int = 0) -> str:
        """The document that was shown as the first, second, … one."""
        async with asyncio.timeout(PATIENCE):
            while len(self._versions) <= number:
                self._news.clear()
                await self._news.wait()
        return self.shown[number]

    def read_again(self, uri: str) -> str:
        text = path_of(uri).read_text("utf-8")
        self._versions[uri] += 1
        identifier = {"uri": uri, "version": self._versions[uri]}
        self.client.notify("textDocument/didChange", {"textDocument": identifier, "contentChanges": [{"text": text}]})
        return text

    async def lenses(self, uri: str) -> list[tuple[int, str, Json]]:
        """The line, the title and the command of each."""
        lenses = await self.client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
        return [(lens["range"]["start"]["line"], lens["command"]["title"], lens["command"]) for lens in lenses]

    async def press(self, uri: str, title: str, number: int = 0) -> Json:
        """Runs the command of a lens; its answer."""
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
        self._news.set()
        return {"success": True}


def path_of(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))
