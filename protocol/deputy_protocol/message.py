"""What is said: prompts and messages."""

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from deputy_protocol.base import Wire
from deputy_protocol.place import Range, Reference

_BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
# One bad picture in the history would spoil every later request of the session.


class TextBlock(Wire):
    """Words, as text or Markdown."""

    type: Literal["text"] = "text"
    text: str


class ResourceLink(Wire):
    """A file, or a part of it, that the prompt is about."""

    type: Literal["resource_link"] = "resource_link"
    uri: str
    range: Range | None = None


class ImageBlock(Wire):
    """A picture."""

    type: Literal["image"] = "image"
    mime_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    data: Annotated[str, Field(min_length=1, pattern=_BASE64)]
    """Base64."""


PromptBlock: TypeAlias = Annotated[TextBlock | ResourceLink | ImageBlock, Field(discriminator="type")]


class Role(StrEnum):
    """Who speaks."""

    USER = "user"
    ASSISTANT = "assistant"


class Message(Wire):
    """A whole message."""

    message_id: str
    role: Role
    text: str
    references: tuple[Reference, ...] | None = None
    """Passages that the text refers to."""
    pictures: int | None = None
    """How many go with it; the pictures themselves are not sent back."""
