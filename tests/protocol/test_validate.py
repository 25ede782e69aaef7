"""Invalid params raise an error that names the field."""

from typing import Any

import pytest
from hypothesis import given, settings

from deputy_protocol.command_table import PROMPT_COMMAND
from deputy_protocol.contract import Request
from deputy_protocol.errors import ErrorCode, InvalidParams
from deputy_protocol.message import TextBlock
from deputy_protocol.methods import (
    PERMISSION_ANSWER,
    SESSION_CANCEL,
    SESSION_EXPORT,
    SESSION_LIST,
    SESSION_NEW,
    SESSION_PROMPT,
)
from deputy_protocol.settings import Settings
from deputy_protocol.validate import parse
from tests.protocol.json_like import JSON

TEXT_BLOCK = {"type": "text", "text": "hello"}


def prompt(*blocks: object, **more: object) -> dict[str, object]:
    return {"sessionId": "s", "prompt": list(blocks), **more}


def first_problem(method: Request[Any, Any], raw: object) -> str:
    try:
        method.parse(raw)
    except InvalidParams as error:
        return error.field
    return ""


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (None, "sessionId"),
        ({"prompt": [TEXT_BLOCK]}, "sessionId"),
        ({"sessionId": 5, "prompt": [TEXT_BLOCK]}, "sessionId"),
        ({"session_id": "s", "prompt": [TEXT_BLOCK]}, "sessionId"),
        ({"sessionId": "s"}, "prompt"),
        (prompt(), "prompt"),
        (prompt({"type": "text"}), "prompt[0].text"),
        (prompt(TEXT_BLOCK, {"type": "text", "text": 5}), "prompt[1].text"),
        (prompt(TEXT_BLOCK, {"type": "sound"}), "prompt[1]"),
        (prompt(TEXT_BLOCK, {}), "prompt[1]"),
        (prompt("hello"), "prompt[0]"),
        (prompt({"type": "image", "data": "x"}), "prompt[0].mimeType"),
        (prompt({"type": "resource_link", "uri": "file:///a", "range": {"start": {}}}), "prompt[0].range.start.line"),
        (prompt(TEXT_BLOCK, queue="yes"), "queue"),
        ([], ""),
        ("text", ""),
    ],
)
def test_invalid_prompt_raises_error_that_names_the_field(raw: object, field: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        SESSION_PROMPT.parse(raw)
    assert caught.value.field == field
    assert str(caught.value).startswith(field)
    assert caught.value.code is ErrorCode.INVALID_PARAMS
    assert caught.value.reason


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([], "must be an object"),
        ({"sessionId": "s"}, "prompt: is required"),
        (prompt(), "prompt: must not be empty"),
        (prompt("hello"), "prompt[0]: must be an object"),
        (prompt({}), "prompt[0]: 'type' is required"),
        (prompt({"type": "sound"}), "prompt[0]: 'type' must be one of 'text', 'resource_link', 'image'"),
        (
            prompt({"type": "image", "mimeType": "image/tiff", "data": "!"}),
            (
                "prompt[0].mimeType: must be 'image/png', 'image/jpeg', 'image/gif' or 'image/webp'; "
                "prompt[0].data: has an invalid format"
            ),
        ),
        (prompt(TEXT_BLOCK, workDoneToken=[]), "workDoneToken: must be a whole number or a string"),
        (prompt(TEXT_BLOCK, workDoneToken={}), "workDoneToken: must be a whole number or a string"),
    ],
)
def test_error_describes_the_problem_in_terms_of_json(raw: object, message: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        SESSION_PROMPT.parse(raw)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"requestId": "r"}, "outcome"),
        ({"requestId": "r", "outcome": {"outcome": "selected"}}, "outcome.optionId"),
        ({"requestId": "r", "outcome": {"outcome": "sure"}}, "outcome"),
        ({"requestId": "r", "outcome": {"outcome": "selected", "optionId": "o", "input": 5}}, "outcome.input"),
    ],
)
def test_invalid_answer_raises_error_that_names_the_field(raw: object, field: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        PERMISSION_ANSWER.parse(raw)
    assert caught.value.field == field


def test_unknown_modes_and_formats_are_rejected() -> None:
    with pytest.raises(InvalidParams, match="permissionMode"):
        SESSION_NEW.parse({"permissionMode": "yolo"})
    with pytest.raises(InvalidParams, match="format"):
        SESSION_EXPORT.parse({"sessionId": "s", "format": "docx"})


def test_field_of_a_command_starts_with_the_index_of_its_argument() -> None:
    for arguments in (None, [], [{}], [None], [{"text": 5}]):
        with pytest.raises(InvalidParams) as caught:
            PROMPT_COMMAND.parse(arguments)
        assert caught.value.field == "arguments[0].text"
    with pytest.raises(InvalidParams) as caught:
        PROMPT_COMMAND.parse(["hello"])
    assert caught.value.field == "arguments[0]"
    assert PROMPT_COMMAND.parse([{"text": "hello"}, "ignored"]).text == "hello"


def test_message_lists_only_the_first_few_problems() -> None:
    with pytest.raises(InvalidParams) as caught:
        SESSION_LIST.parse({"cwd": 1, "cursor": 2, "limit": "x", "includeChildren": 3, "includeArchived": 4})
    assert str(caught.value).count(";") == 3
    assert str(caught.value).endswith("…")


def test_messages_contain_no_values_and_are_short() -> None:
    with pytest.raises(InvalidParams) as caught:
        parse(Settings, {"token": ["s3cret"]})
    assert "s3cret" not in str(caught.value)
    with pytest.raises(InvalidParams) as caught:
        SESSION_PROMPT.parse(prompt({"type": "x" * 100_000}))
    assert len(str(caught.value)) < 1000


def test_valid_params_are_parsed_into_their_class() -> None:
    params = SESSION_PROMPT.parse(prompt(TEXT_BLOCK, queue=True, workDoneToken=7))
    assert params.session_id == "s"
    assert params.prompt == (TextBlock(text="hello"),)
    assert params.queue is True
    assert params.work_done_token == 7


@given(raw=JSON)
@settings(max_examples=200, deadline=None)
def test_invalid_json_raises_error_that_names_a_field(raw: Any) -> None:
    for method in (SESSION_PROMPT, SESSION_CANCEL, PERMISSION_ANSWER):
        with pytest.raises(InvalidParams) as caught:
            method.parse(raw)
        assert isinstance(caught.value.field, str)


@given(blocks=JSON, outcome=JSON)
@settings(max_examples=200, deadline=None)
def test_path_of_a_nested_problem_starts_with_its_param(blocks: Any, outcome: Any) -> None:
    for method, raw in (
        (SESSION_PROMPT, {"sessionId": "s", "prompt": [{"type": "text", "text": blocks}]}),
        (PERMISSION_ANSWER, {"requestId": "r", "outcome": outcome}),
    ):
        assert not (field := first_problem(method, raw)) or field.startswith(("prompt[0].text", "outcome"))
