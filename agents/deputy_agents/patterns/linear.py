"""Regular expressions that match in linear time.

The engine is that of Rust, which pydantic uses for its own patterns. It knows neither lookaround nor backreferences, so
no expression makes it backtrack.
"""

import re

from pydantic_core import SchemaError, SchemaValidator, core_schema

_META = re.compile(r"[\\.+*?()|\[\]{}^$#&~-]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TO_PRIVATE_USE = 0x100000


class PatternError(ValueError):
    """A pattern is invalid or exceeds a limit. The message is a phrase that says why."""


class Linear:
    """An expression in the syntax of Rust's ``regex``. Groups are not returned."""

    __slots__ = ("_validator",)

    def __init__(self, expression: str) -> None:
        """Raises PatternError: ``expression`` is invalid, or too large when it is compiled."""
        schema = core_schema.str_schema(pattern=_valid(expression), regex_engine="rust-regex", strict=True)
        try:
            self._validator = SchemaValidator(schema)
        except SchemaError as error:
            raise PatternError(_reason(str(error))) from None

    def search(self, text: str) -> bool:
        """Whether ``text`` contains a match."""
        if self._validator.isinstance_python(text):
            return True
        # The engine works on UTF-8. Names of files can have bytes that are not, as surrogates.
        return not text.isascii() and text != (valid := _valid(text)) and self._validator.isinstance_python(valid)


def escape(text: str) -> str:
    """The expression that matches only ``text``."""
    return _META.sub(r"\\\g<0>", text)


def _valid(text: str) -> str:
    """``text`` with another character for each surrogate."""
    return _SURROGATE.sub(lambda found: chr(_TO_PRIVATE_USE + ord(found[0])), text)


def _reason(message: str) -> str:
    if "size limit" in message:
        return "it is too large"
    last = message.strip().rsplit("\n", 1)[-1].strip()
    return last.removeprefix("error: ") or "it is invalid"
