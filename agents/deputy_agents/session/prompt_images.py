"""The images of a prompt, as the model gets them."""

from collections.abc import Sequence

import anyio

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.message import Block, Image, Text
from deputy_agents.tool.image_process import decode_image

GRACE = 20
"""Seconds until all images of a prompt must be decoded."""


async def with_usable_images(blocks: Sequence[Block]) -> tuple[tuple[Block, ...], list[str]]:
    """``blocks`` with images that models accept, and the texts that replace the others: those that are damaged, too
    large, or not decoded in bounded time."""
    images = {index: block for index, block in enumerate(blocks) if isinstance(block, Image)}
    late = left_out("It could not be decoded in time.")
    usable: dict[int, Image | Text] = dict.fromkeys(images, late)

    async def decode(index: int, image: Image) -> None:
        try:
            if (found := await decode_image(image.data)) is not None:
                usable[index] = found.image
        except ToolError as error:
            usable[index] = left_out(str(error))

    with anyio.move_on_after(GRACE):
        async with anyio.create_task_group() as tasks:
            for index, image in images.items():
                tasks.start_soon(decode, index, image)
    texts = [block.text for block in usable.values() if isinstance(block, Text)]
    return tuple(usable.get(index, block) for index, block in enumerate(blocks)), texts


def without_images(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """``blocks`` of a prompt that was cancelled before its images were decoded."""
    cancelled = left_out("The prompt was cancelled.")
    return tuple(cancelled if isinstance(block, Image) else block for block in blocks)


def left_out(why: str) -> Text:
    return Text(f"[An image of this prompt is left out: {why}]")
