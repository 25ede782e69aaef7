"""The content of a prompt as message blocks."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from acp import schema

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.message import Block, Text
from deputy_agents.text import cut_bytes
from deputy_protocol.place import Position, Range
from deputy_server.convert.place import place_text
from deputy_server.convert.prompt import image_from_base64

PromptContent: TypeAlias = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)

MAX_ATTACHED = 256 * 1024
"""Bytes of an attached file; agents read the file for more."""

_LINES = re.compile(r"^L?(\d+)(?:C\d+)?(?:[-:]L?(\d+)(?:C\d+)?)?$")


@dataclass(frozen=True, slots=True)
class Prompt:
    """``blocks`` are shown to the user, ``attached`` are not."""

    blocks: tuple[Block, ...]
    attached: tuple[Block, ...] = ()


def read_prompt(contents: Iterable[PromptContent], cwd: Path) -> Prompt:
    """Convert what a client has sent. Reads the disk.

    Raises:
        InvalidRequest: a part is invalid or not supported.
    """
    blocks: list[Block] = []
    attached: list[Block] = []
    for index, one in enumerate(contents):
        match one:
            case schema.TextContentBlock():
                blocks.append(Text(one.text))
            case schema.ImageContentBlock():
                blocks.append(image_from_base64(one.data, f"prompt[{index}].data"))
            case schema.ResourceContentBlock():
                blocks.append(Text(f"(about {_location(one.uri, cwd)})"))
            case schema.EmbeddedResourceContentBlock():
                name = _location(one.resource.uri, cwd)
                blocks.append(Text(f"(about {name})"))
                attached.extend(_embedded(one, name, f"prompt[{index}].resource"))
            case schema.AudioContentBlock():
                raise InvalidRequest(f"prompt[{index}]: audio is not supported. Send text.", f"prompt[{index}]")
    return Prompt(tuple(blocks), tuple(attached))


def _embedded(content: schema.EmbeddedResourceContentBlock, name: str, field: str) -> Iterator[Block]:
    resource = content.resource
    if isinstance(resource, schema.TextResourceContents):
        mark = "\n[truncated: read the file for the rest]"
        yield Text(f"[{name}, as the editor has it]\n{cut_bytes(resource.text, MAX_ATTACHED, mark)}")
    elif (resource.mime_type or "").startswith("image/"):
        yield image_from_base64(resource.blob, field)
    else:
        yield Text(f"[{name} is not attached: it is neither text nor an image]")


def _location(uri: str, cwd: Path) -> str:
    """A file or its lines, as agents write locations. Editors give lines in the fragment."""
    base, _, fragment = uri.partition("#")
    found = _LINES.match(fragment)
    if found is None:
        return place_text(base if base.startswith("file:") else uri, None, cwd)
    first, last = int(found[1]), int(found[2] or found[1])
    start, end = Position(line=max(first, 1) - 1, character=0), Position(line=max(first, last, 1), character=0)
    return place_text(base, Range(start=start, end=end), cwd)
