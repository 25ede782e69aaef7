"""Only an explicit choice counts as consent."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deputy_protocol.permission import SelectedOutcome, read_choice
from tests.protocol.json_like import JSON


def test_explicit_choice_is_read_with_feedback_and_input() -> None:
    outcome = {"outcome": "selected", "optionId": "allow", "feedback": "fine", "input": {"path": "a"}, "later": 1}
    choice = SelectedOutcome(option_id="allow", feedback="fine", input={"path": "a"})
    assert read_choice({"outcome": outcome}) == choice


@pytest.mark.parametrize(
    "result",
    [
        None,
        True,
        "allow",
        [],
        {},
        {"outcome": None},
        {"outcome": "selected"},
        {"outcome": {"outcome": "cancelled"}},
        {"outcome": {"outcome": "cancelled", "optionId": "allow"}},
        {"outcome": {"outcome": "selected"}},
        {"outcome": {"outcome": "selected", "optionId": None}},
        {"outcome": {"outcome": "selected", "optionId": 1}},
        {"outcome": {"outcome": "selected", "optionId": ["allow"]}},
        {"outcome": {"outcome": "selected", "option_id": "allow"}},
        {"outcome": {"outcome": "Selected", "optionId": "allow"}},
        {"outcome": {"outcome": "allowed", "optionId": "allow"}},
        {"outcome": {"optionId": "allow"}},
        {"outcome": {"outcome": "selected", "optionId": "allow", "input": "rm"}},
        {"outcome": [{"outcome": "selected", "optionId": "allow"}]},
    ],
)
def test_any_other_result_is_not_a_choice(result: object) -> None:
    assert read_choice(result) is None


WORDS = st.sampled_from(["selected", "cancelled", "allow", "allow_once", "yes", "approved"])
VALUES = WORDS | JSON


@given(
    result=VALUES
    | st.fixed_dictionaries(
        {"outcome": VALUES | st.fixed_dictionaries({"outcome": VALUES}, optional={"optionId": VALUES, "input": VALUES})}
    )
)
@settings(max_examples=500, deadline=None)
def test_choice_always_has_the_option_id_of_the_result(result: Any) -> None:
    choice = read_choice(result)
    if choice is not None:
        assert result["outcome"]["outcome"] == "selected"
        assert result["outcome"]["optionId"] == choice.option_id
        assert isinstance(choice.option_id, str)
