"""Clients that can ask the user, for permission or for input, and their answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from deputy_agents.domain.event import InputRequest, PermissionRequest, ResolvedBy


@dataclass(frozen=True, slots=True)
class Selected:
    """The user selected an option. ``input`` replaces the tool's input; ``feedback`` is passed to the model."""

    option_id: str
    feedback: str | None = None
    input: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """The user filled in a form, or agreed to go to a URL. ``values`` are as the client sent them."""

    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Declined:
    """The user declined to fill in a form."""


@dataclass(frozen=True, slots=True)
class Dismissed:
    """No answer: the request was closed or answered with null, an error or invalid data (``dismissed``), or no client
    could ask the user (``unreachable``)."""

    by: Literal[ResolvedBy.DISMISSED, ResolvedBy.UNREACHABLE] = ResolvedBy.DISMISSED


PermissionAnswer: TypeAlias = Selected | Dismissed
InputAnswer: TypeAlias = Accepted | Declined | Dismissed


class PermissionClient(Protocol):
    """A client that can show requests to the user. Both methods wait for the user's answer without a time limit, and
    are cancelled when the request is settled elsewhere."""

    async def ask(self, request: PermissionRequest) -> PermissionAnswer: ...

    async def ask_input(self, request: InputRequest) -> InputAnswer: ...
