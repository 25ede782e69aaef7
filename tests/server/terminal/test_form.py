"""Forms at a terminal: filled in by single keys, and never answered by a key that was not meant for them."""

from io import StringIO

import anyio
import pytest
from rich.console import Console

from deputy_agents.domain.event import AgentRef, InputRequest
from deputy_agents.domain.user_input import FieldOption, FieldType, InputField, InputForm
from deputy_agents.ports.permission import Accepted, Declined, InputAnswer
from deputy_server.terminal.form import ESCAPE, Form
from deputy_server.terminal.screen import LiveScreen

pytestmark = pytest.mark.requirement("Q5")

OPTIONS = tuple(FieldOption(value, value.upper()) for value in "abc")
MANY = tuple(FieldOption(str(n), f"option {n}") for n in range(1, 13))


def request(*fields: InputField, url: str | None = None, server: str = "") -> InputRequest:
    form = InputForm("Which one?", fields, url, server)
    return InputRequest("i", AgentRef("a", "label", "general", "m", 1), "[label] ask_user(Which one?)", form)


def pressed(keys: str, *fields: InputField, url: str | None = None) -> InputAnswer | None:
    form = Form(request(*fields, url=url), drawn=True)
    for key in keys:
        form.press(key)
    return form.answer


def shown(form: Form) -> str:
    out = StringIO()
    Console(file=out, width=80).print(form.render(0))
    return out.getvalue()


TEXT = InputField("f", FieldType.STRING)
CHOICE = InputField("f", FieldType.CHOICE, options=OPTIONS)
CHOICES = InputField("f", FieldType.CHOICES, options=OPTIONS, shortest=1)


@pytest.mark.parametrize(
    ("keys", "fields", "values"),
    [
        ("y1 é\x7f!\n", (TEXT,), {"f": "y1 !"}),
        ("2", (CHOICE,), {"f": "b"}),
        ("12\n", (InputField("f", FieldType.CHOICE, options=MANY),), {"f": "12"}),
        ("132\n1\n", (InputField("f", FieldType.CHOICES, options=OPTIONS), TEXT), {"f": "1"}),
        ("3113\n", (CHOICES,), None),
        ("313\n", (CHOICES,), {"f": ("a",)}),
        ("-1.5\n", (InputField("f", FieldType.NUMBER),), {"f": -1.5}),
        ("y", (InputField("f", FieldType.BOOLEAN),), {"f": True}),
        ("n", (InputField("f", FieldType.BOOLEAN),), {"f": False}),
        ("\n", (InputField("f", FieldType.BOOLEAN, default=True),), {"f": True}),
        ("\n", (InputField("f", FieldType.STRING, default="x"),), {"f": "x"}),
        ("\n", (InputField("f", FieldType.STRING, required=False),), {}),
        ("\n", (InputField("g", FieldType.NUMBER, default=2),), {"g": 2}),
        ("a\n2", (InputField("g", FieldType.STRING), CHOICE), {"g": "a", "f": "b"}),
    ],
)
def test_keys_fill_in_the_fields(keys: str, fields: tuple[InputField, ...], values: dict[str, object] | None) -> None:
    assert pressed(keys, *fields) == (None if values is None else Accepted(values))


def test_a_value_that_does_not_fit_is_said_and_not_taken() -> None:
    form = Form(request(InputField("port", FieldType.NUMBER, integer=True, maximum=65535)), drawn=True)
    for key in "1x\n":
        form.press(key)
    assert form.answer is None
    assert "port: must be a number" in shown(form)


def test_escape_declines_and_a_url_needs_a_yes() -> None:
    assert pressed(ESCAPE, TEXT) == pressed(f"ab{ESCAPE}", TEXT) == Declined()
    assert pressed("\nx", url="https://example.com") is None
    assert pressed("y", url="https://example.com") == Accepted({})
    assert pressed("n", url="https://example.com") == Declined()
    assert "https://example.com" in shown(Form(request(url="https://example.com", server="shop")))
    assert "Asked by the MCP server shop." in shown(Form(request(url="https://example.com", server="shop")))


@pytest.mark.asyncio
async def test_keys_go_to_the_form_when_it_is_drawn_and_stop_no_agent() -> None:
    stopped: list[str] = []
    console = Console(file=StringIO(), width=80, height=25)
    screen = LiveScreen(console, stopped.append, None)
    answers: list[InputAnswer] = []

    async def ask() -> None:
        answers.append(await screen.ask_input(request(CHOICE)))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            screen.press("1")  # before it was drawn
            await anyio.wait_all_tasks_blocked()
            assert answers == []
            screen.render()
            screen.press("2")
    assert answers == [Accepted({"f": "b"})]
    assert stopped == []
