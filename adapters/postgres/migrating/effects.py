"""What migrations do to tables that are there: the locks that they take, and what they read, rewrite or change.

Nobody writes this down by hand. `adapters/postgres/migrating/observation.py` runs each migration and looks at what PostgreSQL does, and
`migrations/effects.toml` keeps the answer, since a database in use must not be tried out.
"""

import tomllib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from core.frozen import Frozen


class LockMode(StrEnum):
    """PostgreSQL's locks on tables, the weakest first."""

    ACCESS_SHARE = "access share"
    ROW_SHARE = "row share"
    ROW_EXCLUSIVE = "row exclusive"
    SHARE_UPDATE_EXCLUSIVE = "share update exclusive"
    SHARE = "share"
    SHARE_ROW_EXCLUSIVE = "share row exclusive"
    EXCLUSIVE = "exclusive"
    ACCESS_EXCLUSIVE = "access exclusive"

    @classmethod
    def of_catalogue(cls, name: str) -> "LockMode":
        """`AccessShareLock` is how pg_locks writes it."""
        return next(mode for mode in cls if f"{mode.value.title().replace(' ', '')}Lock" == name)

    @property
    def strength(self) -> int:
        return list(LockMode).index(self)

    @property
    def stops(self) -> str:
        """What nobody else can do on the table meanwhile, in words for the operator. Empty if people notice nothing."""
        if self is LockMode.ACCESS_EXCLUSIVE:
            return "nobody reads or writes it"
        return "nobody writes it" if self.strength >= LockMode.SHARE.strength else ""

    def conflicts_with(self, other: "LockMode") -> bool:
        return other in _CONFLICTS[self]


_ALL: Final = frozenset(LockMode)
_CONFLICTS: Final[Mapping[LockMode, frozenset[LockMode]]] = {
    LockMode.ACCESS_SHARE: frozenset({LockMode.ACCESS_EXCLUSIVE}),
    LockMode.ROW_SHARE: frozenset({LockMode.EXCLUSIVE, LockMode.ACCESS_EXCLUSIVE}),
    LockMode.ROW_EXCLUSIVE: frozenset(mode for mode in LockMode if mode.strength >= LockMode.SHARE.strength),
    LockMode.SHARE_UPDATE_EXCLUSIVE: frozenset(mode for mode in LockMode if mode.strength >= LockMode.SHARE_UPDATE_EXCLUSIVE.strength),
    LockMode.SHARE: _ALL - {LockMode.ACCESS_SHARE, LockMode.ROW_SHARE, LockMode.SHARE},
    LockMode.SHARE_ROW_EXCLUSIVE: _ALL - {LockMode.ACCESS_SHARE, LockMode.ROW_SHARE},
    LockMode.EXCLUSIVE: _ALL - {LockMode.ACCESS_SHARE},
    LockMode.ACCESS_EXCLUSIVE: _ALL,
}


class Effect(Frozen):
    """On one table. `reads`: all its rows, or as many as a condition leaves. `indexes`: how many are built."""

    table: str
    lock: LockMode
    reads: bool = False
    rewrites: bool = False
    changes: bool = False
    indexes: int = 0


def read(text: str) -> Mapping[str, Sequence[Effect]]:
    """The effects by the migration's name, such as `0052_mailed_codes`."""
    return {name: tuple(_effect(table, words) for table, words in tables.items()) for name, tables in tomllib.loads(text).items()}


def _effect(table: str, words: Mapping[str, Any]) -> Effect:
    return Effect(table, **{**words, "lock": LockMode(words["lock"])})


def written(effects: Mapping[str, Sequence[Effect]]) -> str:
    """The text that `read` reads."""
    lines = ["# What each migration does to tables that are there before it. `.venv/bin/python -m ops.migration_effects` writes this file."]
    for name, of_one in effects.items():
        lines += ["", f"[{name}]", *(_line(effect) for effect in of_one)]
    return "\n".join(lines) + "\n"


def _line(effect: Effect) -> str:
    words = [f'lock = "{effect.lock}"']
    words += [f"{name} = true" for name in ("reads", "rewrites", "changes") if getattr(effect, name)]
    if effect.indexes:
        words.append(f"indexes = {effect.indexes}")
    return f"{effect.table} = {{ {', '.join(words)} }}"
