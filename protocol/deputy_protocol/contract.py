"""Entries of the table of methods: requests, notifications and commands.

Payload classes are given as functions and looked up on first use: importing their modules and pydantic takes a fifth
of the startup time, and startup needs only names.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from pydantic import BaseModel

P_co = TypeVar("P_co", bound="BaseModel", covariant=True)
R_co = TypeVar("R_co", bound="BaseModel", covariant=True)


class Direction(StrEnum):
    """Which side sends a message."""

    TO_SERVER = "client_to_server"
    TO_CLIENT = "server_to_client"


@dataclass(frozen=True, slots=True)
class Request(Generic[P_co, R_co]):
    """A request. It gets exactly one response."""

    name: str
    _params: Callable[[], type[P_co]]
    _result: Callable[[], type[R_co]]
    doc: str
    direction: Direction = Direction.TO_SERVER

    @property
    def params(self) -> type[P_co]:
        return self._params()

    @property
    def result(self) -> type[R_co]:
        return self._result()

    def parse(self, raw: object) -> P_co:
        """The params in ``raw``, which is decoded JSON.

        Raises:
            InvalidParams: the params are invalid.
        """
        from deputy_protocol.validate import parse

        return parse(self.params, raw)


@dataclass(frozen=True, slots=True)
class Notification(Generic[P_co]):
    """A notification. It gets no response."""

    name: str
    _params: Callable[[], type[P_co]]
    doc: str
    direction: Direction = Direction.TO_CLIENT

    @property
    def params(self) -> type[P_co]:
        return self._params()


@dataclass(frozen=True, slots=True)
class Command(Generic[P_co, R_co]):
    """A command of ``workspace/executeCommand`` with one argument, an object."""

    name: str
    _argument: Callable[[], type[P_co]]
    _result: Callable[[], type[R_co]]
    doc: str

    @property
    def argument(self) -> type[P_co]:
        return self._argument()

    @property
    def result(self) -> type[R_co]:
        return self._result()

    def parse(self, arguments: Sequence[object] | None) -> P_co:
        """The first of ``arguments``. Further ones are ignored.

        Raises:
            InvalidParams: the argument is invalid.
        """
        from deputy_protocol.validate import parse

        return parse(self.argument, arguments[0] if arguments else None, at="arguments[0]")
