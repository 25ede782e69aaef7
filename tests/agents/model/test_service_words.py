"""What a model service says is shown whatever its shape, and the advice fits the cause."""

import json
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.domain.message import Message, Text
from deputy_agents.model.anthropic import AnthropicModel
from deputy_agents.model.endpoint import Endpoint
from deputy_agents.model.error_mapping import service_error, wait_end
from deputy_agents.model.error_words import ErrorWords, error_words
from deputy_agents.ports.model import ModelRequest
from tests.support.connections import UNTRUSTED, faulty
from tests.support.messages_api import messages_api
from tests.support.model_replies import Play, answering, event, failing

KEY = "sk-secret-key"
WORDS = "the words of the service"

PAGE = f"<!DOCTYPE html><html><head><style>b {{}}</style><title>{WORDS}</title></head><body>Nothing</body></html>"
SHAPES: dict[str, Any] = {
    "Messages API": {"type": "error", "error": {"type": "odd_error", "message": WORDS}},
    "a text": {"error": WORDS},
    "an object": {"error": {"message": WORDS, "code": None}},
    "message": {"message": WORDS},
    "capital": {"Message": WORDS},
    "detail": {"detail": WORDS},
    "list of details": {"detail": [{"loc": ["body", "model"], "msg": WORDS, "type": "value_error"}]},
    "problem": {"type": "about:blank", "title": "Bad", "detail": WORDS},
    "framework": {"statusCode": 400, "error": "Bad Request", "message": WORDS},
    "OAuth": {"error": "odd_request", "error_description": WORDS},
    "list": [{"error": {"code": 400, "message": WORDS, "status": "ODD"}}],
    "errors": {"errors": [{"message": WORDS}]},
    "JSON in a text": {"error": {"message": json.dumps({"error": {"message": WORDS}})}},
    "raw": {"error": {"message": "Provider returned error", "metadata": {"raw": json.dumps({"error": WORDS})}}},
    "plain text": WORDS,
    "page": PAGE,
}


async def failed(play: Play, **how: Any) -> ModelError:
    async with messages_api(lambda body, n: play) as api:
        model = AnthropicModel(Endpoint(api.url, KEY, **how))
        try:
            with pytest.raises(ModelError) as caught:
                async for _ in model.stream(_request()):
                    pass
        finally:
            await model.aclose()
    return caught.value


def _request() -> ModelRequest:
    return ModelRequest("m", "", (Message("user", (Text("hello"),)),))


def _words(error: ModelError) -> str:
    """The message without the address and the end of the sentence."""
    message = str(error)
    assert message.endswith(".")
    return re.sub(r"( \(http://127\.0\.0\.1:\d+\))?\.$", "", message)


@pytest.mark.asyncio
@pytest.mark.parametrize("status", [400, 404, 403, 418, 422, 500])
@pytest.mark.parametrize("shape", SHAPES)
async def test_the_words_are_shown_whatever_their_shape(shape: str, status: int) -> None:
    error = await failed(answering(status, SHAPES[shape], "text/html" if shape == "page" else ""))
    assert _words(error).endswith(WORDS)
    assert "<" not in str(error)
    assert "{" not in str(error)


@pytest.mark.asyncio
@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", "text/plain"])
@pytest.mark.parametrize("shape", [shape for shape, body in SHAPES.items() if not isinstance(body, str)])
async def test_an_error_body_with_status_200_is_an_error_with_its_words(shape: str, content_type: str) -> None:
    error = await failed(answering(200, SHAPES[shape], content_type))
    assert _words(error).endswith(WORDS)
    assert error.retryable is False


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "raw",
    [
        event("error", error={"type": "odd", "message": WORDS}),
        event("error", error=WORDS),
        f'data: {{"error": "{WORDS}"}}\n\n'.encode(),
        f'data: {{"error": {{"message": "{WORDS}", "code": 400}}}}\n\n'.encode(),
        f"event: error\ndata: {WORDS}\n\n".encode(),
        f'event: error\ndata: {{"message": "{WORDS}"}}\n\n'.encode(),
    ],
)
async def test_an_error_in_the_stream_is_shown_whatever_its_shape(raw: bytes) -> None:
    assert _words(await failed(Play(raw=raw))).endswith(WORDS)


@pytest.mark.asyncio
@pytest.mark.parametrize("title", ["Sign in &amp; go on", "  Sign in\n &amp; go on "])
async def test_a_page_with_status_200_shows_its_title_and_leads_to_the_address(title: str) -> None:
    error = await failed(answering(200, f"<html><title>{title}</title></html>", "text/html; charset=utf-8"))
    assert _words(error).endswith("Sign in & go on")
    assert "`baseUrl`" in error.action
    assert "`model`" not in error.action


@pytest.mark.asyncio
async def test_no_words_show_the_key() -> None:
    for body in ({"error": f"{KEY} may not"}, f"{KEY} may not", f"<title>{KEY}</title>"):
        for status in (200, 400):
            assert KEY not in str(await failed(answering(status, body, "text/html" if "<" in str(body) else "")))


MODEL, BILLING, ADDRESS = "`model`", "billing", "`baseUrl`"
CAUSES = [
    (400, {"error": "model 'x' not found"}, MODEL, ModelErrorKind.NOT_FOUND),
    (404, {"error": 'model "x" not found, try pulling it first'}, MODEL, ModelErrorKind.NOT_FOUND),
    (200, {"error": "model 'x' not found"}, MODEL, ModelErrorKind.NOT_FOUND),
    (
        422,
        {"message": "The model `x` does not exist or you do not have access to it."},
        MODEL,
        ModelErrorKind.NOT_FOUND,
    ),
    (400, {"error": {"code": "model_not_found", "message": "no"}}, MODEL, ModelErrorKind.NOT_FOUND),
    (400, {"detail": "Unknown model: x"}, MODEL, ModelErrorKind.NOT_FOUND),
    (400, {"error": {"message": "x is not a valid model ID", "code": 400}}, MODEL, ModelErrorKind.NOT_FOUND),
    (
        404,
        {"type": "error", "error": {"type": "not_found_error", "message": "model: x"}},
        MODEL,
        ModelErrorKind.NOT_FOUND,
    ),
    (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "Your credit balance is too low to access the API. Please go to Plans & Billing.",
            },
        },
        BILLING,
        ModelErrorKind.PERMISSION,
    ),
    (402, {"error": {"message": "Insufficient credits"}}, BILLING, ModelErrorKind.PERMISSION),
    (402, "", BILLING, ModelErrorKind.PERMISSION),
    (429, {"error": {"type": "insufficient_quota", "message": "You exceeded it"}}, BILLING, ModelErrorKind.PERMISSION),
    (
        403,
        {"error": {"message": "This organization has been disabled: no credits"}},
        BILLING,
        ModelErrorKind.PERMISSION,
    ),
    (404, {"detail": "Not Found"}, ADDRESS, ModelErrorKind.NOT_FOUND),
    (404, "404 page not found", ADDRESS, ModelErrorKind.NOT_FOUND),
    (404, "", ADDRESS, ModelErrorKind.NOT_FOUND),
    (405, {"detail": "Method Not Allowed"}, ADDRESS, ModelErrorKind.NOT_FOUND),
    (
        400,
        {"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}},
        "KEY",
        "authentication",
    ),
    (400, {"error": "max_tokens: 99999 > 8192"}, "`maxTokens`", ModelErrorKind.INVALID_REQUEST),
    (200, {"error": {"message": "Rate limit exceeded"}}, "later", ModelErrorKind.RATE_LIMITED),
    (200, {"error": {"code": 503, "message": "no"}}, "later", ModelErrorKind.SERVER),
]


@pytest.mark.asyncio
@pytest.mark.parametrize(("status", "body", "action", "kind"), CAUSES)
async def test_the_advice_fits_the_cause(status: int, body: Any, action: str, kind: str) -> None:
    error = await failed(answering(status, body))
    assert action in error.action
    assert error.kind == kind
    others = {MODEL, BILLING, ADDRESS} - {action}
    assert [other for other in others if other in error.action] == []


@pytest.mark.parametrize(
    "text",
    [
        "messages.3.content.0: the model name 'x' not found in billing",
        "tools.0.custom: unknown model in the schema",
        "messages: text content blocks must be non-empty",
        "This model does not support image input",
        "prompt is too long: the model is not available for more than 200000 tokens",
    ],
)
def test_words_about_the_content_do_not_lead_to_the_model(text: str) -> None:
    error = service_error(ErrorWords(text, ("invalid_request_error",)), status=400)
    assert error.kind in (ModelErrorKind.INVALID_REQUEST, ModelErrorKind.CONTEXT_WINDOW)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("how", "action"), [({"key_command": ("echo", "sk-1234")}, "api.keyCommand"), ({}, "ANTHROPIC_API_KEY")]
)
async def test_a_rejected_key_leads_to_its_source(how: dict[str, Any], action: str) -> None:
    error = await failed(failing(401, "authentication_error", "invalid x-api-key"), **how)
    assert (error.kind, action in error.action) == (ModelErrorKind.AUTHENTICATION, True)


@pytest.mark.asyncio
async def test_certificates_that_are_missing_are_named_when_a_connection_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_DIR", "/no/such/folder")
    with faulty(UNTRUSTED) as url:
        model = AnthropicModel(Endpoint(url, KEY))
        with pytest.raises(ModelError) as caught:
            await anext(model.stream(_request()))
        await model.aclose()
    assert "SSL_CERT_DIR names /no/such/folder, which does not exist" in str(caught.value)
    assert "SSL_CERT_FILE" in caught.value.action


def _at(hour: int, minute: int) -> datetime:
    return datetime(2026, 5, 4, hour, minute)  # noqa: DTZ001 - as shown, in local time


# -- waits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "now", "end"),
    [
        (18_000, _at(12, 30), "until 17:30"),
        (90, _at(12, 30), "until 12:31"),
        (18_000, _at(22, 30), "in 5 h"),
        (1200, _at(23, 50), "in 20 min"),
        (86_400, _at(12, 30), "in 24 h"),
        (3 * 86_400, _at(12, 30), "in 3 days"),
        (1e300, _at(12, 30), "in "),
    ],
)
def test_the_end_of_a_wait_is_a_time_of_today_or_a_duration(seconds: float, now: datetime, end: str) -> None:
    assert wait_end(seconds, now).startswith(end)


@pytest.mark.asyncio
@pytest.mark.parametrize("headers", [{"retry_after": "18000"}, {"retry_after_ms": "18000000"}])
async def test_a_long_rate_limit_says_when_it_ends(headers: dict[str, str]) -> None:
    before = datetime.now()  # noqa: DTZ005 - shown in local time
    error = await failed(failing(429, "rate_limit_error", WORDS, **headers))
    ends = {wait_end(18_000, before), wait_end(18_000, before + timedelta(minutes=1))}
    assert any(end in str(error) and end in error.action for end in ends)
    assert _words(error).endswith(WORDS)


@pytest.mark.asyncio
async def test_a_short_rate_limit_says_no_time() -> None:
    error = await failed(failing(429, "rate_limit_error", WORDS, retry_after="2"))
    assert str(error) == f"The model service limits the request rate: {WORDS}."


# -- any shape -----------------------------------------------------------------------------------------------------

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["error", "message", "detail", "type", "code", "errors", "loc", "raw", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(ANY)
def test_no_shape_breaks_the_mapping(body: Any) -> None:
    for value in (body, json.dumps(body)):
        words = error_words(value)
        for status in (200, 400, 404, 429, 500):
            error = service_error(words, status=status)
            assert error.action
            assert not re.search(r"[\x00-\x1f]", str(error))


@given(st.text(max_size=200), st.sampled_from(["<html>", "<title>", "{", "[", ""]))
def test_no_text_breaks_the_mapping(text: str, start: str) -> None:
    assert service_error(error_words(start + text), status=400).action


@pytest.mark.parametrize("depth", [10, 100_000])
def test_deep_nesting_is_no_problem(depth: int) -> None:
    assert error_words('{"error":' * depth + '"x"' + "}" * depth) is not None
    assert error_words("<html>" + "<b" * depth) is not None
    assert error_words("<html>" + "<style>" * depth) is not None
