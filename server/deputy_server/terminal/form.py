"""An input request at a terminal: its fields one after the other, filled in by single keys."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.event import InputRequest
from deputy_agents.domain.user_input import FieldType, InputField, Value
from deputy_agents.permission.input_values import validated
from deputy_agents.ports.permission import Accepted, Declined, InputAnswer
from deputy_agents.text import visible
from deputy_server.terminal.draw import lines_of, one_line

ESCAPE = "\x1b"
_ENTER = ("\n", "\r")
_BACKSPACE = ("\x7f", "\b")
_YES_NO = {"y": True, "n": False}
_ONE_DIGIT = 9
"""Options up to which one key chooses; beyond it, the number is typed."""


@dataclass(slots=True)
class Form:
    """A form that the user fills in. Keys go to the first field without a value; ``answer`` is set at the end."""

    request: InputRequest
    answer: InputAnswer | None = None
    drawn: bool = False
    _values: dict[str, Value] = field(default_factory=dict[str, Value])
    _index: int = 0
    _typed: str = ""
    _marked: list[str] = field(default_factory=list[str])
    _error: str = ""

    def press(self, key: str) -> None:
        """Handle a key. One that was pressed before the form was drawn was not meant for it."""
        if not self.drawn or self.answer is not None:
            return
        self._error = ""
        if key == ESCAPE:
            self.answer = Declined()
        elif (current := self._field) is None:
            self._confirm(key)
        elif current.type is FieldType.BOOLEAN and key in _YES_NO:
            self._enter(current, _YES_NO[key])
        elif key in _ENTER:
            self._submit(current)
        elif key in _BACKSPACE:
            self._typed = self._typed[:-1]
        elif current.type is not FieldType.BOOLEAN and key.isprintable():
            self._type(current, key)

    @property
    def _field(self) -> InputField | None:
        fields = self.request.form.fields
        return fields[self._index] if self._index < len(fields) else None

    def _confirm(self, key: str) -> None:
        """Agree to the URL, or to a form without fields."""
        if key in _YES_NO:
            self.answer = Accepted({}) if _YES_NO[key] else Declined()

    def _type(self, current: InputField, key: str) -> None:
        self._typed += key
        options = len(current.options)
        if current.type is FieldType.CHOICE and options <= _ONE_DIGIT:
            self._submit(current)
        elif current.type is FieldType.CHOICES and options <= _ONE_DIGIT:
            self._mark(current)

    def _mark(self, current: InputField) -> None:
        if (value := self._numbered(current)) is not None:
            self._marked.remove(value) if value in self._marked else self._marked.append(value)

    def _submit(self, current: InputField) -> None:
        if current.type is FieldType.CHOICES and self._typed:
            self._mark(current)
            return
        match current.type:
            case FieldType.CHOICES:
                self._enter(current, tuple(one.value for one in current.options if one.value in self._marked))
            case FieldType.CHOICE if self._typed:
                if (value := self._numbered(current)) is not None:
                    self._enter(current, value)
            case FieldType.NUMBER if self._typed:
                self._enter(current, _number(self._typed))
            case FieldType.STRING:
                self._enter(current, self._typed if self._typed or current.default is None else current.default)
            case _:
                self._enter(current, current.default)

    def _numbered(self, current: InputField) -> str | None:
        """The option whose number was typed."""
        typed, self._typed = self._typed, ""
        if typed.isdecimal() and 1 <= int(typed) <= len(current.options):
            return current.options[int(typed) - 1].value
        self._error = f"Choose a number from 1 to {len(current.options)}."
        return None

    def _enter(self, current: InputField, value: Value | None) -> None:
        try:
            self._values |= validated((current,), {} if value is None else {current.name: value})
        except InvalidRequest as error:
            self._error = str(error).removeprefix("values.")
            return
        self._index += 1
        self._typed, self._marked = "", []
        if self._field is None:
            self.answer = Accepted(self._values)

    # -- drawing ---------------------------------------------------------------------------------------------------

    def render(self, behind: int) -> RenderableType:
        """The form as it is now. ``behind`` is the number of forms that follow."""
        form = self.request.form
        body = [Text(line) for line in lines_of(form.message)]
        if form.url is not None:
            body += [Text(""), Text(visible(form.url), style="bold")]
        if form.server:
            body.append(Text(f"Asked by the MCP server {one_line(form.server)}.", style="dim"))
        body += [Text(""), *self._field_lines()]
        if self._error:
            body.append(Text(visible(self._error), style="bold red"))
        position = f"{self._index + 1} of {len(form.fields)}" if len(form.fields) > 1 else ""
        waiting = f"{behind} more waiting" if behind else ""
        return Panel(
            Group(*body),
            title=Text(one_line(self.request.title), style="bold yellow"),
            title_align="left",
            subtitle=Text(" · ".join(filter(None, (position, waiting)))),
            subtitle_align="right",
            border_style="yellow",
        )

    def _field_lines(self) -> Iterator[Text]:
        current = self._field
        if current is None:
            what = "Agree to open it" if self.request.form.url else "Agree"
            yield Text(f"y {what}   n Decline", style="bold")
            return
        if current.title or len(self.request.form.fields) > 1:
            yield Text(one_line(current.title or current.name), style="bold")
        if current.description:
            yield Text(one_line(current.description), style="dim")
        for number, option in enumerate(current.options, start=1):
            mark = ("[x] " if option.value in self._marked else "[ ] ") if current.type is FieldType.CHOICES else ""
            yield Text(f"{number} {mark}{one_line(option.title)}", style="bold")
        if current.type in (FieldType.STRING, FieldType.NUMBER) or len(current.options) > _ONE_DIGIT:
            yield Text(f"> {visible(self._typed)}▏")
        if current.default is not None:
            yield Text(f"Default: {visible(str(current.default))}", style="dim")
        yield Text(self._hint(current), style="dim")

    @staticmethod
    def _hint(current: InputField) -> str:
        match current.type:
            case FieldType.BOOLEAN:
                first = "y yes   n no"
            case FieldType.CHOICE if len(current.options) <= _ONE_DIGIT:
                first = "press a number"
            case FieldType.CHOICES:
                first = "numbers select, Enter answers"
            case _:
                first = "Enter answers"
        skip = "" if current.required or current.type is not FieldType.BOOLEAN else "   Enter skips"
        return f"{first}{skip}   Esc declines"

    def result_line(self) -> Text:
        """What was answered, in one line. Entered values are not repeated: they may be private."""
        word = {"Accepted": "answered", "Declined": "declined"}.get(type(self.answer).__name__, "withdrawn")
        return Text.assemble((f"{one_line(self.request.title)}  ", ""), (word, "bold"))


def _number(text: str) -> float | str:
    """The number; ``text`` itself if it is none, which does not validate."""
    try:
        return float(text)
    except ValueError:
        return text
