"""The page about the state machine is generated from its table."""

import re
from typing import get_args

from deputy_agents.run.diagram import PAGE, mermaid, page
from deputy_agents.run.effect import Effect, Input, ModelReplied, Steered, UserPrompt
from deputy_agents.run.state import Idle, LlmRequesting, Phase
from deputy_agents.run.transition import TABLE, Row, Table


def unused(*_: object) -> Phase:
    return Idle()


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(TABLE)


def test_an_arrow_lists_all_its_inputs_and_inputs_that_never_leave_a_phase_are_omitted() -> None:
    table: Table = {
        Idle: {UserPrompt: Row(unused, LlmRequesting)},
        LlmRequesting: {Steered: Row(unused, LlmRequesting), ModelReplied: Row(unused, LlmRequesting, Idle)},
    }
    assert mermaid(table).splitlines() == [
        "stateDiagram-v2",
        "    [*] --> Idle",
        "    Idle --> LlmRequesting: UserPrompt",
        "    LlmRequesting --> LlmRequesting: ModelReplied",
        "    LlmRequesting --> Idle: ModelReplied",
        "    Completed --> [*]",
        "    Failed --> [*]",
        "    Cancelled --> [*]",
    ]


def test_the_page_describes_every_phase_input_and_effect() -> None:
    parts = dict(re.findall(r"^- \*\*(\w+)\*\*: (.*)$", page(TABLE), flags=re.MULTILINE))
    every = {part.__name__ for union in (Phase, Input, Effect) for part in get_args(union)}
    assert parts.keys() == every
    signatures_or_marks = {name for name, prose in parts.items() if prose.startswith(f"{name}(") or ":class:" in prose}
    assert signatures_or_marks == set()
