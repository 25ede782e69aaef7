"""What the table of methods is made of: requests, notifications and commands. What is ``planned`` is agreed upon, and
the server does not have it yet.

Payload classes are given as functions and looked up when they are first needed: the modules that hold them, and
pydantic below them, cost a fifth of a start-up, which needs only names.
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
    """Who sends it."""

    TO_SERVER = "client_to_server"
    TO_CLIENT = "server_to_client"


@dataclass(frozen=True, slots=True)
class Request(Generic[P_co, R_co]):
    """A request: exactly one answer comes back."""

    name: str
    _params: Callable[[], type[P_co]]
    _result: Callable[[], type[R_co]]
    doc: str
    direction: Direction = Direction.TO_SERVER
    planned: bool = False

    @property
    def params(self) -> type[P_co]:
        return self._params()

    @property
    def result(self) -> type[R_co]:
        return self._result()

    def parse(self, raw: object) -> P_co:
        """The params in ``raw``, decoded JSON.

        Raises:
            InvalidParams: they do not validate.
        """
        from deputy_protocol.validate import parse

        return parse(self.params, raw)


@dataclass(frozen=True, slots=True)
class Notification(Generic[P_co]):
    """A notification: nothing comes back."""

    name: str
    _params: Callable[[], type[P_co]]
    doc: str
    direction: Direction = Direction.TO_CLIENT
    planned: bool = False

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
    planned: bool = False

    @property
    def argument(self) -> type[P_co]:
        return self._argument()

    @property
    def result(self) -> type[R_co]:
        return self._result()

    def parse(self, arguments: Sequence[object] | None) -> P_co:
        """The argument in the list of ``arguments``; further ones are ignored.

        Raises:
            InvalidParams: it does not validate.
        """
        from deputy_protocol.validate import parse

        return parse(self.argument, arguments[0] if arguments else None, at="arguments[0]")
