"""Clients that can ask the user for permission."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from deputy_agents.domain.event import PermissionRequest, ResolvedBy


@dataclass(frozen=True, slots=True)
class Selected:
    """An explicit choice. ``input`` replaces the tool's input; ``feedback`` is told to the model."""

    option_id: str
    feedback: str | None = None
    input: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Dismissed:
    """No choice: closed, null, an error, garbage (``dismissed``), or nobody there who can ask (``unreachable``)."""

    by: Literal[ResolvedBy.DISMISSED, ResolvedBy.UNREACHABLE] = ResolvedBy.DISMISSED


PermissionAnswer: TypeAlias = Selected | Dismissed


class PermissionClient(Protocol):
    """A client that can put a question to a person."""

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        """Waits for the person as long as it takes. Cancelled when the matter is settled elsewhere."""
        ...
