"""Images in results of MCP servers."""

from base64 import b64encode

import pytest
from mcp_types import ImageContent

from deputy_agents.domain.message import Image
from deputy_agents.mcp.tool import MAX_IMAGES, content_text
from tests.support.images import broken_png, png

pytestmark = pytest.mark.asyncio


def content(data: bytes | str) -> ImageContent:
    encoded = data if isinstance(data, str) else b64encode(data).decode()
    return ImageContent(type="image", data=encoded, mime_type="image/png")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (png(2, 1), "[PNG image, 2 x 1 pixels]"),
        (png(3136, 2), "[PNG image, 1568 x 1 pixels, reduced from 3136 x 2]"),
    ],
)
async def test_an_image_is_passed_on_as_models_accept_it(data: bytes, text: str) -> None:
    images: list[Image] = []
    assert await content_text(content(data), images) == text
    assert [image.media_type for image in images] == ["image/png"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (broken_png(), "The image is damaged or incomplete."),
        (png()[:-9], "The image is damaged or incomplete."),
        ("!!!", "The image is not valid base64."),
        (b"<svg/>", "not a PNG, JPEG, GIF or WebP image"),
    ],
)
async def test_an_image_that_no_model_accepts_is_named_and_left_out(data: bytes | str, why: str) -> None:
    images: list[Image] = []
    text = await content_text(content(data), images)
    assert text.startswith("[an image: omitted")
    assert why in text
    assert images == []


async def test_images_beyond_the_limit_are_left_out() -> None:
    images: list[Image] = []
    texts = [await content_text(content(png()), images) for _ in range(MAX_IMAGES + 1)]
    assert len(images) == MAX_IMAGES
    assert texts[-1] == f"[an image: omitted, because there are more than {MAX_IMAGES}]"
