"""Questions of agents in the session window: answered by the user alone."""

import pytest

from tests.editors.nvim.neovim import Neovim

pytestmark = pytest.mark.requirement("Q5")


def test_a_question_is_answered_in_its_box(deputy: Neovim) -> None:
    deputy.ask("question")
    shown = deputy.until_shown("ask_user(Which colour?)")
    assert "· green" in shown
    assert "a answer · d decline" in deputy.everything()
    deputy.lua("vim.ui.select = function(options, _, done) done(options[2]) end")
    deputy.at("┌ ")
    deputy.keys("a")
    deputy.until_shown("All is done.")
    assert deputy.lua("return #require('deputy.session').get().state.inputs") == 0
