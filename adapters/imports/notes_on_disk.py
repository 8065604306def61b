"""Notes by key that need not stand in memory: where something is in a file, or what a plan has met so far."""

import sqlite3
from collections.abc import Iterable
from hashlib import blake2b


class NotesOnDisk:
    """SQLite keeps them in a file without a name, which is gone with the process. Keys are kept as digests, so the file tells nobody whose
    they are.
    """

    def __init__(self) -> None:
        # Threads take turns with it: each part of a file is read in one of them.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.execute("pragma journal_mode = off")
        self._database.execute("pragma synchronous = off")
        self._database.execute("create table notes (key blob primary key, note blob not null) without rowid")

    def note(self, entries: Iterable[tuple[str, bytes]]) -> None:
        self._database.execute("begin")
        self._database.executemany("insert or ignore into notes values (?, ?)", ((_digest(key), note) for key, note in entries))
        self._database.execute("commit")

    def find(self, key: str) -> bytes | None:
        row = self._database.execute("select note from notes where key = ?", (_digest(key),)).fetchone()
        return None if row is None else row[0]

    def close(self) -> None:
        self._database.close()


def _digest(key: str) -> bytes:
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
