"""What the user enters is validated by the fields before anything gets it."""

import pytest

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.user_input import FieldOption, FieldType, InputField
from deputy_agents.permission.input_values import validated

pytestmark = pytest.mark.requirement("Q5")

AB = (FieldOption("a", "A"), FieldOption("b", "B"))
TEXT = InputField("f", FieldType.STRING)
NUMBER = InputField("f", FieldType.NUMBER)
CHOICES = InputField("f", FieldType.CHOICES, options=AB)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        (TEXT, "x", "x"),
        (InputField("f", FieldType.STRING, shortest=2, longest=2), "ab", "ab"),
        (InputField("f", FieldType.STRING, format="email"), "a@b", "a@b"),
        (InputField("f", FieldType.STRING, format="uri"), "https://x", "https://x"),
        (InputField("f", FieldType.STRING, format="date"), "2026-02-28", "2026-02-28"),
        (InputField("f", FieldType.STRING, format="date-time"), "2026-02-28T10:00:00Z", "2026-02-28T10:00:00Z"),
        (NUMBER, 1.5, 1.5),
        (InputField("f", FieldType.NUMBER, integer=True, minimum=1, maximum=3), 3.0, 3),
        (InputField("f", FieldType.BOOLEAN), False, False),
        (InputField("f", FieldType.CHOICE, options=AB), "b", "b"),
        (CHOICES, ["b", "a"], ("b", "a")),
        (CHOICES, [], ()),
    ],
)
def test_values_that_fit_their_field_are_returned(field: InputField, value: object, expected: object) -> None:
    assert validated((field,), {"f": value}) == {"f": expected}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (TEXT, None),
        (TEXT, " "),
        (TEXT, 1),
        (TEXT, "x" * 100_001),
        (InputField("f", FieldType.STRING, shortest=2), "a"),
        (InputField("f", FieldType.STRING, longest=2), "abc"),
        (InputField("f", FieldType.STRING, format="email"), "a b@c"),
        (InputField("f", FieldType.STRING, format="uri"), "plain"),
        (InputField("f", FieldType.STRING, format="date"), "2026-02-30"),
        (InputField("f", FieldType.STRING, format="date-time"), "2026-02-28T10:00:00"),
        (NUMBER, "1"),
        (NUMBER, True),
        (NUMBER, float("nan")),
        (NUMBER, float("inf")),
        (InputField("f", FieldType.NUMBER, integer=True), 1.5),
        (InputField("f", FieldType.NUMBER, minimum=1), 0),
        (InputField("f", FieldType.NUMBER, maximum=1), 2),
        (InputField("f", FieldType.BOOLEAN), "yes"),
        (InputField("f", FieldType.CHOICE, options=AB), "A"),
        (CHOICES, "a"),
        (CHOICES, ["a", "a"]),
        (CHOICES, ["c"]),
        (InputField("f", FieldType.CHOICES, options=AB, shortest=1), []),
    ],
)
def test_values_that_do_not_fit_are_rejected_and_name_the_field(field: InputField, value: object) -> None:
    with pytest.raises(InvalidRequest, match=r"values\.f: "):
        validated((field,), {"f": value})


def test_optional_fields_may_be_absent_and_unknown_ones_are_rejected() -> None:
    optional = InputField("f", FieldType.STRING, required=False)
    assert validated((optional,), {}) == validated((optional,), {"f": ""}) == {}
    with pytest.raises(InvalidRequest, match="no field 'g'"):
        validated((optional,), {"g": "x"})
