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
    # 3: a deleted session has the time from which its rows may be removed, and a session its queued prompts; an agent
    # has what its model receives of its history, and messages that it has not received. What the events of a session
    # amount to is saved from time to time.
    """
    ALTER TABLE agents ADD COLUMN context TEXT;
    ALTER TABLE agents ADD COLUMN notes TEXT;
    ALTER TABLE sessions ADD COLUMN prompts TEXT;
    ALTER TABLE sessions ADD COLUMN purge_after REAL NOT NULL DEFAULT 0;
    CREATE INDEX deleted_sessions ON sessions (purge_after) WHERE purge_after > 0;
    CREATE TABLE views (
        session INTEGER PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
        seq INTEGER NOT NULL,
        version TEXT NOT NULL,
        facts BLOB NOT NULL,
        transcripts BLOB NOT NULL
    );
    """,
    # 4: checkpoints.
    """
    CREATE TABLE checkpoints (
        number INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        checkpoint_id TEXT NOT NULL,
        turn_id TEXT NOT NULL,
        agent_id TEXT NOT NULL,
        time REAL NOT NULL,
        title TEXT NOT NULL,
        prompt TEXT,
        is_left INTEGER NOT NULL,
        counts TEXT NOT NULL,
        context TEXT,
        last_change INTEGER NOT NULL
    );
    CREATE UNIQUE INDEX checkpoints_by_id ON checkpoints (session, checkpoint_id);
    """,
    # 5: a change has its turn, what approved it, and the form of the file; what is unreviewed in a file is stored after
    # a review.
    """
    ALTER TABLE changes ADD COLUMN turn_id TEXT NOT NULL DEFAULT '';
    ALTER TABLE changes ADD COLUMN approved TEXT NOT NULL DEFAULT 'none';
    ALTER TABLE changes ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE changes ADD COLUMN before_form TEXT;
    ALTER TABLE changes ADD COLUMN after_form TEXT;
    CREATE TABLE reviews (
        session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        path TEXT NOT NULL,
        last_change INTEGER NOT NULL,
        withheld INTEGER NOT NULL,
        state BLOB NOT NULL,
        PRIMARY KEY (session, path)
    );
    """,
    # 6: a session has the effort and the thinking that were chosen for it.
    """
    ALTER TABLE sessions ADD COLUMN effort TEXT;
    ALTER TABLE sessions ADD COLUMN thinking TEXT;
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
    version = read_version(connection)
    if version == VERSION:
        return
    if version == 0:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in MIGRATIONS[read_version(connection) :]:
            for statement in filter(str.strip, step.split(";")):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk ends the transaction
            connection.execute("ROLLBACK")
        raise


def read_version(connection: sqlite3.Connection) -> int:
    """The version of the file; 0 for an empty one.

    Raises:
        StoreError: the file has a newer version or belongs to another program.
    """
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
