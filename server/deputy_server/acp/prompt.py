"""The content of a prompt as the agent reads it."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from acp import schema

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.message import Block, Text
from deputy_agents.text import shortened
from deputy_protocol.place import Position, Range
from deputy_server.convert.place import place_text
from deputy_server.convert.prompt import image_from_base64

Given: TypeAlias = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)

MAX_ATTACHED = 256 * 1024
"""Bytes of one file that comes with a prompt; an agent that wants more reads the file."""

_LINES = re.compile(r"^L?(\d+)(?:C\d+)?(?:[-:]L?(\d+)(?:C\d+)?)?$")


@dataclass(frozen=True, slots=True)
class Prompt:
    """``said`` is what people see of it, ``attached`` what comes with it."""

    said: tuple[Block, ...]
    attached: tuple[Block, ...] = ()


def read_prompt(given: Iterable[Given], cwd: Path) -> Prompt:
    """What a client has sent. Looks at the disk.

    Raises:
        InvalidRequest: something in it is not supported, or is not what it says.
    """
    said: list[Block] = []
    attached: list[Block] = []
    for index, one in enumerate(given):
        match one:
            case schema.TextContentBlock():
                said.append(Text(one.text))
            case schema.ImageContentBlock():
                said.append(image_from_base64(one.data, f"prompt[{index}].data"))
            case schema.ResourceContentBlock():
                said.append(Text(f"(about {_place(one.uri, cwd)})"))
            case schema.EmbeddedResourceContentBlock():
                name = _place(one.resource.uri, cwd)
                said.append(Text(f"(about {name})"))
                attached.extend(_embedded(one, name, f"prompt[{index}].resource"))
            case schema.AudioContentBlock():
                raise InvalidRequest(f"prompt[{index}]: audio is not supported; send text.", f"prompt[{index}]")
    return Prompt(tuple(said), tuple(attached))


def _embedded(given: schema.EmbeddedResourceContentBlock, name: str, field: str) -> Iterator[Block]:
    resource = given.resource
    if isinstance(resource, schema.TextResourceContents):
        mark = "\n[cut: read the file for the rest]"
        yield Text(f"[{name}, as the editor has it]\n{shortened(resource.text, MAX_ATTACHED, mark)}")
    elif (resource.mime_type or "").startswith("image/"):
        yield image_from_base64(resource.blob, field)
    else:
        yield Text(f"[{name} is not attached: it is neither text nor a picture]")


def _place(uri: str, cwd: Path) -> str:
    """A file, or lines of it, as agents write places. Editors name lines in the fragment."""
    base, _, fragment = uri.partition("#")
    found = _LINES.match(fragment)
    if found is None:
        return place_text(base if base.startswith("file:") else uri, None, cwd)
    first, last = int(found[1]), int(found[2] or found[1])
    start, end = Position(line=max(first, 1) - 1, character=0), Position(line=max(first, last, 1), character=0)
    return place_text(base, Range(start=start, end=end), cwd)
