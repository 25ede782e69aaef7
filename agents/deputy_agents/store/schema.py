"""The tables of the store, as numbered migrations starting from an empty file. A released migration never changes."""

import sqlite3

from deputy_agents.domain.errors import StoreError

APPLICATION_ID = 0x44505459
"""Marks a file as Deputy's ("DPTY")."""

MIGRATIONS: tuple[str, ...] = (
    # 1
    """
    CREATE TABLE sessions (
        id INTEGER PRIMARY KEY,
        session_id TEXT NOT NULL UNIQUE,
        agent_id TEXT NOT NULL,
        title TEXT NOT NULL,
        cwd TEXT NOT NULL,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        model TEXT NOT NULL,
        archived INTEGER NOT NULL DEFAULT 0,
        permission_mode TEXT,
        rules TEXT NOT NULL DEFAULT '[]',
        owner TEXT
    );
    CREATE INDEX sessions_by_time ON sessions (updated_at DESC, session_id DESC);
    CREATE INDEX sessions_by_owner ON sessions (owner) WHERE owner IS NOT NULL;

    CREATE TABLE agents (
        session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        agent_id TEXT NOT NULL,
        parent_id TEXT,
        user_initiated INTEGER NOT NULL,
        label TEXT NOT NULL,
        model TEXT NOT NULL,
        started_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        PRIMARY KEY (session, agent_id)
    ) WITHOUT ROWID;

    CREATE TABLE events (
        session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        seq INTEGER NOT NULL,
        agent_id TEXT,
        run INTEGER,
        agent_seq INTEGER,
        time REAL NOT NULL,
        type TEXT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (session, seq)
    ) WITHOUT ROWID;

    CREATE TABLE history (
        session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        agent_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        message TEXT NOT NULL,
        PRIMARY KEY (session, agent_id, number)
    ) WITHOUT ROWID;
    """,
    # 2
    """
    CREATE TABLE changes (
        number INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        change_id TEXT NOT NULL,
        agent_id TEXT NOT NULL,
        run INTEGER NOT NULL,
        tool_call_id TEXT NOT NULL,
        path TEXT NOT NULL,
        time REAL NOT NULL,
        size INTEGER NOT NULL,
        withheld INTEGER NOT NULL,
        before BLOB,
        after BLOB NOT NULL
    );
    CREATE UNIQUE INDEX changes_by_id ON changes (session, change_id);

    CREATE TABLE outputs (
        number INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        agent_id TEXT NOT NULL,
        tool_call_id TEXT NOT NULL,
        size INTEGER NOT NULL,
        output BLOB NOT NULL
    );
    CREATE UNIQUE INDEX outputs_by_call ON outputs (session, agent_id, tool_call_id);
    """,
)
VERSION = len(MIGRATIONS)


def migrate(connection: sqlite3.Connection) -> None:
    """Migrates the file to :data:`VERSION` in one transaction; of several processes, one does it. The connection must
    be in autocommit mode.

    Raises:
        StoreError: the file has a newer version or belongs to another program. It is not changed.
        sqlite3.Error: the file cannot be read or written.
    """
    version = _version(connection)
    if version == VERSION:
        return
    if version == 0:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in MIGRATIONS[_version(connection) :]:
            for statement in filter(str.strip, step.split(";")):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    # A single statement reads a consistent state while other processes write.
    version, owner, tables = connection.execute(
        "SELECT user_version, application_id, (SELECT COUNT(*) FROM sqlite_master) "
        "FROM pragma_user_version, pragma_application_id"
    ).fetchone()
    if version > VERSION and owner == APPLICATION_ID:
        raise StoreError(
            f"The session file was written by a newer version of Deputy (format {version}, this version supports "
            f"{VERSION}). Update Deputy, or name another folder in DEPUTY_STATE."
        )
    if owner not in (0, APPLICATION_ID) or (owner == 0 and (version or tables)):
        raise StoreError("The session file is a database of another program. Set DEPUTY_STATE to another folder.")
    return version
