"""JSON with comments: read, and changed without a loss."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.guidance.jsonc import parse_jsonc, with_value, without_comments
from deputy_agents.validation_errors import InvalidJson

TEXT = """\
// Settings
{
  "a": 1, // one
  "b": {
    "c": [1, 2,], /* "x": 1, */
    "d": "// no, /* comment */ ,}" /* d */ ,
  }, // b
}
"""


def test_comments_and_trailing_commas_are_not_part_of_the_value() -> None:
    assert parse_jsonc(TEXT) == {"a": 1, "b": {"c": [1, 2], "d": "// no, /* comment */ ,}"}}
    assert len(without_comments(TEXT)) == len(TEXT)


@pytest.mark.parametrize(
    ("keys", "value", "before", "after"),
    [
        (["a"], 2, '"a": 1,', '"a": 2,'),
        (["b", "c"], [], "[1, 2,], /*", "[], /*"),
        (["b", "e"], True, "/* d */ ,\n", '/* d */ ,\n    "e": true,\n'),
        (["z"], "y", "}, // b\n", '}, // b\n  "z": "y",\n'),
    ],
)
def test_only_the_value_changes(keys: list[str], value: object, before: str, after: str) -> None:
    assert with_value(TEXT, keys, value) == TEXT.replace(before, after, 1)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", '{\n  "k": 1\n}\n'),
        ("{}", '{\n  "k": 1\n}'),
        ("{\n  // only\n}", '{\n  // only\n  "k": 1\n}'),
        ('{"a": 1}', '{"a": 1, "k": 1}'),
        ('{\n\t"a": 1 // x\n}', '{\n\t"a": 1, // x\n\t"k": 1\n}'),
        ('{\n  "a": 1, "b": 2 }', '{\n  "a": 1, "b": 2,\n  "k": 1 }'),
    ],
)
def test_a_new_value_gets_a_line_of_its_own_where_others_have_one(text: str, after: str) -> None:
    assert with_value(text, ["k"], 1) == after


@pytest.mark.parametrize(
    "text", ["[1]", '{"a": [1]}', "{", '{"a" 1}', "{'a': 1}", '{"a": 1} x', '"\\"\\"' * 999, "/* "]
)
def test_what_is_no_object_is_rejected(text: str) -> None:
    with pytest.raises(InvalidJson):
        with_value(text, ["a", "b"], 1)


keys = st.sampled_from(["a", "b", "c d", 'q"', "//"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "x", "/*", ",}", '"', "\\"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
gaps = st.sampled_from(["", " ", "\n", "// c\n", "/* , } */", "\n\n  // x, \n"])


@st.composite
def written(draw: st.DrawFn, value: object) -> str:
    """``value`` as a user might write it."""

    def gap() -> str:
        return draw(gaps)

    if not isinstance(value, dict | list) or not value:
        return json.dumps(value)
    inner = (
        [f"{json.dumps(key)}{gap()}:{gap()}{draw(written(item))}" for key, item in value.items()]
        if isinstance(value, dict)
        else [draw(written(item)) for item in value]
    )
    start, end = "{}" if isinstance(value, dict) else "[]"
    trailing = draw(st.sampled_from(["", ","]))
    return start + gap() + f"{gap()},{gap()}".join(inner) + gap() + trailing + gap() + end


@given(st.data())
def test_whatever_the_text_one_value_changes_and_every_comment_stays(data: st.DataObject) -> None:
    before = data.draw(st.dictionaries(keys, values, max_size=4))
    text = data.draw(gaps) + data.draw(written(before)) + data.draw(gaps)
    path, value = data.draw(st.lists(keys, min_size=1, max_size=3)), data.draw(values)
    assert parse_jsonc(text) == before
    expected = json.loads(json.dumps(before))
    at = expected
    for key in path[:-1]:
        if not isinstance(at.setdefault(key, {}), dict):
            with pytest.raises(InvalidJson):
                with_value(text, path, value)
            return
        at = at[key]
    at[path[-1]] = value
    assert parse_jsonc(with_value(text, path, value)) == expected
