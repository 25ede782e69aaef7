"""Real pictures, made here."""

import struct
import zlib


def png(width: int = 2, height: int = 1) -> bytes:
    """A black picture."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"\0" * (width + 1) * height)
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", rows), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def broken_png() -> bytes:
    """A picture with a valid beginning and end, and pixels that cannot be decoded."""
    header = struct.pack(">IIBBBBB", 4, 4, 8, 2, 0, 0, 0)
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", b"no pixels"), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def gif(width: int = 2, height: int = 1) -> bytes:
    """A black picture of at most 100 pixels."""
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6)
    # Codes of three bits, each pixel after a clear code, so that no code gets longer.
    codes = [4, *(code for _ in range(width * height) for code in (0, 4)), 5]
    bits = sum(code << (3 * at) for at, code in enumerate(codes))
    data = bits.to_bytes((3 * len(codes) + 7) // 8, "little")
    frame = b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02" + bytes([len(data)]) + data + b"\0"
    return head + frame + b";"


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
