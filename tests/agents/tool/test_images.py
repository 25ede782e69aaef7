"""Images as models get them: decoded before they are used, unchanged if possible, and never larger than accepted."""

import random
import time
import zlib
from base64 import b64decode, b64encode
from io import BytesIO
from typing import cast

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow
from PIL import ImageDraw

from deputy_agents.domain.errors import ToolError
from deputy_agents.files.image import ImageFile
from deputy_agents.files.image_fit import MAX_BYTES, MAX_SIDE, Unusable, fit
from deputy_agents.tool import image_process
from deputy_agents.tool.image_process import decode_image, read_image
from tests.support.images import broken_png, gif, png

FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
MODES = {
    "PNG": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"),
    "JPEG": ("1", "L", "RGB", "CMYK"),
    "GIF": ("1", "L", "P", "RGB", "RGBA"),
    "WEBP": ("L", "P", "RGB", "RGBA"),
}


def picture(width: int, height: int, mode: str = "RGB", *, noise: bool = False) -> Pillow.Image:
    """A picture whose corners differ: red, green, blue and white, from the left top clockwise."""
    if noise:
        data = random.Random(1).randbytes(width * height * 3)
        return Pillow.frombytes("RGB", (width, height), data).convert(mode)
    image = Pillow.new("RGB", (width, height), "black")
    draw = ImageDraw.Draw(image)
    for at, color in (((0, 0), "red"), ((1, 0), "green"), ((1, 1), "blue"), ((0, 1), "white")):
        left, top = at[0] * width // 2, at[1] * height // 2
        draw.rectangle((left, top, left + width // 2, top + height // 2), fill=color)
    if mode == "I;16":
        gray = image.convert("L").tobytes()
        return Pillow.frombytes(mode, (width, height), bytes(byte for value in gray for byte in (value, value)))
    return image.convert(mode)


def saved(image: Pillow.Image, kind: str, **options: object) -> bytes:
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def opened(found: ImageFile | None) -> Pillow.Image:
    assert found is not None
    data = b64decode(found.image.data)
    image = Pillow.open(BytesIO(data))
    image.load()
    assert found.image.media_type == f"image/{(image.format or '').lower()}"
    assert (found.width, found.height) == image.size
    assert max(image.size) <= MAX_SIDE
    assert len(data) <= MAX_BYTES
    return image


def color_at(image: Pillow.Image, x: float, y: float) -> str:
    pixel = image.convert("RGB").getpixel((int(x * image.width), int(y * image.height)))
    assert isinstance(pixel, tuple)
    near = {"red": (255, 0, 0), "green": (0, 128, 0), "blue": (0, 0, 255), "white": (255, 255, 255)}
    return min(near, key=lambda name: sum(abs(a - b) for a, b in zip(near[name], pixel, strict=True)))


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("size", [(1, 1), (640, 48), (MAX_SIDE, MAX_SIDE // 4)])
async def test_an_image_that_fits_keeps_its_bytes(kind: str, size: tuple[int, int]) -> None:
    data = saved(picture(*size), kind)
    found = await read_image(data)
    opened(found)
    assert found is not None
    assert b64decode(found.image.data) == data
    assert str(found) == f"{kind} image, {size[0]} x {size[1]} pixels"


@pytest.mark.parametrize(("kind", "mode"), [(kind, mode) for kind, modes in MODES.items() for mode in modes])
def test_every_mode_of_every_format_is_made_smaller(kind: str, mode: str) -> None:
    result, new = fit(saved(picture(2000, 1000, mode), kind))
    assert (result["size"], result["original"]) == ((1568, 784), (2000, 1000))
    image = Pillow.open(BytesIO(new))
    image.load()
    assert image.size == (1568, 784)
    if mode in ("RGB", "RGBA", "P", "CMYK"):
        assert [color_at(image, x, y) for x, y in ((0.2, 0.2), (0.8, 0.2), (0.8, 0.8), (0.2, 0.8))] == [
            "red",
            "green",
            "blue",
            "white",
        ]
    else:
        low, high = image.convert("L").getextrema()
        assert isinstance(low, int)
        assert isinstance(high, int)
        assert (low < 120, high > 240) == (True, True)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("size", "wanted"),
    [((1569, 1), (1568, 1)), ((8001, 10), (1568, 2)), ((10, 20_000), (1, 1568)), ((3000, 3000), (1568, 1568))],
)
async def test_a_long_side_is_made_shorter_and_the_original_size_is_named(
    size: tuple[int, int], wanted: tuple[int, int]
) -> None:
    found = await read_image(png(*size))
    assert opened(found).size == wanted
    assert str(found).endswith(f"{wanted[0]} x {wanted[1]} pixels, reduced from {size[0]} x {size[1]}")


@pytest.mark.asyncio
async def test_a_large_file_within_the_size_in_pixels_is_encoded_again() -> None:
    data = saved(picture(1500, 1500, noise=True), "PNG")
    assert len(data) > MAX_BYTES
    found = await read_image(data)
    assert opened(found).size == (1500, 1500)
    assert "reduced" not in str(found)


@pytest.mark.asyncio
async def test_data_after_the_end_of_an_image_is_dropped_if_there_is_too_much() -> None:
    found = await read_image(png() + b"\1" * MAX_BYTES)
    assert opened(found).size == (2, 1)


@pytest.mark.parametrize(("orientation", "corner"), [(1, "red"), (3, "blue"), (6, "white"), (8, "green"), (2, "green")])
@pytest.mark.parametrize("size", [(400, 200), (2000, 1000)])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_an_image_is_turned_as_its_camera_says(kind: str, size: tuple[int, int], orientation: int, corner: str) -> None:
    exif = Pillow.Exif()
    exif[0x0112] = orientation
    result, new = fit(saved(picture(*size), kind, exif=exif.tobytes()))
    if orientation == 1 and size[0] <= MAX_SIDE:
        assert new == b""
        return
    image = Pillow.open(BytesIO(new))
    assert color_at(image, 0.2, 0.2) == corner
    assert (image.width < image.height) == (orientation in (6, 8))
    assert result["size"] == image.size
    assert image.getexif().get(0x0112, 1) == 1, "it is not turned twice"


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_the_first_frame_of_an_animation_is_used(kind: str) -> None:
    frames = [Pillow.new("RGB", (2000, 1000), color) for color in ("red", "green", "blue")]
    result, new = fit(saved(frames[0], kind, save_all=True, append_images=frames[1:]))
    image = Pillow.open(BytesIO(new))
    assert (color_at(image, 0.5, 0.5), getattr(image, "n_frames", 1)) == ("red", 1)
    assert result["size"] == (1568, 784)


def test_transparency_is_kept_if_the_image_stays_small() -> None:
    image = Pillow.new("RGBA", (2000, 1000), (255, 0, 0, 0))
    _, new = fit(saved(image, "PNG"))
    assert Pillow.open(BytesIO(new)).convert("RGBA").getchannel("A").getextrema() == (0, 0)


# -- damaged and hostile images ------------------------------------------------------------------------------------


def huge_png(width: int, height: int) -> bytes:
    """A small file that states many pixels."""
    return png(2, 1).replace((2).to_bytes(4, "big") + (1).to_bytes(4, "big"), _size(width, height), 1)


def _size(width: int, height: int) -> bytes:
    return width.to_bytes(4, "big") + height.to_bytes(4, "big")


def _with_valid_header(data: bytes) -> bytes:
    head = data[12:29]
    return data[:29] + zlib.crc32(head).to_bytes(4, "big") + data[33:]


def _cut_webp() -> bytes:
    """The first half of a file, with the size of that in its header."""
    data = saved(picture(300, 300, noise=True), "WEBP")
    half = data[: len(data) // 2]
    return half[:4] + (len(half) - 8).to_bytes(4, "little") + half[8:]


DAMAGED = {
    "broken pixels": broken_png(),
    "cut PNG with an end": png(300, 300)[:60] + png()[-12:],
    "cut JPEG": saved(picture(300, 300), "JPEG")[:400] + b"\xff\xd9",
    "cut WebP": _cut_webp(),
    "GIF without a frame": b"GIF89a\2\0\1\0\0\0\0;",
    "wrong checksum": png(30, 30)[:40] + b"\xff" + png(30, 30)[41:],
    "only a PNG header": b"\x89PNG\r\n\x1a\nIEND\xaeB`\x82",
    "only a JPEG header": b"\xff\xd8\xff\xd9",
    "only a WebP header": b"RIFF\4\0\0\0WEBP",
    "no end": png()[:-8],
}


@pytest.mark.asyncio
@pytest.mark.parametrize("name", DAMAGED)
async def test_an_image_that_cannot_be_decoded_is_an_error(name: str) -> None:
    with pytest.raises(ToolError, match="damaged or incomplete"):
        await read_image(DAMAGED[name])


@pytest.mark.asyncio
@pytest.mark.parametrize("size", [(100_000, 100_000), (2**31 - 1, 1), (1, 2**31 - 1), (8000, 8000)])
async def test_an_image_with_too_many_pixels_is_rejected_at_once(size: tuple[int, int]) -> None:
    started = time.monotonic()
    with pytest.raises(ToolError, match=f"{size[0]} x {size[1]} pixels, which is too much|damaged"):
        await read_image(_with_valid_header(huge_png(*size)))
    assert time.monotonic() - started < 5


@pytest.mark.asyncio
async def test_a_bomb_within_the_limits_is_made_smaller() -> None:
    data = saved(Pillow.new("L", (7000, 7000)), "PNG")
    assert len(data) < 100_000
    assert opened(await read_image(data)).size == (MAX_SIDE, MAX_SIDE)


@pytest.mark.asyncio
async def test_a_photo_of_many_pixels_is_decoded_at_a_smaller_size() -> None:
    data = saved(Pillow.new("RGB", (12_000, 9000), "red"), "JPEG")
    assert opened(await read_image(data)).size == (MAX_SIDE, 1176)
    with pytest.raises(ToolError, match="too much"):
        await read_image(saved(Pillow.new("RGB", (12_000, 9000), "red"), "JPEG", progressive=True))


@pytest.mark.asyncio
async def test_an_image_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_process, "TIMEOUT", 0.01)
    with pytest.raises(ToolError, match="cannot be decoded within"):
        await read_image(png())


@pytest.mark.asyncio
async def test_the_loop_stays_free_while_an_image_is_made_smaller() -> None:
    data = saved(picture(4000, 4000), "PNG")
    await read_image(png())
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            before = time.monotonic()
            await anyio.sleep(0.001)
            longest = max(longest, time.monotonic() - before)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        await read_image(data)
        tasks.cancel_scope.cancel()
    assert longest < 2


@pytest.mark.asyncio
@pytest.mark.parametrize("data", [b"", b"\0", b"text", b"<svg/>", b"BM" + bytes(60), b"II*\0" + bytes(60), b"%PDF-1.7"])
async def test_another_format_is_no_image(data: bytes) -> None:
    assert await read_image(data) is None
    assert await decode_image(b64encode(data).decode()) is None


@pytest.mark.asyncio
@pytest.mark.parametrize("text", ["!!!", "aGk", "é", "a" * 50_000_000])
async def test_invalid_base64_is_an_error(text: str) -> None:
    with pytest.raises(ToolError, match=r"base64|too large"):
        await decode_image(text)


SEEDS = [png(3, 3), gif(), *(saved(picture(40, 30), kind) for kind in FORMATS)]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=200)
@given(st.sampled_from(SEEDS), st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=6))
def test_a_changed_byte_gives_a_valid_image_or_an_error(seed: bytes, changes: list[tuple[int, int]]) -> None:
    data = bytearray(seed)
    for at, value in changes:
        data[at % len(data)] = value
    try:
        result, new = fit(bytes(data))
    except Unusable:
        return
    image = Pillow.open(BytesIO(new or bytes(data)))
    assert max(image.size) <= MAX_SIDE
    assert result["size"] == image.size


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(FORMATS), st.integers(1, 2500), st.integers(1, 2500), st.sampled_from(["L", "RGB", "RGBA", "P"]))
def test_any_size_fits_and_keeps_its_shape(kind: str, width: int, height: int, mode: str) -> None:
    image = Pillow.new("RGB", (width, height), "red").convert(mode if kind != "JPEG" else "RGB")
    result, new = fit(saved(image, kind))
    size = cast("tuple[int, int]", result["size"])
    assert max(size) == min(MAX_SIDE, max(width, height))
    assert bool(new) == (max(width, height) > MAX_SIDE)
    scale = max(size) / max(width, height)
    assert abs(size[0] - width * scale) <= 1
    assert abs(size[1] - height * scale) <= 1
