"""Frontmatter is read as YAML, or line by line if it is not valid YAML."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.definition.frontmatter import MAX_HEAD, Frontmatter, FrontmatterError, read

KNOWN = {"name", "description", "tools", "model", "color", "inputschema"}


def front(head: str, body: str = "Prompt.") -> Frontmatter:
    return read(f"---\n{head}\n---\n{body}\n", KNOWN.__contains__)


def values(head: str) -> dict[str, object]:
    return {name: field.value for name, field in front(head).fields.items()}


def test_yaml_values_keep_their_types() -> None:
    head = "name: x\ntools: [a, 'b']\nn: 3\nt: 0.5\nyes: true\nnone: ~\nquoted: '3'\nmap:\n  a: {b: -1e2}"
    assert values(head) == {
        "name": "x",
        "tools": ["a", "b"],
        "n": 3,
        "t": 0.5,
        "yes": True,
        "none": None,
        "quoted": "3",
        "map": {"a": {"b": -100.0}},
    }


def test_fields_have_line_numbers() -> None:
    found = front("name: x\ndescription: |\n  one\n  two\ntools: a")
    assert {name: field.line for name, field in found.fields.items()} == {"name": 2, "description": 3, "tools": 6}
    assert found.body_line == 8


@pytest.mark.parametrize("spelling", ["maxTurns", "max-turns", "max_turns", "MaxTurns"])
def test_spellings_of_a_name_are_equal(spelling: str) -> None:
    assert values(f"{spelling}: 3") == {"maxturns": 3}


@pytest.mark.parametrize(
    ("line", "prose"),
    [
        ("description: Use this when: the tests fail", "Use this when: the tests fail"),
        ("description: Fixes issue #12 and its kin", "Fixes issue #12 and its kin"),
        ("description: [draft] reviews", "[draft] reviews"),
        ("description: 'It's quoted, nearly'", "It's quoted, nearly"),
        ('description: "one" and "two"', '"one" and "two"'),
        ("description: @handle reviews", "@handle reviews"),
        ("description: `code` first", "`code` first"),
        ("description: *bold* words", "*bold* words"),
        ("description:\tafter a tab: text", "after a tab: text"),
        ("description: 123", "123"),
        ("description: |\nnot: indented\nbut meant", "not: indented\nbut meant"),
    ],
)
def test_description_that_is_not_yaml_is_kept_as_prose(line: str, prose: str) -> None:
    found = front(f"name: x\n{line}\nmodel: haiku").fields
    assert found["description"].prose == prose
    assert (found["name"].value, found["model"].value) == ("x", "haiku")


def test_dialogue_in_a_description_can_quote_earlier_fields() -> None:
    found = front(
        "name: reviewer\n"
        "description: Use this agent after a change. Examples:\n"
        "<example>\n"
        "Context: the user wrote a function.\n"
        'user: "check this: please"\n'
        "name: is quoted here\n"
        "</example>\n"
        "tools: Read, Grep\n"
        "color: red"
    ).fields
    assert found["name"].value == "reviewer"
    assert "name: is quoted here\n</example>" in found["description"].prose
    assert found["tools"].value == "Read, Grep"


def test_valid_yaml_piece_is_read_as_yaml_beside_an_invalid_one() -> None:
    found = values("description: a: b\ntools:\n  - Read\n  - Grep\ninputSchema:\n\ttype: object\n")
    assert found["tools"] == ["Read", "Grep"]
    assert found["inputschema"] == {"type": "object"}


@pytest.mark.parametrize("wrap", ["\ufeff{}", "\n\n{}"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_byte_order_mark_blank_lines_and_line_ends_do_not_matter(wrap: str, line_end: str) -> None:
    text = wrap.format("---\nname: x\n---  \nBody\nof it.").replace("\n", line_end)
    found = read(text, KNOWN.__contains__)
    assert (found.fields["name"].value, found.body) == ("x", "Body\nof it.")


def test_horizontal_rule_in_the_body_is_kept() -> None:
    assert front("name: x", "one\n---\ntwo").body == "one\n---\ntwo"


def test_first_of_repeated_fields_is_used_and_the_others_reported() -> None:
    found = front("name: x\nmodel: a\nmodel: b")
    assert (found.fields["model"].value, found.repeated) == ("a", {"model": 4})


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "must start with a line '---'"),
        ("# Title\n", 1, "must start with a line '---'"),
        ("---\nname: x\n", 1, "has no end"),
        (f"---\nname: {'x' * MAX_HEAD}\n---\n", 2, "longer than"),
    ],
)
def test_missing_frontmatter_is_reported(text: str, line: int, reason: str) -> None:
    with pytest.raises(FrontmatterError, match=reason) as caught:
        read(text, KNOWN.__contains__)
    assert caught.value.line == line


@pytest.mark.parametrize(
    "bomb",
    [
        "a: &a [1]\nb: [*a, *a]",
        "tools: " + "[" * 500 + "]" * 500,
        "tools: [" + "1, " * 3000 + "1]",
        "n: 1e999\nm: " + "9" * 5000,
    ],
)
def test_values_are_bounded_by_the_length_of_the_text(bomb: str) -> None:
    for field in front(bomb).fields.values():
        assert isinstance(field.value, str | list | None)


@given(st.text(alphabet=st.sampled_from("ab:-#'\"[]{}|>*&!%@`,? \t\n~<.0\\\x00é"), max_size=200))
def test_no_frontmatter_crashes_the_reader(head: str) -> None:
    with suppress(FrontmatterError):
        front(head)


def test_tags_are_ignored_and_aliases_are_text() -> None:
    assert values("name: !!str 3\nmodel: !custom x") == {"name": "3", "model": "x"}
    assert values("name: &n x\nname: &n x\nmodel: *n") == {"name": "x", "model": "*n"}
