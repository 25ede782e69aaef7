"""Clients that can ask the user for permission, and their answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from deputy_agents.domain.event import PermissionRequest, ResolvedBy


@dataclass(frozen=True, slots=True)
class Selected:
    """The user selected an option. ``input`` replaces the tool's input; ``feedback`` is passed to the model."""

    option_id: str
    feedback: str | None = None
    input: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Dismissed:
    """No option was selected: the request was closed or answered with null, an error or invalid data (``dismissed``),
    or no client could ask the user (``unreachable``)."""

    by: Literal[ResolvedBy.DISMISSED, ResolvedBy.UNREACHABLE] = ResolvedBy.DISMISSED


PermissionAnswer: TypeAlias = Selected | Dismissed


class PermissionClient(Protocol):
    """A client that can show a permission request to the user."""

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        """Waits for the user's answer without a time limit. Cancelled when the request is settled elsewhere."""
        ...
