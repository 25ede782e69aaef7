"""Rows with long texts: compressed, and limited for each session."""

import sqlite3
import zlib


def delete_oldest(connection: sqlite3.Connection, key: int, table: str, limit: int) -> None:
    """Deletes the oldest rows of a session beyond ``limit`` bytes; the newest row always stays."""
    number = last_beyond(connection, key, table, limit)
    connection.execute(f"DELETE FROM {table} WHERE session = ? AND number <= ?", (key, number))  # noqa: S608


def last_beyond(connection: sqlite3.Connection, key: int, table: str, limit: int) -> int:
    """The number of the newest row that is beyond ``limit`` bytes; 0 if none is. The newest row of all never is."""
    sql = f"SELECT number, size FROM {table} WHERE session = ? ORDER BY number DESC"  # noqa: S608 - table names are constants
    total = 0
    for index, (number, size) in enumerate(connection.execute(sql, (key,))):
        total += size
        if index and total > limit:
            return number
    return 0


def compressed(text: str) -> bytes:
    # Half a surrogate pair must survive the round trip.
    return packed(text.encode("utf-8", "surrogatepass"))


def packed(data: bytes) -> bytes:
    return zlib.compress(data, 1)


def decompressed(data: bytes) -> str:
    return zlib.decompress(data).decode("utf-8", "surrogatepass")
