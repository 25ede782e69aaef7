"""The edits that the offline model proposes: its grammar, and that no proposal breaks a file."""

import ast
import json
import tomllib
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deputy_agents.model.offline.delegation import NEEDS_LANGUAGE_MODEL
from deputy_agents.model.offline.edit_request import EditKind, EditRequest, edit_request
from deputy_agents.model.offline.literal_edit import NotChanged, edited
from deputy_agents.model.offline.model import OfflineModel
from tests.support.file_tools import LEADING, FileTools, run_agent

MODEL = OfflineModel(think=0, pace=0)
REPLACE, RENAME, SET = EditKind.REPLACE, EditKind.RENAME, EditKind.SET


async def answer(root: Path, task: str) -> str:
    return (await run_agent(MODEL, task, FileTools(root), LEADING))[-1].text


# -- the grammar ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "wanted"),
    [
        ('replace "a b" with "c" in src/x.py', EditRequest(REPLACE, "a b", "c", "src/x.py")),
        ("Could you please replace all occurrences of colour with color?", EditRequest(RENAME, "colour", "color")),
        ("rename the function foo_bar to baz everywhere.", EditRequest(RENAME, "foo_bar", "baz")),
        ("I want you to rename Foo to Bar in src.", EditRequest(RENAME, "Foo", "Bar", "src")),
        ("rename config.load to config.read", EditRequest(RENAME, "config.load", "config.read")),
        ("change `x.y` to `z` in the file src/a.py", EditRequest(REPLACE, "x.y", "z", "src/a.py")),
        ('substitute "b" for "a"', EditRequest(REPLACE, "a", "b")),
        ("replace 'x' with ''", EditRequest(REPLACE, "x", "")),
        ("replace foo() with bar()", EditRequest(REPLACE, "foo()", "bar()")),
        ("change MAX_RETRIES to 5", EditRequest(SET, "MAX_RETRIES", "5")),
        ("Please change the value of MAX_RETRIES from 3 to 5.", EditRequest(SET, "MAX_RETRIES", "5")),
        ("set server.port to 8080 in config/dev.toml", EditRequest(SET, "server.port", "8080", "config/dev.toml")),
        ("set DEBUG to True", EditRequest(SET, "DEBUG", "true")),
        ("set timeout = -1.5e3", EditRequest(SET, "timeout", "-1.5e3")),
        ("set LEVEL to 'debug'", EditRequest(SET, "LEVEL", '"debug"')),
        ("change `limit` to `None`", EditRequest(SET, "limit", "null")),
        ('increase "limit" to 9', EditRequest(SET, "limit", "9")),
    ],
)
def test_edit_requests_are_recognized_in_several_phrasings(task: str, wanted: EditRequest) -> None:
    assert edit_request(task) == wanted


@pytest.mark.parametrize(
    "task",
    [
        "What do I need to change to make it faster?",
        "How is the cache replaced with a new one?",
        "replace the retry loop with exponential backoff",
        "rename utils.py to helpers.py",
        "rename this to that",
        "rename foo to 5",
        "rename a to a",
        "change it to 5",
        "change LEVEL to debug",
        "change foo to bar",
        "use logging instead of print",
        "change MAX_RETRIES to 5 and fix the tests",
        "change MAX_RETRIES to 5\nThen fix the tests.",
        "set the timeout to a higher value",
        "replace",
        'replace "a" with "' + "b" * 400 + '"',
    ],
)
def test_all_else_is_no_edit_request(task: str) -> None:
    assert edit_request(task) is None


printable = st.text(
    st.characters(min_codepoint=32, exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=30
)
names = st.from_regex(r"[A-Za-z_]\w{0,9}(\.[A-Za-z_]\w{0,9})?", fullmatch=True)
values = st.integers().map(str) | st.sampled_from(["true", "false", "null"]) | st.text(max_size=9).map(json.dumps)


@given(old=printable, new=printable, path=st.none() | printable)
def test_the_sentence_of_a_replacement_is_parsed_back(old: str, new: str, path: str | None) -> None:
    wanted = EditRequest(REPLACE, old, new, path)
    if old != new:
        assert edit_request(f"{wanted}.") == wanted


@given(name=names, value=values, path=st.none() | printable)
def test_the_sentence_of_an_assignment_is_parsed_back(name: str, value: str, path: str | None) -> None:
    wanted = EditRequest(SET, name, json.dumps(json.loads(value), ensure_ascii=False), path)
    assert edit_request(f"{wanted}.") == wanted


# -- what an edit does ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "path", "before", "after"),
    [
        (
            "change MAX_RETRIES to 5",
            "a.py",
            "MAX_RETRIES = 3\nMAX = MAX_RETRIES\n",
            "MAX_RETRIES = 5\nMAX = MAX_RETRIES\n",
        ),
        ("set limit to 9", "a.py", "class A:\n    limit: int = (-3)  # no\n", "class A:\n    limit: int = (9)  # no\n"),
        ("set A.limit to 9", "a.py", "limit = 1\nclass A:\n    limit = 3\n", "limit = 1\nclass A:\n    limit = 9\n"),
        ("set limit to 9", "a.py", "def f(self):\n    self.limit = 3\n", "def f(self):\n    self.limit = 9\n"),
        ("set é to 9", "a.py", "ü = é = 3; b = 3\n", "ü = é = 9; b = 3\n"),
        ("set debug to true", "a.py", "debug = False\n", "debug = True\n"),
        ("set debug to true", "a.js", "export const debug = false;\n", "export const debug = true;\n"),
        ("set name to 'x'", "a.json", '{\n  "name": "a",\n  "n": 1\n}', '{\n  "name": "x",\n  "n": 1\n}'),
        ("set server.port to 1", "a.toml", "port = 9\n[server]\nport = 9 # p\n", "port = 9\n[server]\nport = 1 # p\n"),
        ("set b.port to 1", "a.yaml", "a:\n  port: 9\nb:\n  port: 9\n", "a:\n  port: 9\nb:\n  port: 1\n"),
        ("set x to 9", "a.toml", 'a = """\nx = 3\n"""\nx = 3\n', 'a = """\nx = 3\n"""\nx = 9\n'),
        ("set x to 9", "a.yaml", "a: |\n  x: 3\nx: 3\n", "a: |\n  x: 3\nx: 9\n"),
        ("set x to 0xff", "a.c", "int x = 0x1f;\n", "int x = 0xff;\n"),
        ('replace "3.11.7" with "3.12.1"', "Dockerfile", "FROM python:3.11.7\n", "FROM python:3.12.1\n"),
        ('replace "10px" with "12px"', "a.css", "a { top: 10px }", "a { top: 12px }"),
        ("rename foo to qux", "a.py", "foo = 1\nfoobar = foo\n", "qux = 1\nfoobar = qux\n"),
        ("rename max-size to a-b", "a.css", "a { max-size: 1; x-max-size: 2 }", "a { a-b: 1; x-max-size: 2 }"),
        ('replace "Hello" with "Good day"', "a.js", 'say("Hello");', 'say("Good day");'),
        ('replace "Hello" with "Good day"', "a.md", "Hello!", "Good day!"),
    ],
)
def test_an_edit_changes_exactly_what_it_names(task: str, path: str, before: str, after: str) -> None:
    request = edit_request(task)
    assert request is not None
    assert edited(request, path, before) == after


@pytest.mark.parametrize(
    ("task", "path", "before", "reason"),
    [
        ('replace "MAX" with "5"', "a.py", "MAX = 3\n", "no longer be valid"),
        ('replace "MAX" with "5"', "a.js", "MAX = 3;\n", "cannot check"),
        ('replace "Hello" with "Good day"', "a.js", "Hello();\n", "cannot check"),
        ("rename foo to class", "a.py", "foo = 1\n", "no longer be valid"),
        ("rename foo to class", "a.js", "foo = 1\n", "cannot check"),
        ("rename a to b", "a.py", "def f(a, b): pass\n", "already contains `b`"),
        ('replace "a" with "b"', "a.py", "def f(a, b): pass\n", "duplicate argument"),
        ('replace "b" with "a"', "a.json", '{"a": 1, "b": 2}', "a key occurs twice"),
        ("set port to 'x'", "a.js", "port = 3;\n", "cannot check"),
        ("set port to null", "a.toml", "port = 3\n", "no longer be valid"),
        ("set port to 007", "a.json", '{\n"port": 3\n}', "no longer be valid"),
        ("set port to 5", "a.py", "use(port=3)", "no line assigns"),
        ("set port to 3", "a.py", "port = 3", "as requested"),
        ('replace "x" with "\\""', "a.js", 'say("x");', "cannot check"),
        ('replace "b" with "a"', "a.yaml", "x: {a: 1, b: 2}\n", "a key occurs twice"),
        ("rename x to y", "a.yml", "a: {x: 1}\nb:\n- x: 1\n  z: {y: 1}\n", "already contains"),
        ('replace "1" with "*b"', "a.yaml", "a: 1\n", "there is no anchor b"),
        ('replace "&a" with "&b"', "a.yaml", "a: &a 1\nb: *a\n", "there is no anchor a"),
        ("set x to 08", "a.c", "int x = 3;\n", "cannot check"),
        ("set x to 1_000", "a.c", "int x = 3;\n", "cannot check"),
        ("set x to 0b1", "a.lua", "x = 3\n", "cannot check"),
        ('replace "3" with "3px"', "a.js", "x = 3;\n", "cannot check"),
        ('replace "x" with "&"', "a.xml", '<a b="x"/>', "cannot check"),
        ("rename x to repeat", "a.lua", "local x = 3\n", "cannot check"),
        ('replace "x" with "${y}"', "a.sh", 'say "x"', "cannot check"),
    ],
)
def test_an_edit_that_might_break_a_file_is_not_proposed(task: str, path: str, before: str, reason: str) -> None:
    request = edit_request(task)
    assert request is not None
    with pytest.raises(NotChanged, match=reason):
        edited(request, path, before)


PARSERS = {"a.py": ast.parse, "a.json": json.loads, "a.toml": tomllib.loads}
SOURCES = {
    "a.py": st.sampled_from(
        [
            "MAX = 3\n\n\ndef call(url, retries=MAX):\n    '''Call x.'''\n    return [url for _ in range(retries)]\n",
            "class A:\n    x: int = 1\n    y = 'x'\n\n    def f(self):\n        self.x = self.y = None\n",
            "import x.y as z\nprint(f'{z.x!r} {1 if z else 2}', end='')\nif z: x = 1; y = x\n",
            "def broken(:\n    x = 1\n",
        ]
    ),
    "a.json": st.recursive(
        st.none() | st.booleans() | st.integers() | st.sampled_from(["x", "y", 'q"', "3"]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y", "MAX"]), inner),
        max_leaves=8,
    ).map(lambda value: json.dumps(value, indent=1)),
    "a.toml": st.sampled_from(
        ["x = 1\nMAX = 'y'\n[x.y]\nz = [1, 2]\n", "[a]\nx = '''\nx = 1\n'''\n[[b]]\nx = 1979-05-27\n"]
    ),
}
pieces = st.sampled_from(["x", "y", "z", "MAX", "A", "1", "3", '"', "'", "\n", ":", "(", "=", "self", "class", " ", ""])
texts = st.lists(pieces, min_size=1, max_size=3).map("".join) | st.text(max_size=4)


@pytest.mark.requirement("X18")
@pytest.mark.parametrize("path", sorted(PARSERS))
@given(data=st.data())
def test_whatever_the_edit_the_file_parses_if_it_did(path: str, data: st.DataObject) -> None:
    before = data.draw(SOURCES[path])
    kind = data.draw(st.sampled_from(EditKind))
    old = data.draw(names if kind is SET and data.draw(st.booleans()) else texts.filter(bool))
    new = data.draw(values if kind is SET else texts)
    try:
        after = edited(EditRequest(kind, old, new), path, before)
    except NotChanged:
        return
    try:
        PARSERS[path](before)
    except (ValueError, SyntaxError):
        return
    PARSERS[path](after)


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)


def _read(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir()}


prompts = st.one_of(
    st.builds('replace "{}" with "{}"'.format, texts, texts),
    st.builds("{} {} to {}".format, st.sampled_from(["rename", "set", "change"]), pieces, pieces | values),
    st.builds("{} in {}".format, st.sampled_from(["change MAX to 5", "rename x to w"]), st.sampled_from(["a.py", "b"])),
)


@pytest.mark.asyncio
@pytest.mark.requirement("X18")
@given(prompt=prompts, source=SOURCES["a.py"], config=SOURCES["a.json"])
@settings(max_examples=30)
@example("change MAX to 5", "MAX = 3\n", '{\n"MAX": 3\n}')
async def test_whatever_the_prompt_all_files_parse_if_they_did(prompt: str, source: str, config: str) -> None:
    before = {"a.py": source, "a.json": config}
    with TemporaryDirectory() as folder:
        _write(Path(folder), before)
        await answer(Path(folder), prompt)
        after = _read(Path(folder))
    json.loads(after["a.json"])
    if not source.startswith("def broken"):
        ast.parse(after["a.py"])


@pytest.mark.parametrize("suffix", ["py", "json", "toml", "yaml"])
@pytest.mark.parametrize("text", ["(" * 3000, "-" * 20_000 + "1", "[" * 5_000, "a" + ".a" * 5_000, "\0", "{a: " * 3000])
def test_no_source_stops_the_check(suffix: str, text: str) -> None:
    with suppress(NotChanged):
        edited(EditRequest(REPLACE, "x", '"'), f"a.{suffix}", f"{text}\nx")


# -- what the user reads -------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_value_is_set_where_it_is_assigned(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import b\n\nMAX_RETRIES = 3\n\nprint(MAX_RETRIES)\n")
    (tmp_path / "b.py").write_text("from a import MAX_RETRIES\nrun(MAX_RETRIES=3)\n")
    text = await answer(tmp_path, "change MAX_RETRIES to 5")
    assert (tmp_path / "a.py").read_text() == "import b\n\nMAX_RETRIES = 5\n\nprint(MAX_RETRIES)\n"
    assert text.splitlines() == [
        'Set "MAX_RETRIES" to 5: 1 of 1 file changed (by fixed rules, no language model).',
        "",
        "- `a.py:3` — changed",
    ]


@pytest.mark.asyncio
async def test_a_rename_changes_every_file_or_none(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("foo = 1\n")
    (tmp_path / "b.py").write_text("from a import foo\nqux = foo\n")
    text = await answer(tmp_path, "rename foo to qux")
    assert "0 of 2 files changed" in text
    assert "- `a.py:1` — not changed: a rename changes every file or none" in text
    assert "- `b.py:1` (also line 2) — not changed: it already contains `qux`" in text
    assert (tmp_path / "a.py").read_text() == "foo = 1\n"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "task", ["Refactor the retry loop", "change LEVEL to debug", "please fix the bug in a.py", "rename a.py to b.py"]
)
async def test_every_request_beyond_the_grammar_gets_the_same_sentence(tmp_path: Path, task: str) -> None:
    (tmp_path / "a.py").write_text("LEVEL = 'info'\n")
    text = await answer(tmp_path, task)
    assert text.splitlines()[0] == NEEDS_LANGUAGE_MODEL
    assert (tmp_path / "a.py").read_text() == "LEVEL = 'info'\n"


@pytest.mark.asyncio
async def test_citations_name_the_line_and_no_licence_comes_first(tmp_path: Path) -> None:
    (tmp_path / "LICENSE").write_text("retries\n" * 3)
    (tmp_path / "a.py").write_text("import b\n\nMAX_RETRIES = 3\n\nprint(MAX_RETRIES)\n")
    text = await answer(tmp_path, "where are the retries configured?")
    assert "- `a.py:3` — `MAX_RETRIES = 3`" in text
    assert text.endswith("Start with `a.py:3`.")


@pytest.mark.asyncio
async def test_a_path_in_a_question_limits_the_search_to_it(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def load():\n    pass\n")
    (tmp_path / "b.py").write_text("def load():\n    pass\n\n\ndef save():\n    pass\n")
    text = await answer(tmp_path, "where is load defined in b.py?")
    assert text.partition("### Usages")[0].count("`b.py:1`") == 1
    assert "`a.py:1`" not in text.partition("### Tests")[0]
    text = await answer(tmp_path, "what does b.py do?")
    assert "`b.py:1` — `def load():`\n- `b.py:5` — `def save():`" in text


@pytest.mark.asyncio
async def test_the_last_part_of_a_dotted_name_is_searched_too(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Config:\n    def load(self):\n        pass\n")
    assert "`a.py:2` — `def load(self):`" in await answer(tmp_path, "where is Config.load defined?")
