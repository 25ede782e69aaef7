"""What MCP servers ask the user: their schemas as forms, hostile ones rejected."""

from typing import Any

import pytest
from mcp_types import ElicitRequestFormParams, ElicitRequestURLParams

from deputy_agents.domain.event import ResolvedBy
from deputy_agents.domain.user_input import FieldOption, FieldType, InputAction, InputField, InputForm
from deputy_agents.mcp.elicitation import Unsupported, form_of, result_of
from deputy_agents.permission.inbox import InputOutcome

pytestmark = pytest.mark.requirement("Q5")

AB = (FieldOption("a", "a"), FieldOption("b", "b"))


def form(properties: object, required: object = None, message: str = "Where to?") -> InputForm:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": required or []}
    return form_of("shop", ElicitRequestFormParams(message=message, requested_schema=schema))


def one_field(**shape: object) -> InputField:
    return form({"f": shape}).fields[0]


@pytest.mark.parametrize(
    ("shape", "field"),
    [
        (
            {"type": "string", "title": "F", "description": "About", "minLength": 1, "maxLength": 9, "format": "email"},
            InputField("f", FieldType.STRING, "F", "About", False, shortest=1, longest=9, format="email"),
        ),
        ({"type": "string", "format": "colour"}, InputField("f", FieldType.STRING, required=False)),
        (
            {"type": "integer", "minimum": 1, "maximum": 3, "default": 2},
            InputField("f", FieldType.NUMBER, required=False, integer=True, minimum=1, maximum=3, default=2),
        ),
        ({"type": "number", "default": "no"}, InputField("f", FieldType.NUMBER, required=False)),
        ({"type": "boolean", "default": True}, InputField("f", FieldType.BOOLEAN, required=False, default=True)),
        (
            {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"], "default": "b"},
            InputField(
                "f",
                FieldType.CHOICE,
                required=False,
                options=(FieldOption("a", "A"), FieldOption("b", "B")),
                default="b",
            ),
        ),
        (
            {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
            InputField("f", FieldType.CHOICE, required=False, options=(FieldOption("a", "A"),)),
        ),
        (
            {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "maxItems": 2},
            InputField("f", FieldType.CHOICES, required=False, options=AB, shortest=1, longest=2),
        ),
        (
            {"type": "array", "items": {"anyOf": [{"const": "a", "title": "a"}, {"const": "b", "title": "b"}]}},
            InputField("f", FieldType.CHOICES, required=False, options=AB),
        ),
    ],
)
def test_schemas_of_the_protocol_are_forms(shape: dict[str, object], field: InputField) -> None:
    assert one_field(**shape) == field


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"type": "object"},
        {"type": "array"},
        {"type": "array", "items": {"type": "string"}},
        {"type": "string", "enum": []},
        {"type": "string", "enum": [1]},
        {"type": "string", "enum": ["a", "a"]},
        {"type": "string", "enum": [str(n) for n in range(201)]},
        {"type": "string", "oneOf": ["a"]},
        {"type": "string", "pattern": "(a+)+$"},
        {"type": "number", "minimum": "1"},
    ],
    ids=str,
)
def test_what_cannot_be_shown_and_validated_is_rejected(shape: dict[str, object]) -> None:
    with pytest.raises(Unsupported, match=r"^f: "):
        one_field(**shape)


def test_forms_are_bounded() -> None:
    with pytest.raises(Unsupported, match="at most 30 properties"):
        form({str(n): {"type": "boolean"} for n in range(31)})
    with pytest.raises(Unsupported, match="message"):
        form({}, message="x" * 10_001)
    with pytest.raises(Unsupported, match="message"):
        form({}, message=" ")


@pytest.mark.parametrize(
    "url",
    [
        *("javascript:alert(1)", "file:///etc/passwd", "vscode://x/y", "http://example.com", "https://u:p@example.com"),
        *("https://", "https://exa mple.com", "https://example.com/\u202egnp", "ssh://host"),
    ],
)
def test_users_are_sent_to_web_pages_only(url: str) -> None:
    with pytest.raises(Unsupported, match="url"):
        form_of("shop", ElicitRequestURLParams(message="Pay.", url=url, elicitation_id="e"))


@pytest.mark.parametrize("url", ["https://example.com/pay?x=1", "http://127.0.0.1:80/x", "http://localhost/"])
def test_a_url_is_shown_as_it_is(url: str) -> None:
    found = form_of("shop", ElicitRequestURLParams(message="Pay.", url=url, elicitation_id="e"))
    assert (found.url, found.fields, found.source, found.server) == (url, (), "mcp", "shop")


def test_only_an_accepted_form_is_accepted() -> None:
    fields = form({"f": {"type": "string"}})
    page = form_of("shop", ElicitRequestURLParams(message="Pay.", url="https://example.com", elicitation_id="e"))
    accepted = InputOutcome(ResolvedBy.USER, InputAction.ACCEPTED, {"f": ("a",)})
    assert result_of(fields, accepted).model_dump(exclude_none=True)["content"] == {"f": ["a"]}
    assert result_of(page, accepted).content is None
    for by in (ResolvedBy.DISMISSED, ResolvedBy.UNREACHABLE, ResolvedBy.CANCELLED):
        assert result_of(fields, InputOutcome(by)).action == "cancel"
    assert result_of(fields, InputOutcome(ResolvedBy.USER, InputAction.DECLINED)).action == "decline"
