"""Prompts and messages."""

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from deputy_protocol.base import Wire
from deputy_protocol.place import Range, Reference

_BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
# One invalid image in the history would make every later model request of the session fail.


class TextBlock(Wire):
    """Plain text or Markdown."""

    type: Literal["text"] = "text"
    text: str


class ResourceLink(Wire):
    """A file, or a part of a file, that the prompt is about."""

    type: Literal["resource_link"] = "resource_link"
    uri: str
    range: Range | None = None
    """Default: the whole file."""


class ImageBlock(Wire):
    """An image."""

    type: Literal["image"] = "image"
    mime_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    data: Annotated[str, Field(min_length=1, pattern=_BASE64)]
    """The image in Base64."""


PromptBlock: TypeAlias = Annotated[TextBlock | ResourceLink | ImageBlock, Field(discriminator="type")]


class Role(StrEnum):
    """Author of a message."""

    USER = "user"
    ASSISTANT = "assistant"


class Thought(Wire):
    """A model's reasoning before a message, for display only. The message may have no text."""

    message_id: str
    text: str


class Message(Wire):
    """A complete message."""

    message_id: str
    role: Role
    text: str
    references: tuple[Reference, ...] | None = None
    """Passages that the text refers to."""
    pictures: int | None = None
    """Number of images in the message. The images themselves are not sent back."""
